// The producer warp: keeps the rings of weights and activations full.
#pragma once

#include "native/w4a16_work.cuh"

namespace {

// The rings of a block. Stage `u` of the block's range has weights in slot u % stages, activations in slot
// u % activation_stages, and the barriers of its weights' slot.
struct Ring {
  uint8_t *weights, *activations;
  Tile *tiles;  // beside each slot of weights: the part that begins there
  uint64_t *full, *empty;
  uint32_t stages, activation_stages;
};

// Goes through the stages of a block's range.
struct Cursor {
  Parts parts;
  Tile tile;
  uint32_t unit, slot;  // stage of the tile's part; slot of the ring

  __device__ explicit Cursor(const Work &work) : parts(work), tile{}, unit(0), slot(0) {}

  // True where a part begins.
  __device__ bool enter() {
    if (unit < tile.units) return false;
    tile = parts.next();
    unit = 0;
    return true;
  }

  __device__ void leave(uint32_t slots) {
    ++unit;
    if (++slot == slots) slot = 0;
  }

  __device__ uint32_t block_k() const { return (tile.stage_k + unit) * kStageBlocks; }
};

// Bytes of a row of activations in a stage that begins at `block_k`.
__device__ inline uint32_t row_bytes(const Arguments &a, uint32_t block_k) {
  return min(kStageDepth, a.d.k - block_k * kBlockDepth) * 2;
}

__device__ inline void copy_weights(const Arguments &a, const Ring &ring, const Cursor &at, uint64_t policy) {
  const uint32_t lane = threadIdx.x % 32, depth_blocks = a.d.depth_blocks(), row_blocks = a.d.row_blocks();
  const uint32_t block_k = at.block_k(), bytes = min(kStageBlocks, depth_blocks - block_k) * kBlockBytes;
  const uint32_t copies = min(kTileBlocks, row_blocks - at.tile.row_block);
  const uint8_t *weights =
      a.weights + ((uint64_t(at.tile.expert) * row_blocks + at.tile.row_block) * depth_blocks + block_k) * kBlockBytes;
  if (lane == 0) announce(&ring.full[at.slot], copies * bytes + at.tile.rows * row_bytes(a, block_k));
  __syncwarp();
  for (uint32_t i = lane; i < copies; i += 32) {
    copy_async(ring.weights + at.slot * kWeightStageBytes + i * kStageBlocks * kBlockBytes,
               weights + uint64_t(i) * depth_blocks * kBlockBytes, bytes, &ring.full[at.slot], policy);
  }
}

__device__ inline void copy_activations(const Arguments &a, const Ring &ring, const Cursor &at, uint64_t *full) {
  const uint32_t lane = threadIdx.x % 32, block_k = at.block_k();
  if (lane < at.tile.rows) {
    copy_async(ring.activations + at.slot * kActivationStageBytes + lane * kActivationPitch,
               a.activations + uint64_t(at.tile.row + lane) * a.d.k + block_k * kBlockDepth, row_bytes(a, block_k), full);
  }
  copies_issued(full);
}

__device__ void produce(const Arguments &a, const Work &work, const Ring &ring) {
  const uint64_t policy = evict_first_policy();
  const uint32_t few = ring.activation_stages;
  Cursor weights(work), activations(work);
  const uint32_t units = weights.parts.units();
  uint32_t parity = 1, activations_full = 0;  // the first round finds every stage empty; slot of the activations' weights
  // Weights go as far ahead as there are slots, activations only as their fewer slots allow: those of stage u take the place of
  // those of u - few, which the consumers have left when they have left the weights of u - few.
  for (uint32_t step = 0; step < units + ring.stages - few; ++step) {
    barrier_wait(&ring.empty[weights.slot], parity);
    const bool more = step < units;
    if (more) {
      if (weights.enter() && threadIdx.x % 32 == 0) ring.tiles[weights.slot] = weights.tile;
      copy_weights(a, ring, weights, policy);
    }
    if (step < min(few, units) || step >= ring.stages) {
      activations.enter();
      copy_activations(a, ring, activations, &ring.full[activations_full]);
      activations.leave(few);
      if (++activations_full == ring.stages) activations_full = 0;
    }
    weights.leave(ring.stages);
    if (weights.slot == 0) parity ^= 1;
  }
}

}  // namespace
