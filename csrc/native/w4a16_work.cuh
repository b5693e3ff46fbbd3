// What there is to do and how it is dealt to the blocks.
#pragma once

#include "native/w4a16_config.cuh"

namespace {

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

  __device__ uint32_t count(uint32_t block) const { return first(block + 1) - first(block); }

  // The block whose range holds `unit`.
  __device__ uint32_t owner(uint32_t unit) const {
    const uint32_t in_longer = longer * (each + 1);
    return unit < in_longer ? unit / (each + 1) : longer + (unit - in_longer) / each;
  }
};

// The parts of tiles in a block's range, from the last to the first. By a whole warp.
class Parts {
 public:
  __device__ explicit Parts(const Work &work)
      : work_(work), deal_(work.units()), begin_(deal_.first(blockIdx.x)), end_(deal_.first(blockIdx.x + 1)) {}

  __device__ uint32_t units() const { return end_ - begin_; }

  // The next part; there is one while units are left.
  __device__ Tile next() {
    const uint32_t index = (end_ - 1) / work_.stages_k, tile_begin = index * work_.stages_k, start = max(begin_, tile_begin);
    Tile tile = work_.tile(index);
    tile.stage_k = start - tile_begin;
    tile.units = end_ - start;
    tile.first_block = start == tile_begin ? blockIdx.x : deal_.owner(tile_begin);
    tile.ends = end_ == tile_begin + work_.stages_k;
    end_ = start;
    return tile;
  }

 private:
  const Work &work_;
  Deal deal_;
  uint32_t begin_, end_;
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

}  // namespace
