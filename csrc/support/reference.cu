// The GPU reference: exact decode, f64 accumulation, no cleverness. Itself checked against the CPU reference.
#include "support/support.h"
#include "common/unit.cuh"
#include "support/decode.cuh"

namespace {

using namespace moebius_support;

struct Arguments {
  moebius_shape shape;
  moebius_operands operands;
  moebius_reference reference;
};

__host__ __device__ constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// One weight of expert e, without its global.
template <uint32_t Scheme>
__device__ double weight(const Arguments &a, uint32_t e, uint32_t n, uint32_t k) {
  const auto *values = static_cast<const uint8_t *>(a.operands.weights);
  const auto *scales = static_cast<const uint8_t *>(a.operands.weight_scales);
  const uint64_t row = uint64_t(e) * a.shape.n + n, index = row * a.shape.k + k;
  if constexpr (Scheme == MOEBIUS_NVFP4_W4A4 || Scheme == MOEBIUS_NVFP4_W4A16) {
    return decode_e2m1(nibble(values, index)) * decode_e4m3(scales[row * (a.shape.k / 16) + k / 16]);
  } else if constexpr (Scheme == MOEBIUS_MXFP4_W4A8) {
    return decode_e2m1(nibble(values, index)) * decode_ue8m0(scales[row * (a.shape.k / 32) + k / 32]);
  } else if constexpr (Scheme == MOEBIUS_FP8_BLOCK) {
    const uint64_t blocks_n = ceil_div(a.shape.n, 128), blocks_k = ceil_div(a.shape.k, 128);
    const auto *block_scales = static_cast<const float *>(a.operands.weight_scales);
    return decode_e4m3(values[index]) * double(block_scales[(e * blocks_n + n / 128) * blocks_k + k / 128]);
  } else if constexpr (Scheme == MOEBIUS_FP8) {
    return decode_e4m3(values[index]) * double(static_cast<const float *>(a.operands.weight_scales)[e]);
  } else {
    return decode_bf16(static_cast<const uint16_t *>(a.operands.weights)[index]);
  }
}

// One activation, without its global.
template <uint32_t Scheme>
__device__ double activation(const Arguments &a, uint32_t r, uint32_t k) {
  const auto *values = static_cast<const uint8_t *>(a.operands.activations);
  const auto *scales = static_cast<const uint8_t *>(a.operands.activation_scales);
  const uint64_t index = uint64_t(r) * a.shape.k + k;
  if constexpr (Scheme == MOEBIUS_NVFP4_W4A4) {
    return decode_e2m1(nibble(values, index)) * decode_e4m3(scales[uint64_t(r) * (a.shape.k / 16) + k / 16]);
  } else if constexpr (Scheme == MOEBIUS_MXFP4_W4A8) {
    return decode_e4m3(values[index]) * decode_ue8m0(scales[uint64_t(r) * (a.shape.k / 32) + k / 32]);
  } else if constexpr (Scheme == MOEBIUS_FP8_BLOCK) {
    const auto *group_scales = static_cast<const float *>(a.operands.activation_scales);
    return decode_e4m3(values[index]) * double(group_scales[r * ceil_div(a.shape.k, 128) + k / 128]);
  } else if constexpr (Scheme == MOEBIUS_FP8) {
    return decode_e4m3(values[index]) * double(static_cast<const float *>(a.operands.activation_scales)[0]);
  } else {
    return decode_bf16(static_cast<const uint16_t *>(a.operands.activations)[index]);
  }
}

// The product of the globals that multiply expert e's output.
template <uint32_t Scheme>
__device__ double global(const Arguments &a, uint32_t e) {
  if constexpr (Scheme == MOEBIUS_NVFP4_W4A4) {
    return double(a.operands.weight_globals[e]) *
           double(a.operands.activation_globals[a.shape.act_globals == 1 ? 0 : e]);
  } else if constexpr (Scheme == MOEBIUS_NVFP4_W4A16) {
    return double(a.operands.weight_globals[e]);
  } else {
    return 1.0;
  }
}

constexpr int kTile = 64, kDepth = 16, kMicro = 4;

// One block computes 64 rows x 64 columns of one expert; a thread 4 x 4 of them.
template <uint32_t Scheme>
__global__ void __launch_bounds__(256) reference_kernel(const Arguments a) {
  __shared__ double activations[kDepth][kTile + 1], weights[kDepth][kTile + 1];
  const uint32_t e = blockIdx.z;
  const uint32_t first = uint32_t(a.operands.offsets[e]), rows = uint32_t(a.operands.offsets[e + 1]) - first;
  const uint32_t row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  if (row0 >= rows) return;
  const uint32_t columns = a.reference.columns ? a.reference.column_count : a.shape.n;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;

  double value[kMicro][kMicro] = {}, magnitude[kMicro][kMicro] = {};
  for (uint32_t k0 = 0; k0 < a.shape.k; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += blockDim.x) {
      const uint32_t line = i / kDepth, k = k0 + i % kDepth;
      const uint32_t row = row0 + line, column = column0 + line;
      const bool has_row = row < rows && k < a.shape.k, has_column = column < columns && k < a.shape.k;
      activations[i % kDepth][line] = has_row ? activation<Scheme>(a, first + row, k) : 0.0;
      const uint32_t n = has_column && a.reference.columns ? a.reference.columns[uint64_t(e) * columns + column] : column;
      weights[i % kDepth][line] = has_column ? weight<Scheme>(a, e, n, k) : 0.0;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      for (int i = 0; i < kMicro; ++i) {
        for (int j = 0; j < kMicro; ++j) {
          const double product = activations[k][ty + 16 * i] * weights[k][tx + 16 * j];
          value[i][j] += product;
          magnitude[i][j] += fabs(product);
        }
      }
    }
    __syncthreads();
  }

