// native/sm80+/nvfp4-w4a16: grouped GEMM of NVFP4 weights and bf16 activations for few rows per expert.
//
// What it does. The work is bound by reading weights, so everything serves the stream of weights: blocks stay resident, a
// producer warp keeps a ring of stages full through the copy engine, consumer warps decode in registers and multiply by
// mma.m16n8k16 with the weights as the M operand, so that 1 to 8 rows of an expert fill one N tile. A tile is (expert, up to
// MOEBIUS_TILE_N rows, MOEBIUS_TILE_M weight rows); only touched experts have tiles. The tiles' stages of k are dealt to
// the blocks in one contiguous range each (stream-K), so that 8 experts fill the device as well as 256.
//
// Cut tiles. A block takes its range's tiles from the last to the first. The last may go on in the next block: its f32 sums are
// published at once. The first may have begun in earlier blocks: they published long ago, and this block, which holds the tile's
// end, adds theirs to its own in block order, so the answer is the same to the bit every time. Published words are their
// own flags: the buffer holds kPoison, a NaN that is never published, wherever nothing is, and the reader puts it back. A block
// waits for blocks of lower number only, which were started before it, so that it never waits for one that cannot start.
//
// Decode. e2m1 is shifted into bf16's place, where it is worth value * 2^-126; the block scale, held as bf16 times 2^119,
// brings it to value * scale * 2^-7 in one multiplication. Both are exact: six significant bits.
//
// Configuration: tile = [weight rows, rows, k of a stage]; WARPS_M and WARPS_K split a stage's rows and k over the consumer
// warps; STAGES is the most stages, fewer where shared memory is small; BLOCKS is the number of blocks on a multiprocessor.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "common/launch.cuh"
#include "common/unit.cuh"
#include "native/pipeline.cuh"
#include "native/w4a16_layout.cuh"

#ifndef MOEBIUS_BLOCKS
#define MOEBIUS_BLOCKS 1
#endif

namespace {

using namespace moebius_native;
using namespace moebius_w4a16;

constexpr uint32_t kTileRows = MOEBIUS_TILE_M, kTileTokens = MOEBIUS_TILE_N, kStageDepth = MOEBIUS_TILE_K;
constexpr uint32_t kWarpsM = MOEBIUS_WARPS_M, kWarpsK = MOEBIUS_WARPS_K, kMaxStages = MOEBIUS_STAGES;
constexpr uint32_t kBlocksPerSm = MOEBIUS_BLOCKS;
constexpr uint32_t kConsumerWarps = kWarpsM * kWarpsK, kConsumers = 32 * kConsumerWarps, kBlockThreads = kConsumers + 32;
constexpr uint32_t kWarpRows = kTileRows / kWarpsM, kPairs = kWarpRows / kBlockRows;  // pairs of 16-row tiles of a warp
constexpr uint32_t kTileBlocks = kTileRows / kBlockRows, kStageBlocks = kStageDepth / kBlockDepth;
constexpr uint32_t kWarpSteps = kStageBlocks / kWarpsK;  // 32-deep steps of a warp in a stage
constexpr uint32_t kMaxExperts = 1024;
constexpr uint32_t kPoison = 0xffffffffu;  // a NaN
// Rows of activations lie 64 bytes past a multiple of 128 apart, so that eight lanes read all banks once.
constexpr uint32_t kActivationPitch = kStageDepth * 2 + 64;
constexpr uint32_t kWeightStageBytes = kTileBlocks * kStageBlocks * kBlockBytes;
constexpr uint32_t kStageBytes = (kWeightStageBytes + kTileTokens * kActivationPitch + 127) / 128 * 128;
constexpr uint32_t kReduceBytes = kWarpsK > 1 ? kWarpsK / 2 * kTileRows * kTileTokens * 4 : 0;

static_assert(kTileRows % kBlockRows == 0 && (kWarpRows == 32 || kWarpRows % 64 == 0), "weight rows of a warp");
static_assert(kTileTokens % 8 == 0 && kTileTokens <= 32, "rows of a tile");
static_assert(kStageDepth % 64 == 0 && kStageBlocks % kWarpsK == 0, "k of a stage");
static_assert((kWarpsK & (kWarpsK - 1)) == 0, "the reduction halves");

struct Arguments {
  Dimensions d;
  uint32_t stages;
  const uint8_t *weights;
  const float *globals;
  const __nv_bfloat16 *activations;
  const int32_t *offsets;
  __nv_bfloat16 *out;
  float *partials;  // [blocks][kTileRows * kTileTokens], kPoison between runs
};

// A block's part of a tile. The producer leaves it beside the first of its stages.
struct __align__(16) Tile {
  uint32_t expert, row, rows, row_block;  // first row and rows of activations; first block of weight rows
  uint32_t stage_k, units;                // first stage of k, and how many
  uint32_t first_block;                   // that holds a part of it
  uint32_t ends;                          // 1: this block holds the tile's end and writes it
};

// What every thread knows of the work of all blocks.
struct Work {
  const int32_t *offsets;  // shared memory, [experts + 1]
  const uint32_t *tokens;  // shared memory, [experts + 1]: row groups before each expert
  uint32_t experts, tiles_m, stages_k;

