// Operands made where they are used: seeded numbers, quantised, bit for bit as src/operands/generate.rs makes them on the
// host. Numbers are made anew wherever they are needed (a word of the stream costs a few instructions), so that nothing
// but the operand itself takes memory.
#include "common/unit.cuh"
#include "support/encode.cuh"
#include "support/support.h"

namespace {

using namespace moebius_support;

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlock = 128;  // side of an FP8 block, length of an FP8 group

// Word i of a stream (src/operands/stream.rs): SplitMix64.
__device__ inline uint64_t stream_word(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * kGolden;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__host__ __device__ constexpr uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

// bf16(z * factor) of sixteen bits, as f32; the product is exact.
__device__ inline float number(const moebius_numbers &x, uint32_t bits, float factor) {
  const uint32_t z = uint32_t(__ldg(x.table + (bits & 0x7fff)) | (bits & 0x8000)) << 16;
  const uint32_t b = __float_as_uint(__fmul_rn(__uint_as_float(z), factor));
  return __uint_as_float((b + 0x7fff + (b >> 16 & 1)) >> 16 << 16);
}

// Columns 4q to 4q + 3 of a row; zeros beyond k.
__device__ inline void numbers4(const moebius_numbers &x, uint32_t row, uint32_t q, float (&out)[4]) {
  const uint64_t w = stream_word(x.key, uint64_t(row) * ceil_div(x.k, 4) + q);
  const float row_factor = x.row_factors[row / x.rows_per_factor];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t column = 4 * q + i;
    if (column >= x.k) {
      out[i] = 0.0f;
      continue;
    }
    const float factor = x.column_factors ? __fmul_rn(row_factor, x.column_factors[column]) : row_factor;
    out[i] = number(x, uint32_t(w >> (16 * i)) & 0xffff, factor);
  }
}

template <uint32_t Count>
__device__ inline void numbers(const moebius_numbers &x, uint32_t row, uint32_t column, float (&out)[Count]) {
  static_assert(Count % 4 == 0, "whole words");
#pragma unroll
  for (uint32_t q = 0; q < Count / 4; ++q) {
    float four[4];
    numbers4(x, row, column / 4 + q, four);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) out[4 * q + i] = four[i];
  }
}

template <uint32_t Count>
__device__ inline uint32_t amax_bits(const float (&x)[Count]) {
  uint32_t most = 0;
#pragma unroll
  for (uint32_t i = 0; i < Count; ++i) most = max(most, __float_as_uint(x[i]) & kMagnitude);
  return most;
}

// The group of a row; groups can be empty.
__device__ inline uint32_t group_of(const moebius_numbers &x, uint32_t row) {
  uint32_t low = 0, high = x.groups;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    if (uint32_t(x.group_rows[middle]) <= row) low = middle;
    else high = middle;
  }
  return low;
}

// The largest magnitude over a block of threads, in every thread.
__device__ inline uint32_t block_max(uint32_t most) {
  __shared__ uint32_t of_warps[kThreads / 32];
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (uint32_t i = 0; i < kThreads / 32; ++i) most = max(most, of_warps[i]);
  __syncthreads();
  return most;
}

// Bits of the largest magnitude of each group, which begin at 0; blocks walk the rows.
__global__ void __launch_bounds__(kThreads) amax_kernel(const moebius_numbers x, uint32_t *amax) {
  for (uint32_t row = blockIdx.x; row < x.rows; row += gridDim.x) {
    uint32_t most = 0;
    for (uint32_t q = threadIdx.x; q < ceil_div(x.k, 4); q += kThreads) {
      float four[4];
      numbers4(x, row, q, four);
      most = max(most, amax_bits(four));
    }
    most = block_max(most);
    if (threadIdx.x == 0) atomicMax(amax + group_of(x, row), most);
  }
}

// Bits of a largest magnitude become the f32 that puts it at `top`, in place.
__global__ void scale_kernel(uint32_t *amax, uint32_t groups, float top) {
  const uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  if (group < groups) amax[group] = __float_as_uint(scale_to(top, amax[group]));
}

// A thread makes a run of columns of one row: a block of the format, or sixteen columns.
template <uint32_t Format>
constexpr uint32_t run_of() {
  return Format == MOEBIUS_FORMAT_MXFP4 || Format == MOEBIUS_FORMAT_MXFP8 ? 32 : 16;
}

