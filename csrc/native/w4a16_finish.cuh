// From the sums of a block's warps to the output, or to the block that holds the tile's end.
//
// Cut tiles. A block takes its range's tiles from the last to the first. The last may go on in the next block: its f32 sums are
// published at once. The first may have begun in earlier blocks: they published long ago, and this block, which holds the tile's
// end, adds theirs to its own in block order, so the answer is the same to the bit every time. Published words are their
// own flags: the buffer holds kPoison, a NaN that is never published, wherever nothing is, and the reader puts it back. A block
// waits for blocks of lower number only, which were started before it, so that it never waits for one that cannot start.
#pragma once

#include <type_traits>

#include "native/w4a16_multiply.cuh"
#include "native/w4a16_work.cuh"

namespace {

constexpr uint32_t kPoison = 0xffffffffu;  // a NaN

constexpr uint32_t largest_power_of_two_in(uint32_t value, uint32_t most) {
  return most > 1 && value % most != 0 ? largest_power_of_two_in(value, most / 2) : most;
}

// The sums of warps that share rows are finished by as many of these warps as they can be divided among. What is dealt is a
// pair of 16-row tiles by eight activation rows; pair after pair, so that a lane has neighbours in n.
template <uint32_t NT>
struct Share {
  static constexpr uint32_t kAll = kPairs * NT, kHolders = largest_power_of_two_in(kAll, kWarpsK), kOwn = kAll / kHolders;
  // Pairs of a lane that lie side by side: 8 consecutive n where a warp has both blocks of 64 rows, else 4.
  static constexpr uint32_t kJoined = kPairs % 2 == 0 && kOwn % 2 == 0 ? 2 : 1;

  float sums[kOwn][2][4];  // [pair and eight rows][tile]
};

// Sums the accumulators of the warps that share rows, in a fixed order. False for a warp without a share.
template <uint32_t NT>
__device__ inline bool share_sums(float4 *buffer, uint32_t warp_m, uint32_t warp_k, const Accumulators<NT> &sum, Share<NT> &share) {
  constexpr uint32_t kOwn = Share<NT>::kOwn, kVectors = kOwn * 2;
  const uint32_t lane = threadIdx.x % 32;
  const auto zone = [&](uint32_t holder, uint32_t other) {
    return buffer + (((holder * (kWarpsK - 1) + other) * kWarpsM + warp_m) * kVectors) * 32 + lane;
  };
#pragma unroll
  for (uint32_t holder = 0; holder < Share<NT>::kHolders; ++holder) {
    float4 *given = zone(holder, warp_k < holder ? warp_k : warp_k - 1);
#pragma unroll
    for (uint32_t i = 0; i < kOwn; ++i) {
#pragma unroll
      for (uint32_t tile = 0; tile < 2; ++tile) {
        const uint32_t at = holder * kOwn + i;
        const float *s = sum[at % kPairs * 2 + tile][at / kPairs];
        if (kWarpsK == 1 || holder == warp_k) {
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e) share.sums[i][tile][e] = s[e];
        } else {
          given[(i * 2 + tile) * 32] = make_float4(s[0], s[1], s[2], s[3]);
        }
      }
    }
  }
  if constexpr (kWarpsK > 1) {
    consumers_sync(kConsumers);
    if (warp_k < Share<NT>::kHolders) {
#pragma unroll
      for (uint32_t other = 0; other + 1 < kWarpsK; ++other) {
        const float4 *taken = zone(warp_k, other);
#pragma unroll
        for (uint32_t v = 0; v < kVectors; ++v) {
          const float4 value = taken[v * 32];
          float *s = share.sums[v / 2][v % 2];
          s[0] += value.x, s[1] += value.y, s[2] += value.z, s[3] += value.w;
        }
      }
    }
    consumers_sync(kConsumers);  // before the next tile's sums take the place
  }
  return warp_k < Share<NT>::kHolders;
}