  __device__ uint32_t units() const { return tokens[experts] * tiles_m * stages_k; }

  // By a whole warp.
  __device__ Tile tile(uint32_t index) const {
    const uint32_t group = index / tiles_m, lane = threadIdx.x % 32;
    // The last expert whose groups begin at or before this one; 32 probes at a time find it among 1,024 in two steps.
    uint32_t expert = 32 * (begun(32 * lane, group) - 1);
    expert += begun(expert + lane, group) - 1;
    // Row groups of the same weights follow each other, so that all but the first find them in L2.
    const uint32_t groups = tokens[expert + 1] - tokens[expert], inner = index - tokens[expert] * tiles_m;
    const uint32_t row_group = groups == 1 ? 0 : inner % groups, column = groups == 1 ? inner : inner / groups;
    const uint32_t row = uint32_t(offsets[expert]) + row_group * kTileTokens;
    return {expert, row, min(uint32_t(offsets[expert + 1]) - row, kTileTokens), column * kTileBlocks, 0, 0, 0, 0};
  }

  // How many lanes name an expert whose groups begin at or before `group`; they are the first lanes.
  __device__ uint32_t begun(uint32_t expert, uint32_t group) const {
    return __popc(__ballot_sync(~0u, expert < experts && tokens[expert] <= group));
  }
};

// How the units are dealt: `each` a block, one more to the first `longer` of them.
struct Deal {
  uint32_t each, longer;

  __device__ explicit Deal(uint32_t units) : each(units / gridDim.x), longer(units - each * gridDim.x) {}

  __device__ uint32_t first(uint32_t block) const { return block * each + min(block, longer); }

  // The block whose range holds `unit`.
  __device__ uint32_t owner(uint32_t unit) const {
    const uint32_t in_longer = longer * (each + 1);
    return unit < in_longer ? unit / (each + 1) : longer + (unit - in_longer) / each;
  }
};

// Offsets, globals and the row groups before each expert, by all threads of the block.
__device__ void scan_experts(const Arguments &a, int32_t *offsets, uint32_t *tokens, float *globals) {
  __shared__ uint32_t warp_sums[32];
  const uint32_t per_thread = (a.d.experts + kBlockThreads - 1) / kBlockThreads;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < per_thread; ++i) {
    const uint32_t e = threadIdx.x * per_thread + i;
    if (e < a.d.experts) {
      const int32_t begin = a.offsets[e], end = a.offsets[e + 1];
      globals[e] = a.globals[e];
      offsets[e] = begin;
      if (e + 1 == a.d.experts) offsets[e + 1] = end;
      tokens[e] = (uint32_t(end - begin) + kTileTokens - 1) / kTileTokens;
      sum += tokens[e];
    }
  }
  uint32_t inclusive = sum;
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, inclusive, step);
    if (threadIdx.x % 32 >= step) inclusive += other;
  }
  if (threadIdx.x % 32 == 31) warp_sums[threadIdx.x / 32] = inclusive;
  __syncthreads();
  uint32_t before = inclusive - sum;
  if (threadIdx.x * per_thread < a.d.experts) {
    for (uint32_t w = 0; w < threadIdx.x / 32; ++w) before += warp_sums[w];
  }
  for (uint32_t i = 0; i < per_thread; ++i) {
    const uint32_t e = threadIdx.x * per_thread + i;
    if (e < a.d.experts) {
      const uint32_t own = tokens[e];
      tokens[e] = before;
      before += own;
      if (e + 1 == a.d.experts) tokens[e + 1] = before;
    }
  }
  __syncthreads();
}