template <uint32_t Format>
__global__ void __launch_bounds__(kThreads)
    run_kernel(const moebius_numbers x, uint8_t *values, uint8_t *scales, const float *globals) {
  constexpr uint32_t kRun = run_of<Format>();
  const uint32_t runs = ceil_div(x.k, kRun);
  const uint64_t all = uint64_t(x.rows) * runs, step = uint64_t(gridDim.x) * kThreads;
  for (uint64_t at = uint64_t(blockIdx.x) * kThreads + threadIdx.x; at < all; at += step) {
    const uint32_t row = uint32_t(at / runs), run = uint32_t(at % runs), column = run * kRun;
    const uint64_t first = uint64_t(row) * x.k + column;
    float v[kRun];
    numbers(x, row, column, v);
    if constexpr (Format == MOEBIUS_FORMAT_NVFP4 || Format == MOEBIUS_FORMAT_MXFP4) {
      float divisor;
      if constexpr (Format == MOEBIUS_FORMAT_NVFP4) {
        const float global = globals[group_of(x, row)];
        const uint32_t scale = encode_e4m3(__fdiv_rn(__fdiv_rn(__uint_as_float(amax_bits(v)), 6.0f), global));
        divisor = __fmul_rn(value_of_e4m3(scale), global);
        // Dividing by infinity makes a zero of every finite value.
        if (divisor == 0.0f) divisor = f32_infinity();
        scales[at] = uint8_t(scale);
      } else {
        const uint32_t scale = encode_ue8m0(amax_bits(v), 2);
        divisor = value_of_ue8m0(scale);
        scales[at] = uint8_t(scale);
      }
      // k is a multiple of the run, so each run begins at a whole word.
      uint32_t *words = reinterpret_cast<uint32_t *>(values + first / 2);
      for (uint32_t word = 0; word < kRun / 8; ++word) {
        uint32_t packed = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) packed |= code_e2m1(v[8 * word + i], divisor) << (4 * i);
        words[word] = packed;
      }
    } else if constexpr (Format == MOEBIUS_FORMAT_MXFP8) {
      const uint32_t scale = encode_ue8m0(amax_bits(v), 8);
      scales[at] = uint8_t(scale);
      uint32_t *words = reinterpret_cast<uint32_t *>(values + first);
      for (uint32_t word = 0; word < kRun / 4; ++word) {
        uint32_t packed = 0;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) packed |= code_e4m3(v[4 * word + i], value_of_ue8m0(scale)) << (8 * i);
        words[word] = packed;
      }
    } else if constexpr (Format == MOEBIUS_FORMAT_FP8) {
      const float scale = globals[group_of(x, row)];
      for (uint32_t i = 0; i < kRun && column + i < x.k; ++i) values[first + i] = uint8_t(code_e4m3(v[i], scale));
    } else {
      uint16_t *out = reinterpret_cast<uint16_t *>(values) + first;
      for (uint32_t i = 0; i < kRun && column + i < x.k; ++i) out[i] = uint16_t(__float_as_uint(v[i]) >> 16);
    }
  }
}

// One block makes a rectangle of `rows_high` rows x 128 columns that shares a scale: 1 for groups, 128 for blocks.
__global__ void __launch_bounds__(kThreads)
    rectangle_kernel(const moebius_numbers x, uint32_t rows_high, uint32_t rows_per_group, uint8_t *values, float *scales) {
  const uint32_t across = ceil_div(x.k, kBlock), bands = ceil_div(rows_per_group, rows_high);
  const uint64_t all = uint64_t(x.rows / rows_per_group) * bands * across;
  for (uint64_t at = blockIdx.x; at < all; at += gridDim.x) {
    const uint32_t strip = uint32_t(at % across);
    const uint64_t band = at / across;
    const uint32_t inside = uint32_t(band % bands) * rows_high;
    const uint32_t row0 = uint32_t(band / bands) * rows_per_group + inside, high = min(rows_high, rows_per_group - inside);
    uint32_t most = 0;
    for (uint32_t i = threadIdx.x; i < high * (kBlock / 4); i += kThreads) {
      float four[4];
      numbers4(x, row0 + i / (kBlock / 4), strip * (kBlock / 4) + i % (kBlock / 4), four);
      most = max(most, amax_bits(four));
    }
    const float scale = scale_to(448.0f, block_max(most));
    if (threadIdx.x == 0) scales[at] = scale;
    for (uint32_t i = threadIdx.x; i < high * (kBlock / 4); i += kThreads) {
      const uint32_t row = row0 + i / (kBlock / 4), q = strip * (kBlock / 4) + i % (kBlock / 4);
      float four[4];
      numbers4(x, row, q, four);
      for (uint32_t j = 0; j < 4 && 4 * q + j < x.k; ++j) {
        values[uint64_t(row) * x.k + 4 * q + j] = uint8_t(code_e4m3(four[j], scale));
      }
    }
  }
}