  const double scale = global<Scheme>(a, e);
  for (int i = 0; i < kMicro; ++i) {
    for (int j = 0; j < kMicro; ++j) {
      const uint32_t row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row >= rows || column >= columns) continue;
      const uint64_t at = uint64_t(first + row) * columns + column;
      a.reference.values[at] = value[i][j] * scale;
      a.reference.abs_sums[at] = __double2float_ru(magnitude[i][j] * fabs(scale));
    }
  }
}

template <uint32_t Scheme>
int32_t launch(const Arguments &a, cudaStream_t stream, moebius_message *message) {
  const uint32_t columns = a.reference.columns ? a.reference.column_count : a.shape.n;
  const dim3 grid(uint32_t(ceil_div(columns, kTile)), uint32_t(ceil_div(a.reference.max_rows, kTile)), a.shape.experts);
  if (grid.x == 0 || grid.y == 0) return MOEBIUS_OK;
  reference_kernel<Scheme><<<grid, 256, 0, stream>>>(a);
  MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
  return MOEBIUS_OK;
}

}  // namespace

extern "C" int32_t moebius_support_reference(const moebius_shape *shape, const moebius_operands *operands,
                                             const moebius_reference *reference, moebius_stream stream,
                                             moebius_message *message) {
  const Arguments a{*shape, *operands, *reference};
  const auto s = reinterpret_cast<cudaStream_t>(stream);
  switch (reference->scheme) {
    case MOEBIUS_NVFP4_W4A4: return launch<MOEBIUS_NVFP4_W4A4>(a, s, message);
    case MOEBIUS_NVFP4_W4A16: return launch<MOEBIUS_NVFP4_W4A16>(a, s, message);
    case MOEBIUS_MXFP4_W4A8: return launch<MOEBIUS_MXFP4_W4A8>(a, s, message);
    case MOEBIUS_FP8_BLOCK: return launch<MOEBIUS_FP8_BLOCK>(a, s, message);
    case MOEBIUS_FP8: return launch<MOEBIUS_FP8>(a, s, message);
    case MOEBIUS_BF16: return launch<MOEBIUS_BF16>(a, s, message);
    default: return moebius::failed(message, "unknown scheme %u", reference->scheme);
  }
}