__device__ void produce(const Arguments &a, const Work &work, uint8_t *ring, Tile *tiles, uint64_t *full, uint64_t *empty) {
  const uint32_t lane = threadIdx.x % 32;
  const Deal deal(work.units());
  const uint32_t begin = deal.first(blockIdx.x);
  const uint32_t depth_blocks = a.d.depth_blocks(), row_blocks = a.d.row_blocks();
  const uint64_t policy = evict_first_policy();
  uint32_t slot = 0, parity = 1;  // the first round finds every stage empty
  for (uint32_t end = deal.first(blockIdx.x + 1); end > begin;) {
    const uint32_t index = (end - 1) / work.stages_k, tile_begin = index * work.stages_k, start = max(begin, tile_begin);
    Tile tile = work.tile(index);
    tile.stage_k = start - tile_begin;
    tile.units = end - start;
    tile.first_block = start == tile_begin ? blockIdx.x : deal.owner(tile_begin);
    tile.ends = end == tile_begin + work.stages_k;
    end = start;
    const uint32_t copies = min(kTileBlocks, row_blocks - tile.row_block);
    const uint8_t *weights = a.weights + (uint64_t(tile.expert) * row_blocks + tile.row_block) * depth_blocks * kBlockBytes;
    for (uint32_t unit = 0; unit < tile.units; ++unit) {
      const uint32_t block_k = (tile.stage_k + unit) * kStageBlocks, k = block_k * kBlockDepth;
      const uint32_t weight_bytes = min(kStageBlocks, depth_blocks - block_k) * kBlockBytes;
      const uint32_t row_bytes = min(kStageDepth, a.d.k - k) * 2;
      uint8_t *stage = ring + slot * kStageBytes;
      barrier_wait(&empty[slot], parity);
      if (lane == 0) {
        if (unit == 0) tiles[slot] = tile;
        announce(&full[slot], copies * weight_bytes + tile.rows * row_bytes);
      }
      __syncwarp();
      for (uint32_t i = lane; i < copies; i += 32) {
        copy_async(stage + i * kStageBlocks * kBlockBytes, weights + (uint64_t(i) * depth_blocks + block_k) * kBlockBytes, weight_bytes,
                   &full[slot], policy);
      }
      if (lane < tile.rows) {
        copy_async(stage + kWeightStageBytes + lane * kActivationPitch, a.activations + uint64_t(tile.row + lane) * a.d.k + k,
                   row_bytes, &full[slot]);
      }
      copies_issued(&full[slot]);
      if (++slot == a.stages) slot = 0, parity ^= 1;
    }
  }
}

// Eight e2m1 values as four bf16 pairs times 2^-126: see bit_position.
__device__ inline void decode(uint32_t word, uint32_t (&pairs)[4]) {
  pairs[0] = (word & 0x81808180u) | (word >> 8 & 0x00400040u);
  pairs[1] = word << 2 & 0x81c081c0u;
  pairs[2] = word << 6 & 0x81c081c0u;
  pairs[3] = __funnelshift_r(word, word, 4) & 0x81c081c0u;
}

// Byte `index` of the normalised scales as a bf16 pair times 2^119: exponent field = stored + 237.
__device__ inline uint32_t scale_pair(uint32_t bytes, uint32_t index) {
  return __byte_perm(bytes, 0, 0x4040 | index << 8 | index) * 16 + 0x76807680u;
}