constexpr uint32_t kMostBlocks = 16384;  // kernels walk what a grid of this size leaves

uint32_t blocks_for(uint64_t work) { return uint32_t(work < kMostBlocks ? work : kMostBlocks); }

template <uint32_t Format>
int32_t runs(const moebius_numbers &x, void *values, void *scales, float *globals, float top, cudaStream_t stream,
             moebius_message *message) {
  if (top != 0.0f) {
    auto *amax = reinterpret_cast<uint32_t *>(globals);
    MOEBIUS_TRY_CUDA(cudaMemsetAsync(amax, 0, x.groups * sizeof(uint32_t), stream), message);
    if (x.rows > 0) amax_kernel<<<blocks_for(x.rows), kThreads, 0, stream>>>(x, amax);
    MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
    scale_kernel<<<ceil_div(x.groups, kThreads), kThreads, 0, stream>>>(amax, x.groups, top);
    MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
  }
  if (x.rows == 0) return MOEBIUS_OK;
  const uint64_t threads = uint64_t(x.rows) * ceil_div(x.k, run_of<Format>());
  run_kernel<Format><<<blocks_for((threads + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      x, static_cast<uint8_t *>(values), static_cast<uint8_t *>(scales), globals);
  MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
  return MOEBIUS_OK;
}

int32_t rectangles(const moebius_numbers &x, uint32_t rows_high, uint32_t rows_per_group, void *values, void *scales,
                   cudaStream_t stream, moebius_message *message) {
  if (x.rows == 0) return MOEBIUS_OK;
  const uint64_t all =
      uint64_t(x.rows / rows_per_group) * ceil_div(rows_per_group, rows_high) * ceil_div(x.k, kBlock);
  rectangle_kernel<<<blocks_for(all), kThreads, 0, stream>>>(x, rows_high, rows_per_group, static_cast<uint8_t *>(values),
                                                            static_cast<float *>(scales));
  MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
  return MOEBIUS_OK;
}

}  // namespace

extern "C" int32_t moebius_support_generate(uint32_t format, const moebius_numbers *numbers, void *values, void *scales,
                                            float *globals, moebius_stream stream, moebius_message *message) {
  const moebius_numbers &x = *numbers;
  const auto s = reinterpret_cast<cudaStream_t>(stream);
  switch (format) {
    case MOEBIUS_FORMAT_BF16: return runs<MOEBIUS_FORMAT_BF16>(x, values, scales, globals, 0.0f, s, message);
    // The largest magnitude goes to the top of both formats: 6 x 448.
    case MOEBIUS_FORMAT_NVFP4: return runs<MOEBIUS_FORMAT_NVFP4>(x, values, scales, globals, 2688.0f, s, message);
    case MOEBIUS_FORMAT_MXFP4: return runs<MOEBIUS_FORMAT_MXFP4>(x, values, scales, globals, 0.0f, s, message);
    case MOEBIUS_FORMAT_MXFP8: return runs<MOEBIUS_FORMAT_MXFP8>(x, values, scales, globals, 0.0f, s, message);
    case MOEBIUS_FORMAT_FP8: return runs<MOEBIUS_FORMAT_FP8>(x, values, scales, globals, 448.0f, s, message);
    case MOEBIUS_FORMAT_FP8_GROUP: return rectangles(x, 1, 1, values, scales, s, message);
    case MOEBIUS_FORMAT_FP8_BLOCK:
      if (x.groups == 0 || x.rows % x.groups != 0) {
        return moebius::failed(message, "%u rows are not %u groups of equal size", x.rows, x.groups);
      }
      return rectangles(x, kBlock, x.rows / x.groups, values, scales, s, message);
    default: return moebius::failed(message, "unknown format %u", format);
  }
}
