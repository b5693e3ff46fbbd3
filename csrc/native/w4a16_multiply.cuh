// A warp's share of a stage: from shared memory into registers, decoded, multiplied.
//
// e2m1 is shifted into bf16's place, where it is worth value * 2^-126; the block scale, held as bf16 times 2^119, brings it to
// value * scale * 2^-7 in one multiplication. Both are exact: six significant bits.
#pragma once

#include "native/w4a16_config.cuh"

namespace {

// Eight e2m1 values as four bf16 pairs times 2^-126: see bit_position.
__device__ inline void decode(uint32_t word, uint32_t (&pairs)[4]) {
  pairs[0] = (word & 0x81808180u) | (word >> 8 & 0x00400040u);
  pairs[1] = word << 2 & 0x81c081c0u;
  pairs[2] = word << 6 & 0x81c081c0u;
  pairs[3] = __funnelshift_r(word, word, 4) & 0x81c081c0u;
}

// Bytes 0 and 2 of the normalised scales as bf16 times 2^119, one in each half: exponent field = stored + 237.
__device__ inline __nv_bfloat162 even_scales(uint32_t bytes) {
  uint32_t pair = (bytes & 0x00ff00ffu) * 16 + 0x76807680u;
  return reinterpret_cast<const __nv_bfloat162 &>(pair);
}

__device__ inline uint32_t multiply(uint32_t a, __nv_bfloat162 b) {
  const __nv_bfloat162 product = __hmul2(reinterpret_cast<const __nv_bfloat162 &>(a), b);
  return reinterpret_cast<const uint32_t &>(product);
}

__device__ inline void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Accumulators of a warp for NT tiles of eight rows.
template <uint32_t NT>
using Accumulators = float[kPairs * 2][NT][4];

// What a warp multiplies in one step of 32 k: its words and scales of the weights, and the rows.
template <uint32_t NT>
struct Fragment {
  uint4 words[kPairs];
  uint32_t scales[kPairs];
  uint4 activations[NT];
};

// Where a lane finds its part of a stage: offsets to which only constants are added, so that a load costs no arithmetic.
struct LaneOffsets {
  uint32_t words, scales, activations;

  __device__ LaneOffsets(uint32_t warp_m, uint32_t warp_k) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, step = warp_k * kWarpSteps;
    const uint32_t block = (warp_m * kPairs * kStageBlocks + step) * kBlockBytes;
    words = block + lane * 16;
    scales = block + kValueBytes + (g * 2 + t / 2) * 4;
    activations = g * kActivationPitch + step * kBlockDepth * 2 + t * 16;
  }
};

// Where a stage lies.
struct Stage {
  uint8_t *weights, *activations;
};

// Reads step `step` of the warp's share of a stage.
template <uint32_t NT>
__device__ inline void load_fragment(const Stage &stage, const LaneOffsets &at, uint32_t step, Fragment<NT> &f) {
#pragma unroll
  for (uint32_t nt = 0; nt < NT; ++nt) {
    f.activations[nt] = *reinterpret_cast<const uint4 *>(stage.activations + at.activations + nt * 8 * kActivationPitch +
                                                         step * kBlockDepth * 2);
  }
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    const uint32_t block = (p * kStageBlocks + step) * kBlockBytes;
    f.words[p] = *reinterpret_cast<const uint4 *>(stage.weights + at.words + block);
    f.scales[p] = *reinterpret_cast<const uint32_t *>(stage.weights + at.scales + block);
  }
}

// Makes what lies beyond `valid_k` of a stage harmless: zeros for activations, and scales that are numbers; any word of values
// is finite then. Every warp does so for what it reads itself; warps that share activations write the same zeros.
__device__ __noinline__ void clear_tail(const Stage &stage, uint32_t warp_m, uint32_t warp_k, uint32_t valid_k) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t step = warp_k * kWarpSteps; step < (warp_k + 1) * kWarpSteps; ++step) {
    const uint32_t begin = max(step * kBlockDepth, valid_k), end = (step + 1) * kBlockDepth;  // multiples of 16
    if (begin >= end) continue;
    for (uint32_t token = lane; token < kTileTokens; token += 32) {
      for (uint32_t k = begin; k < end; k += 8) {
        *reinterpret_cast<uint4 *>(stage.activations + token * kActivationPitch + k * 2) = make_uint4(0, 0, 0, 0);
      }
    }
    if (begin != step * kBlockDepth) continue;  // the packed block holds zeros itself
    for (uint32_t row_block = warp_m * kPairs; row_block < (warp_m + 1) * kPairs; ++row_block) {
      uint8_t *block = stage.weights + (row_block * kStageBlocks + step) * kBlockBytes;
      if (lane < kScaleBytes / 4) reinterpret_cast<uint32_t *>(block + kValueBytes)[lane] = 0;
    }
  }
  writes_before_copies();
  __syncwarp();
}

template <uint32_t NT>
__device__ inline void multiply_fragment(const Fragment<NT> &f, Accumulators<NT> &sum) {
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t low[2][4], high[2][4];  // [tile][pair of k], rows g and g + 8
    decode(f.words[p].x, low[0]);
    decode(f.words[p].y, high[0]);
    decode(f.words[p].z, low[1]);
    decode(f.words[p].w, high[1]);
    const __nv_bfloat162 low_scales = even_scales(f.scales[p]), high_scales = even_scales(f.scales[p] >> 8);
#pragma unroll
    for (uint32_t tile = 0; tile < 2; ++tile) {
      const __nv_bfloat162 scale_low = tile == 0 ? __low2bfloat162(low_scales) : __high2bfloat162(low_scales);
      const __nv_bfloat162 scale_high = tile == 0 ? __low2bfloat162(high_scales) : __high2bfloat162(high_scales);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) {
        low[tile][j] = multiply(low[tile][j], scale_low);
        high[tile][j] = multiply(high[tile][j], scale_high);
      }
    }
    // Products of one accumulator wait for each other: the other tiles' come in between.
#pragma unroll
    for (uint32_t j = 0; j < 4; j += 2) {
#pragma unroll
      for (uint32_t nt = 0; nt < NT; ++nt) {
#pragma unroll
        for (uint32_t tile = 0; tile < 2; ++tile) {
          mma(sum[p * 2 + tile][nt], low[tile][j], high[tile][j], low[tile][j + 1], high[tile][j + 1],
              j == 0 ? f.activations[nt].x : f.activations[nt].z, j == 0 ? f.activations[nt].y : f.activations[nt].w);
        }
      }
    }
  }
}

}  // namespace