__device__ inline uint32_t multiply(uint32_t a, uint32_t b) {
  const __nv_bfloat162 product = __hmul2(reinterpret_cast<__nv_bfloat162 &>(a), reinterpret_cast<__nv_bfloat162 &>(b));
  return reinterpret_cast<const uint32_t &>(product);
}

__device__ inline void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The ring as the consumers see it.
struct Ring {
  uint8_t *stages;
  const Tile *tiles;
  uint64_t *full, *empty;
  uint32_t count, slot, parity;
};

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
    activations = kWeightStageBytes + g * kActivationPitch + step * kBlockDepth * 2 + t * 16;
  }
};

// Reads step `step` of the warp's share of a stage.
template <uint32_t NT>
__device__ inline void load_fragment(const uint8_t *stage, const LaneOffsets &at, uint32_t step, Fragment<NT> &f) {
#pragma unroll
  for (uint32_t nt = 0; nt < NT; ++nt) {
    f.activations[nt] =
        *reinterpret_cast<const uint4 *>(stage + at.activations + nt * 8 * kActivationPitch + step * kBlockDepth * 2);
  }
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    const uint32_t block = (p * kStageBlocks + step) * kBlockBytes;
    f.words[p] = *reinterpret_cast<const uint4 *>(stage + at.words + block);
    f.scales[p] = *reinterpret_cast<const uint32_t *>(stage + at.scales + block);
  }
}

// Makes what lies beyond `valid_k` of a stage harmless: zeros for activations, and scales that are numbers; any word of values
// is finite then. Every warp does so for what it reads itself; warps that share activations write the same zeros.
__device__ __noinline__ void clear_tail(uint8_t *stage, uint32_t warp_m, uint32_t warp_k, uint32_t valid_k) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t step = warp_k * kWarpSteps; step < (warp_k + 1) * kWarpSteps; ++step) {
    const uint32_t begin = max(step * kBlockDepth, valid_k), end = (step + 1) * kBlockDepth;  // multiples of 16
    if (begin >= end) continue;
    for (uint32_t token = lane; token < kTileTokens; token += 32) {
      for (uint32_t k = begin; k < end; k += 8) {
        *reinterpret_cast<uint4 *>(stage + kWeightStageBytes + token * kActivationPitch + k * 2) = make_uint4(0, 0, 0, 0);
      }
    }
    if (begin != step * kBlockDepth) continue;  // the packed block holds zeros itself
    for (uint32_t row_block = warp_m * kPairs; row_block < (warp_m + 1) * kPairs; ++row_block) {
      uint8_t *block = stage + (row_block * kStageBlocks + step) * kBlockBytes;
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
    uint32_t low[2][4], high[2][4];  // [tile][pair of k]
    decode(f.words[p].x, low[0]);
    decode(f.words[p].y, high[0]);
    decode(f.words[p].z, low[1]);
    decode(f.words[p].w, high[1]);
#pragma unroll
    for (uint32_t tile = 0; tile < 2; ++tile) {
      const uint32_t scale_low = scale_pair(f.scales[p], 2 * tile), scale_high = scale_pair(f.scales[p], 2 * tile + 1);
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

// Sums the accumulators of the warps that share rows into those with warp_k 0, in a fixed order.
template <uint32_t NT>
__device__ inline void reduce_warps(float4 *buffer, uint32_t warp_m, uint32_t warp_k, Accumulators<NT> &sum) {
  constexpr uint32_t kVectors = kPairs * 2 * NT;
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t half = kWarpsK / 2; half > 0; half /= 2) {
    // A warp writes where it alone has read in the round before.
    const uint32_t writer = half == kWarpsK / 2 ? warp_k - half : warp_k;
    const uint32_t reader = half == kWarpsK / 2 ? warp_k : warp_k + half;
    if (warp_k >= half && warp_k < 2 * half) {
      float4 *zone = buffer + (writer * kWarpsM + warp_m) * kVectors * 32;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        const float *s = sum[v / NT][v % NT];
        zone[v * 32 + lane] = make_float4(s[0], s[1], s[2], s[3]);
      }
    }
    consumers_sync(kConsumers);
    if (warp_k < half) {
      const float4 *zone = buffer + (reader * kWarpsM + warp_m) * kVectors * 32;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        const float4 other = zone[v * 32 + lane];
        float *s = sum[v / NT][v % NT];
        s[0] += other.x, s[1] += other.y, s[2] += other.z, s[3] += other.w;
      }
    }
  }
  consumers_sync(kConsumers);
}

