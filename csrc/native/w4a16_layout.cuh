// The packed layout of NVFP4 weights that w4a16 reads, and the way into it from the canonical one.
//
// A block holds 32 weight rows x 32 of k in 576 contiguous bytes; blocks lie [expert][n / 32][k / 32], so that one bulk copy
// brings a stretch of k for 32 rows. In a block lie two 16-row tiles of mma.m16n8k16: 32 lanes x 16 bytes (tile 0 rows g and
// g + 8, then tile 1 rows g and g + 8; a word holds the 8 values k = 8t .. 8t + 7 of lane 4g + t), then 64 bytes of scales
// [g][k / 16 of 2][tile][row g or g + 8].
//
// Two blocks share 64 rows of n: row h (g or g + 8) of tile i of block b stands for n = 64 * (b / 2) + 8g + 4 * (b % 2) + 2i + h.
// A lane then holds 4 consecutive n of a token, and 8 where a warp has both blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace moebius_w4a16 {

constexpr uint32_t kBlockRows = 32, kBlockDepth = 32;
constexpr uint32_t kValueBytes = kBlockRows * kBlockDepth / 2, kScaleBytes = kBlockRows * kBlockDepth / 16;
constexpr uint32_t kBlockBytes = kValueBytes + kScaleBytes;

__host__ __device__ constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

struct Dimensions {
  uint32_t experts, n, k;
  __host__ __device__ uint32_t row_blocks() const { return uint32_t(ceil_div(n, 2 * kBlockRows)) * 2; }
  __host__ __device__ uint32_t depth_blocks() const { return uint32_t(ceil_div(k, kBlockDepth)); }
  __host__ __device__ uint64_t expert_bytes() const { return uint64_t(row_blocks()) * depth_blocks() * kBlockBytes; }
};

// Where bit `b` (0 mantissa, 1 and 2 exponent, 3 sign) of value `v` of eight lies in a word. bf16 has them at 6, 7, 8 and 15 of
// each half, even values in the lower one. Shifts of the whole word bring three of the four pairs there, so that a mask ends
// them; four translates of that pattern do not tile a half, so the fourth pair takes one bit from elsewhere:
//   pair 0: in place but the mantissa, 8 above; pair 1: left by 2; pair 2: left by 6; pair 3: rotated right by 4, which brings
//   the sign from the other half.
// Nine operations a word is the least for placements whose last pair takes two shifts (all were tried).
__host__ __device__ constexpr uint32_t bit_position(uint32_t v, uint32_t bit) {
  constexpr uint8_t kPlace[4][4] = {{14, 7, 8, 15}, {4, 5, 6, 13}, {0, 1, 2, 9}, {10, 11, 12, 3}};
  return kPlace[v / 2][bit] + 16 * (v / 2 == 3 && bit == 3 ? 1 - v % 2 : v % 2);
}

// Packs eight e2m1 codes.
__host__ __device__ inline uint32_t pack_word(const uint32_t *codes) {
  uint32_t word = 0;
  for (uint32_t v = 0; v < 8; ++v) {
    for (uint32_t b = 0; b < 4; ++b) {
      word |= (codes[v] >> b & 1) << bit_position(v, b);
    }
  }
  return word;
}

// ue4m3 to a byte of five exponent and three mantissa bits without subnormals, exponent -9 as 0. A zero has no such form:
// its block's values are stored as zeros instead.
__host__ __device__ inline uint32_t normalised_scale(uint32_t ue4m3) {
  uint32_t exponent = ue4m3 >> 3 & 15, mantissa = ue4m3 & 7;
  if (exponent > 0) return (exponent + 2) << 3 | mantissa;  // 2^(exponent - 7), stored as that + 9
  if (mantissa == 0) return 0;
  // mantissa * 2^-9, normalised
  uint32_t shift = 0;
  while (mantissa < 8) mantissa <<= 1, ++shift;
  return (3 - shift) << 3 | (mantissa & 7);
}

// One thread writes the four words of a lane of a block, and where it is the first of its two lanes, their scales.
static __global__ void pack_kernel(Dimensions d, const uint8_t *values, const uint8_t *scales, uint8_t *packed) {
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  // [expert][pair of row blocks][depth block], each for two warps
  const uint64_t index = blockIdx.x;
  const uint32_t depth_block = uint32_t(index % d.depth_blocks());
  const uint32_t pairs = d.row_blocks() / 2;
  const uint32_t row_block = uint32_t(index / d.depth_blocks() % pairs) * 2 + threadIdx.x / 32;
  const uint32_t expert = uint32_t(index / d.depth_blocks() / pairs);
  uint8_t *out = packed + ((uint64_t(expert) * d.row_blocks() + row_block) * d.depth_blocks() + depth_block) * kBlockBytes;
  const uint32_t k = depth_block * kBlockDepth + 8 * t;
  uint32_t words[4];
  uint32_t scale_bytes = 0;
  for (uint32_t i = 0; i < 4; ++i) {  // tile i / 2, row half i % 2
    const uint32_t n = row_block / 2 * 2 * kBlockRows + 8 * g + row_block % 2 * 4 + i;
    const bool inside = n < d.n && k < d.k;
    const uint64_t row = uint64_t(expert) * d.n + n;
    const uint32_t scale = inside ? scales[row * (d.k / 16) + k / 16] : 0;
    uint32_t codes[8] = {};
    if ((scale & 0x7f) != 0) {
      for (uint32_t v = 0; v < 8; ++v) codes[v] = values[(row * d.k + k + v) / 2] >> (4 * (v % 2)) & 15;
    }
    words[i] = pack_word(codes);
    scale_bytes |= normalised_scale(scale) << (8 * i);
  }
  reinterpret_cast<uint4 *>(out)[lane] = make_uint4(words[0], words[1], words[2], words[3]);
  if (t % 2 == 0) reinterpret_cast<uint32_t *>(out + kValueBytes)[g * 2 + t / 2] = scale_bytes;
}

}  // namespace moebius_w4a16
