// The consumer warps: take stages as they arrive, multiply, and finish tiles.
#pragma once

#include "native/w4a16_finish.cuh"
#include "native/w4a16_multiply.cuh"
#include "native/w4a16_produce.cuh"

namespace {

// Where the consumers are in the rings.
struct Position {
  uint32_t slot = 0, activations_slot = 0, parity = 0;
};

// Waits for the stage at a position.
__device__ inline Stage arrived(const Ring &ring, const Position &at) {
  barrier_wait(&ring.full[at.slot], at.parity);
  return {ring.weights + at.slot * kWeightStageBytes, ring.activations + at.activations_slot * kActivationStageBytes};
}

// Gives the stage at a position back, for this warp.
__device__ inline void release(const Ring &ring, Position &at) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(&ring.empty[at.slot]);
  if (++at.slot == ring.stages) at.slot = 0, at.parity ^= 1;
  if (++at.activations_slot == ring.activation_stages) at.activations_slot = 0;
}

// Consumes this block's part of a tile, whose first stage has arrived, and finishes or publishes it.
template <uint32_t NT>
__device__ void consume_part(const Arguments &a, const Tile &tile, float global, const Ring &ring, Position &position, float4 *reduce) {
  const uint32_t warp = threadIdx.x / 32, warp_m = warp % kWarpsM, warp_k = warp / kWarpsM;
  Accumulators<NT> sum = {};
  // A warp whose rows lie beyond n reads what the copies left alone; its sums are never stored.
  const LaneOffsets at(warp_m, warp_k);
  // The part's last stage, where it holds the end of a K that is no multiple of a stage.
  const uint32_t tail_k = a.d.k % kStageDepth, tail = tail_k != 0 && tile.ends ? tile.units - 1 : ~0u;
  Fragment<NT> fragments[2];
  Stage stage = arrived(ring, position);
  if (tail == 0) clear_tail(stage, warp_m, warp_k, tail_k);
  load_fragment<NT>(stage, at, 0, fragments[0]);
  for (uint32_t u = 0; u < tile.units; ++u) {
#pragma unroll
    for (uint32_t i = 0; i < kWarpSteps; ++i) {
      // The next step is on its way into registers while this one is multiplied, across stages too.
      if (i + 1 < kWarpSteps) {
        load_fragment<NT>(stage, at, i + 1, fragments[(i + 1) % 2]);
      } else {
        release(ring, position);
        if (u + 1 < tile.units) {
          stage = arrived(ring, position);
          if (u + 1 == tail) clear_tail(stage, warp_m, warp_k, tail_k);
          load_fragment<NT>(stage, at, 0, fragments[(i + 1) % 2]);
        }
      }
      multiply_fragment<NT>(fragments[i % 2], sum);
    }
    if constexpr (kWarpSteps % 2 == 1) fragments[0] = fragments[1];
  }
  Share<NT> share;
  if (!share_sums<NT>(reduce, warp_m, warp_k, sum, share)) return;
  if (!tile.ends) return publish<NT>(a, warp_m, warp_k, share);
  join<NT>(a, tile.first_block, warp_m, warp_k, share);
  store<NT>(a, tile, warp_m, warp_k, global * 128.0f, share);
}

__device__ void consume(const Arguments &a, uint32_t units, const float *globals, const Ring &ring, float4 *reduce) {
  Position position;
  while (units > 0) {
    arrived(ring, position);
    const Tile tile = ring.tiles[position.slot];
    const float global = globals[tile.expert];
    const uint32_t tiles_n = (tile.rows + 7) / 8;
    if (kTileTokens <= 8 || tiles_n == 1) consume_part<1>(a, tile, global, ring, position, reduce);
    else if (kTileTokens <= 16 || tiles_n == 2) consume_part<kTileTokens < 16 ? 1 : 2>(a, tile, global, ring, position, reduce);
    else if (kTileTokens <= 24 || tiles_n == 3) consume_part<kTileTokens < 24 ? 1 : 3>(a, tile, global, ring, position, reduce);
    else consume_part<kTileTokens < 32 ? 1 : 4>(a, tile, global, ring, position, reduce);
    units -= tile.units;
  }
}

}  // namespace