// Writes a warp's finished sums times `scale`.
template <uint32_t NT>
__device__ inline void store(const Arguments &a, const Tile &tile, uint32_t warp_m, float scale, const Accumulators<NT> &sum) {
  // Pairs of a lane that lie side by side: 8 consecutive n in a warp with both blocks of 64 rows, else 4.
  constexpr uint32_t kJoined = kPairs % 2 == 0 ? 2 : 1, kValues = 4 * kJoined;
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (uint32_t nt = 0; nt < NT; ++nt) {
#pragma unroll
    for (uint32_t c = 0; c < 2; ++c) {
      const uint32_t token = nt * 8 + 2 * t + c;
      if (token >= tile.rows) continue;
      __nv_bfloat16 *row = a.out + uint64_t(tile.row + token) * a.d.n;
#pragma unroll
      for (uint32_t p = 0; p < kPairs; p += kJoined) {
        const uint32_t block = tile.row_block + warp_m * kPairs + p;
        const uint32_t n = block / 2 * 2 * kBlockRows + 8 * g + block % 2 * 4;
        __align__(16) __nv_bfloat162 values[kValues / 2];
#pragma unroll
        for (uint32_t i = 0; i < kValues / 2; ++i) {  // tile 2p + i, row halves 0 and 1
          const float *s = sum[2 * p + i][nt];
          values[i] = __floats2bfloat162_rn(s[c] * scale, s[2 + c] * scale);
        }
        if (a.d.n % kValues == 0) {
          using Vector = std::conditional_t<kJoined == 2, uint4, uint2>;
          if (n < a.d.n) *reinterpret_cast<Vector *>(row + n) = *reinterpret_cast<const Vector *>(values);
        } else {
#pragma unroll
          for (uint32_t i = 0; i < kValues; ++i) {
            if (n + i < a.d.n) row[n + i] = i % 2 == 0 ? values[i / 2].x : values[i / 2].y;
          }
        }
      }
    }
  }
}

// Where a lane's vectors of a block's published sums lie, 32 apart.
template <uint32_t NT>
__device__ inline uint4 *published(const Arguments &a, uint32_t block, uint32_t warp_m) {
  return reinterpret_cast<uint4 *>(a.partials + uint64_t(block) * kTileRows * kTileTokens) + warp_m * kPairs * 2 * NT * 32 +
         threadIdx.x % 32;
}

// The word of a sum; a NaN that looks like kPoison, should one come, becomes another.
__device__ inline uint32_t flag_free(float sum) {
  const uint32_t word = __float_as_uint(sum);
  return word == kPoison ? 0x7fffffffu : word;
}

template <uint32_t NT>
__device__ inline void publish(const Arguments &a, uint32_t warp_m, const Accumulators<NT> &sum) {
  uint4 *own = published<NT>(a, blockIdx.x, warp_m);
#pragma unroll
  for (uint32_t v = 0; v < kPairs * 2 * NT; ++v) {
    const float *s = sum[v / NT][v % NT];
    store_relaxed(own + v * 32, make_uint4(flag_free(s[0]), flag_free(s[1]), flag_free(s[2]), flag_free(s[3])));
  }
}

