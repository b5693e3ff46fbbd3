// Block scales in the order in which block-scaled tensor cores read them.
//
// Scales are bytes (ue4m3 or ue8m0), one for a row and `group` values of k. 128 rows x 4 groups form an atom of 512 bytes:
// scale (r, g) of an atom lies at (r % 32) * 16 + (r / 32) * 4 + g. Atoms follow one another along k first, then along the
// rows. A plane is the scales of one expert; it begins at a whole atom, so its rows are padded to 128 and its groups to 4.
// Padding is zero: a tile may multiply it with zeros that TMA filled in, and zero times a NaN scale would be NaN.
//
// Weights: expert e's plane begins at padded row e * round_up(n, 128). Activations: expert e's plane begins at padded row
// (offsets[e] + 127 * e) / 128 * 128, which leaves each expert the atoms that it needs whatever the others have, and needs
// no sum over the experts before it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/launch.cuh"
#include "common/unit.cuh"

namespace moebius {
namespace {

constexpr uint32_t kAtomRows = 128;
constexpr uint32_t kAtomGroups = 4;

// Words (4 scales of one row) that a padded row holds.
__host__ __device__ constexpr uint32_t scale_words(uint32_t k, uint32_t group) {
  return (k / group + kAtomGroups - 1) / kAtomGroups;
}

// First padded row of an expert's plane of activation scales.
__host__ __device__ constexpr int64_t plane_row(int64_t first_row, uint32_t expert) {
  return (first_row + int64_t(expert) * (kAtomRows - 1)) / kAtomRows * kAtomRows;
}

// First padded row of an expert's plane of weight scales.
__host__ __device__ constexpr int64_t weight_plane_row(uint32_t expert, uint32_t n) {
  return int64_t(expert) * ((n + kAtomRows - 1) / kAtomRows * kAtomRows);
}

// Bytes of the activation planes, whatever the rows of each expert.
inline uint64_t activation_scale_bytes(const moebius_shape &shape, uint32_t group) {
  return uint64_t(plane_row(shape.rows, shape.experts)) * scale_words(shape.k, group) * kAtomGroups;
}

// Bytes of the weight planes.
inline uint64_t weight_scale_bytes(const moebius_shape &shape, uint32_t group) {
  return uint64_t(weight_plane_row(shape.experts, shape.n)) * scale_words(shape.k, group) * kAtomGroups;
}

// Where the word of a padded row lies, in words.
__device__ inline int64_t word_index(int64_t padded_row, uint32_t word, uint32_t words) {
  const uint32_t row = uint32_t(padded_row % kAtomRows);
  return (padded_row / kAtomRows * words + word) * kAtomRows + (row % 32) * 4 + row / 32;
}

// Four scales of a canonical row; those past its end are zero.
__device__ inline uint32_t load_word(const uint8_t *row, uint32_t word, uint32_t groups) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < kAtomGroups; ++i) {
    const uint32_t group = word * kAtomGroups + i;
    value |= group < groups ? uint32_t(row[group]) << (8 * i) : 0u;
  }
  return value;
}

// Canonical weight scales [experts][n][groups] -> planes. One thread a word.
__global__ void pack_weight_scales(const uint8_t *scales, uint32_t *packed, uint32_t experts, uint32_t n,
                                   uint32_t groups, uint32_t words) {
  const int64_t rows = weight_plane_row(1, n);
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= rows * experts * words) {
    return;
  }
  const int64_t padded_row = index / words;
  const uint32_t word = uint32_t(index % words);
  const int64_t row = padded_row % rows;
  const uint8_t *source = scales + (padded_row / rows * n + row) * groups;
  packed[word_index(padded_row, word, words)] = row < n ? load_word(source, word, groups) : 0u;
}

// Canonical activation scales [rows][groups], sorted by expert -> planes. One thread a word of every padded row.
__global__ void pack_activation_scales(const uint8_t *scales, const int32_t *offsets, uint32_t *packed,
                                       uint32_t experts, int64_t padded_rows, uint32_t groups, uint32_t words) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= padded_rows * words) {
    return;
  }
  const int64_t padded_row = index / words;
  const uint32_t word = uint32_t(index % words);
  // The last expert whose plane does not begin after this row; planes of experts without rows may begin at the same row.
  uint32_t expert = 0;
  for (uint32_t end = experts; end - expert > 1;) {
    const uint32_t middle = expert + (end - expert) / 2;
    if (plane_row(offsets[middle], middle) <= padded_row) {
      expert = middle;
    } else {
      end = middle;
    }
  }
  const int64_t row = offsets[expert] + padded_row - plane_row(offsets[expert], expert);
  packed[word_index(padded_row, word, words)] =
      row < offsets[expert + 1] ? load_word(scales + row * groups, word, groups) : 0u;
}

// Scales of `group` values of k as 128x4 planes: what a kernel needs of them around its launches.
template <uint32_t group>
struct ScalePlanes {
  static constexpr uint32_t kThreads = 256;

  static void sizes(const moebius_shape &shape, moebius_sizes *sizes) {
    sizes->packed_weights = weight_scale_bytes(shape, group);
    sizes->packed_activations = activation_scale_bytes(shape, group);
  }

  static dim3 blocks(uint64_t bytes) { return dim3(uint32_t((bytes / kAtomGroups + kThreads - 1) / kThreads)); }

  static int32_t pack_weights(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                              moebius_message *message) {
    // The harness gives the buffer that sizes() asked for; it is const to kernels only.
    uint32_t *packed = static_cast<uint32_t *>(const_cast<void *>(operands->packed_weights));
    MOEBIUS_TRY_CUDA(launch(pack_weight_scales, blocks(weight_scale_bytes(*shape, group)), kThreads, 0,
                            reinterpret_cast<cudaStream_t>(stream), false,
                            static_cast<const uint8_t *>(operands->weight_scales), packed, shape->experts, shape->n,
                            shape->k / group, scale_words(shape->k, group)),
                     message);
    return MOEBIUS_OK;
  }

  static int32_t pack_activations(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                                  moebius_message *message) {
    uint32_t *packed = static_cast<uint32_t *>(const_cast<void *>(operands->packed_activations));
    const uint64_t bytes = activation_scale_bytes(*shape, group);
    if (bytes == 0) {
      return MOEBIUS_OK;
    }
    MOEBIUS_TRY_CUDA(launch(pack_activation_scales, blocks(bytes), kThreads, 0, reinterpret_cast<cudaStream_t>(stream),
                            false, static_cast<const uint8_t *>(operands->activation_scales), operands->offsets, packed,
                            shape->experts, plane_row(shape->rows, shape->experts), shape->k / group,
                            scale_words(shape->k, group)),
                     message);
    return MOEBIUS_OK;
  }

  // Scales of an expert, for prepare kernels.
  static __device__ const void *weights(const moebius_operands &operands, uint32_t expert, uint32_t n, uint32_t k) {
    return static_cast<const uint8_t *>(operands.packed_weights) +
           weight_plane_row(expert, n) * scale_words(k, group) * kAtomGroups;
  }
  static __device__ const void *activations(const moebius_operands &operands, uint32_t expert, int32_t first_row,
                                            uint32_t k) {
    return static_cast<const uint8_t *>(operands.packed_activations) +
           plane_row(first_row, expert) * scale_words(k, group) * kAtomGroups;
  }
};

}  // namespace
}  // namespace moebius