// Writes a warp's finished sums times `scale`.
template <uint32_t NT>
__device__ inline void store(const Arguments &a, const Tile &tile, uint32_t warp_m, uint32_t warp_k, float scale,
                             const Share<NT> &share) {
  constexpr uint32_t kJoined = Share<NT>::kJoined, kValues = 4 * kJoined;
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (uint32_t i = 0; i < Share<NT>::kOwn; i += kJoined) {
    const uint32_t at = warp_k * Share<NT>::kOwn + i;
    const uint32_t block = tile.row_block + warp_m * kPairs + at % kPairs;
    const uint32_t n = block / 2 * 2 * kBlockRows + 8 * g + block % 2 * 4;
#pragma unroll
    for (uint32_t c = 0; c < 2; ++c) {
      const uint32_t token = at / kPairs * 8 + 2 * t + c;
      if (token >= tile.rows) continue;
      __nv_bfloat16 *row = a.out + uint64_t(tile.row + token) * a.d.n;
      __align__(16) __nv_bfloat162 values[kValues / 2];
#pragma unroll
      for (uint32_t v = 0; v < kValues / 2; ++v) {  // row halves 0 and 1 of a 16-row tile
        const float *s = share.sums[i + v / 2][v % 2];
        values[v] = __floats2bfloat162_rn(s[c] * scale, s[2 + c] * scale);
      }
      if (a.d.n % kValues == 0) {
        using Vector = std::conditional_t<kJoined == 2, uint4, uint2>;
        if (n < a.d.n) *reinterpret_cast<Vector *>(row + n) = *reinterpret_cast<const Vector *>(values);
      } else {
#pragma unroll
        for (uint32_t v = 0; v < kValues; ++v) {
          if (n + v < a.d.n) row[n + v] = v % 2 == 0 ? values[v / 2].x : values[v / 2].y;
        }
      }
    }
  }
}

// Where a lane's vectors of a block's published sums lie, 32 apart.
template <uint32_t NT>
__device__ inline uint4 *published(const Arguments &a, uint32_t block, uint32_t warp_m, uint32_t warp_k) {
  return reinterpret_cast<uint4 *>(a.partials + uint64_t(block) * kTileRows * kTileTokens) +
         (warp_m * Share<NT>::kHolders + warp_k) * Share<NT>::kOwn * 2 * 32 + threadIdx.x % 32;
}

// The word of a sum; a NaN that looks like kPoison, should one come, becomes another.
__device__ inline uint32_t flag_free(float sum) {
  const uint32_t word = __float_as_uint(sum);
  return word == kPoison ? 0x7fffffffu : word;
}

template <uint32_t NT>
__device__ inline void publish(const Arguments &a, uint32_t warp_m, uint32_t warp_k, const Share<NT> &share) {
  uint4 *own = published<NT>(a, blockIdx.x, warp_m, warp_k);
#pragma unroll
  for (uint32_t v = 0; v < Share<NT>::kOwn * 2; ++v) {
    const float *s = share.sums[v / 2][v % 2];
    store_relaxed(own + v * 32, make_uint4(flag_free(s[0]), flag_free(s[1]), flag_free(s[2]), flag_free(s[3])));
  }
}

// Adds what the blocks from `first` to the one before this have published of the tile.
template <uint32_t NT>
__device__ inline void join(const Arguments &a, uint32_t first, uint32_t warp_m, uint32_t warp_k, Share<NT> &share) {
  constexpr uint32_t kVectors = Share<NT>::kOwn * 2;
  constexpr uint32_t kBatch = kVectors % 8 == 0 ? 8 : kVectors % 6 == 0 ? 6 : kVectors % 4 == 0 ? 4 : 2;  // reads in flight
  for (uint32_t block = first; block < blockIdx.x; ++block) {
    uint4 *other = published<NT>(a, block, warp_m, warp_k);
#pragma unroll
    for (uint32_t at = 0; at < kVectors; at += kBatch) {
      uint4 values[kBatch];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (uint32_t v = 0; v < kBatch; ++v) {
          values[v] = load_relaxed(other + (at + v) * 32);
        }
#pragma unroll
        for (uint32_t v = 0; v < kBatch; ++v) {
          complete = complete && values[v].x != kPoison && values[v].y != kPoison && values[v].z != kPoison && values[v].w != kPoison;
        }
      } while (!complete);
#pragma unroll
      for (uint32_t v = 0; v < kBatch; ++v) {
        float *s = share.sums[(at + v) / 2][(at + v) % 2];
        s[0] += __uint_as_float(values[v].x), s[1] += __uint_as_float(values[v].y);
        s[2] += __uint_as_float(values[v].z), s[3] += __uint_as_float(values[v].w);
        store_relaxed(other + (at + v) * 32, make_uint4(kPoison, kPoison, kPoison, kPoison));
      }
    }
  }
}

}  // namespace