// Adds what the blocks from `first` to the one before this have published of the tile.
template <uint32_t NT>
__device__ inline void join(const Arguments &a, uint32_t first, uint32_t warp_m, Accumulators<NT> &sum) {
  constexpr uint32_t kVectors = kPairs * 2 * NT;
  constexpr uint32_t kBatch = kVectors % 8 == 0 ? 8 : kVectors % 6 == 0 ? 6 : kVectors % 4 == 0 ? 4 : 2;  // reads in flight at a time
  for (uint32_t block = first; block < blockIdx.x; ++block) {
    uint4 *other = published<NT>(a, block, warp_m);
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
        float *s = sum[(at + v) / NT][(at + v) % NT];
        s[0] += __uint_as_float(values[v].x), s[1] += __uint_as_float(values[v].y);
        s[2] += __uint_as_float(values[v].z), s[3] += __uint_as_float(values[v].w);
        store_relaxed(other + (at + v) * 32, make_uint4(kPoison, kPoison, kPoison, kPoison));
      }
    }
  }
}

// Consumes this block's part of a tile, whose first stage has arrived, and finishes or publishes it.
template <uint32_t NT>
__device__ void consume_tile(const Arguments &a, const Tile &tile, float global, Ring &ring, float4 *reduce) {
  const uint32_t warp = threadIdx.x / 32, warp_m = warp % kWarpsM, warp_k = warp / kWarpsM;
  Accumulators<NT> sum = {};
  // A warp whose rows lie beyond n reads what the copies left alone; its sums are never stored.
  const LaneOffsets at(warp_m, warp_k);
  // The part's last stage, where it holds the end of a K that is no multiple of a stage.
  const uint32_t tail_k = a.d.k % kStageDepth, tail = tail_k != 0 && tile.ends ? tile.units - 1 : ~0u;
  const auto arrived_stage = [&](uint32_t u) -> const uint8_t * {
    uint8_t *stage = ring.stages + ring.slot * kStageBytes;
    barrier_wait(&ring.full[ring.slot], ring.parity);
    if (u == tail) clear_tail(stage, warp_m, warp_k, tail_k);
    return stage;
  };
  Fragment<NT> fragments[2];
  const uint8_t *stage = arrived_stage(0);
  load_fragment<NT>(stage, at, 0, fragments[0]);
  for (uint32_t u = 0; u < tile.units; ++u) {
#pragma unroll
    for (uint32_t i = 0; i < kWarpSteps; ++i) {
      // The next step is on its way into registers while this one is multiplied, across stages too.
      if (i + 1 < kWarpSteps) {
        load_fragment<NT>(stage, at, i + 1, fragments[(i + 1) % 2]);
      } else {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(&ring.empty[ring.slot]);
        if (++ring.slot == ring.count) ring.slot = 0, ring.parity ^= 1;
        if (u + 1 < tile.units) {
          stage = arrived_stage(u + 1);
          load_fragment<NT>(stage, at, 0, fragments[(i + 1) % 2]);
        }
      }
      multiply_fragment<NT>(fragments[i % 2], sum);
    }
    if constexpr (kWarpSteps % 2 == 1) fragments[0] = fragments[1];
  }
  if constexpr (kWarpsK > 1) reduce_warps<NT>(reduce, warp_m, warp_k, sum);
  if (warp_k != 0) return;
  if (!tile.ends) return publish<NT>(a, warp_m, sum);
  join<NT>(a, tile.first_block, warp_m, sum);
  store<NT>(a, tile, warp_m, global * 128.0f, sum);
}

__device__ void consume(const Arguments &a, const Work &work, const float *globals, Ring ring, float4 *reduce) {
  const Deal deal(work.units());
  uint32_t left = deal.first(blockIdx.x + 1) - deal.first(blockIdx.x);
  while (left > 0) {
    barrier_wait(&ring.full[ring.slot], ring.parity);
    const Tile tile = ring.tiles[ring.slot];
    const float global = globals[tile.expert];
    const uint32_t tiles_n = (tile.rows + 7) / 8;
    if (kTileTokens <= 8 || tiles_n == 1) consume_tile<1>(a, tile, global, ring, reduce);
    else if (kTileTokens <= 16 || tiles_n == 2) consume_tile<kTileTokens < 16 ? 1 : 2>(a, tile, global, ring, reduce);
    else if (kTileTokens <= 24 || tiles_n == 3) consume_tile<kTileTokens < 24 ? 1 : 3>(a, tile, global, ring, reduce);
    else consume_tile<kTileTokens < 32 ? 1 : 4>(a, tile, global, ring, reduce);
    left -= tile.units;
  }
}

__global__ void __launch_bounds__(kBlockThreads, kBlocksPerSm) w4a16_kernel(const Arguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  uint8_t *ring = shared;
  float4 *reduce = reinterpret_cast<float4 *>(ring + a.stages * kStageBytes);
  Tile *tiles = reinterpret_cast<Tile *>(reinterpret_cast<uint8_t *>(reduce) + kReduceBytes);
  uint64_t *full = reinterpret_cast<uint64_t *>(tiles + kMaxStages);
  uint64_t *empty = full + kMaxStages;
  int32_t *offsets = reinterpret_cast<int32_t *>(empty + kMaxStages);
  uint32_t *tokens = reinterpret_cast<uint32_t *>(offsets + a.d.experts + 1);
  float *globals = reinterpret_cast<float *>(tokens + a.d.experts + 1);
  if (threadIdx.x == kConsumers) {
    for (uint32_t s = 0; s < a.stages; ++s) barrier_init(&full[s], kProducerArrivals), barrier_init(&empty[s], kConsumerWarps);
    barrier_init_fence();
  }
  scan_experts(a, offsets, tokens, globals);
  const Work work{offsets, tokens, a.d.experts, (a.d.row_blocks() + kTileBlocks - 1) / kTileBlocks,
                  (a.d.k + kStageDepth - 1) / kStageDepth};
  if (threadIdx.x >= kConsumers) {
    produce(a, work, ring, tiles, full, empty);
  } else {
    consume(a, work, globals, Ring{ring, tiles, full, empty, a.stages, 0, 0}, reduce);
  }
}

// Shared memory beside the ring.
constexpr uint32_t fixed_bytes(uint32_t experts) { return kReduceBytes + kMaxStages * (sizeof(Tile) + 16) + experts * 12 + 8; }

struct Plan {
  Arguments arguments;
  uint32_t blocks, shared_bytes;
};

struct Kernel {
  static constexpr const char *weights_layout = "native-w4a16", *activations_layout = "canonical";
  // The least it runs with: two stages. How many it takes is decided on the device.
  static constexpr uint32_t kSharedBytes = 2 * kStageBytes + fixed_bytes(kMaxExperts), kThreads = kBlockThreads, kStages = kMaxStages;

  static int32_t supports(const moebius_shape *s, moebius_message *message) {
    if (s->k % 16 != 0) return moebius::unsupported(message, "K %u is not a multiple of 16", s->k);
    if (s->experts > kMaxExperts) return moebius::unsupported(message, "%u experts are more than %u", s->experts, kMaxExperts);
    const uint64_t units = (s->rows / kTileTokens + uint64_t(s->experts)) * ceil_div(Dimensions{s->experts, s->n, s->k}.row_blocks(), kTileBlocks) * ceil_div(s->k, kStageDepth);
    if (units >> 31 != 0) return moebius::unsupported(message, "%u rows make more than 2^31 units of work", s->rows);
    return MOEBIUS_OK;
  }

  // Sums that the blocks can publish.
  static uint64_t partials(const moebius_shape *s) { return uint64_t(s->sm_count) * kBlocksPerSm * kTileRows * kTileTokens; }

  static int32_t sizes(const moebius_shape *s, moebius_sizes *sizes, moebius_message *) {
    const Dimensions d{s->experts, s->n, s->k};
    sizes->packed_weights = d.expert_bytes() * s->experts;
    sizes->packed_activations = 0;
    moebius::Carver carver(nullptr);
    carver.take<float>(partials(s));
    sizes->workspace = carver.used();
    return MOEBIUS_OK;
  }

  static int32_t pack_weights(const moebius_shape *s, const moebius_operands *o, moebius_stream stream, moebius_message *message) {
    const Dimensions d{s->experts, s->n, s->k};
    const uint64_t blocks = uint64_t(d.experts) * (d.row_blocks() / 2) * d.depth_blocks();
    if (blocks >> 31 != 0) return moebius::unsupported(message, "the weights have more than 2^31 pairs of blocks");
    pack_kernel<<<uint32_t(blocks), 64, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        d, static_cast<const uint8_t *>(o->weights), static_cast<const uint8_t *>(o->weight_scales),
        static_cast<uint8_t *>(const_cast<void *>(o->packed_weights)));
    MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
    return MOEBIUS_OK;
  }

  static int32_t pack_activations(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *) {
    return MOEBIUS_OK;
  }

  // Blocks of a multiprocessor and stages of a block: fewer blocks than asked for where their stages do not fit.
  static int32_t occupancy(uint32_t experts, uint32_t *blocks, uint32_t *stages, moebius_message *message) {
    int device = 0, most = 0, whole = 0, reserved = 0;
    MOEBIUS_TRY_CUDA(cudaGetDevice(&device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device), message);
    cudaFuncAttributes attributes;
    MOEBIUS_TRY_CUDA(cudaFuncGetAttributes(&attributes, w4a16_kernel), message);
    const int64_t fixed = int64_t(fixed_bytes(experts)) + int64_t(attributes.sharedSizeBytes);
    for (*blocks = kBlocksPerSm; *blocks > 0; --*blocks) {
      const int64_t share = whole / int64_t(*blocks) - reserved, left = (share < most ? share : most) - fixed;
      const int64_t count = left / int64_t(kStageBytes);
      if (count < 2) continue;
      *stages = uint32_t(count < kMaxStages ? count : kMaxStages);
      return MOEBIUS_OK;
    }
    return moebius::unsupported(message, "two stages of %u bytes do not fit the %d bytes of shared memory of a block", kStageBytes,
                                most);
  }

  static int32_t plan(const moebius_shape *s, const moebius_operands *o, moebius_stream stream, void **plan, moebius_message *message) {
    Plan p{};
    MOEBIUS_TRY(occupancy(s->experts, &p.blocks, &p.arguments.stages, message));
    p.blocks *= s->sm_count;
    p.shared_bytes = p.arguments.stages * kStageBytes + fixed_bytes(s->experts);
    MOEBIUS_TRY_CUDA(cudaFuncSetAttribute(w4a16_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(p.shared_bytes)), message);
    moebius::Carver carver(o->workspace);
    p.arguments.d = {s->experts, s->n, s->k};
    p.arguments.weights = static_cast<const uint8_t *>(o->packed_weights);
    p.arguments.globals = o->weight_globals;
    p.arguments.activations = static_cast<const __nv_bfloat16 *>(o->activations);
    p.arguments.offsets = o->offsets;
    p.arguments.out = static_cast<__nv_bfloat16 *>(o->out);
    p.arguments.partials = carver.take<float>(partials(s));
    MOEBIUS_TRY_CUDA(cudaMemsetAsync(p.arguments.partials, 0xff, partials(s) * sizeof(float), reinterpret_cast<cudaStream_t>(stream)), message);
    *plan = new Plan(p);
    return MOEBIUS_OK;
  }

  static int32_t run(void *plan, uint32_t parts, uint32_t, moebius_stream stream, moebius_message *message) {
    const Plan *p = static_cast<const Plan *>(plan);
    if ((parts & MOEBIUS_RUN_GEMM) == 0) return MOEBIUS_OK;
    w4a16_kernel<<<p->blocks, kBlockThreads, p->shared_bytes, reinterpret_cast<cudaStream_t>(stream)>>>(p->arguments);
    MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
    return MOEBIUS_OK;
  }

  static void destroy(void *plan) { delete static_cast<Plan *>(plan); }

  static int32_t resources(moebius_resources *resources, moebius_message *message) {
    uint32_t blocks = 0, count = 0;
    MOEBIUS_TRY(occupancy(256, &blocks, &count, message));
    return moebius::describe(w4a16_kernel, count * kStageBytes + fixed_bytes(256), kBlockThreads, count, resources, message);
  }
};

}  // namespace

MOEBIUS_DEFINE_UNIT(Kernel)
