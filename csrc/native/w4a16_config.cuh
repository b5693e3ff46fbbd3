// The configuration of a w4a16 unit, and what its kernel is given.
//
// tile = [weight rows, rows, k of a stage]; WARPS_M and WARPS_K split a stage's rows and k over the consumer warps; STAGES is
// the most stages, fewer where shared memory is small; BLOCKS is the number of blocks on a multiprocessor.
#pragma once

#include <cuda_bf16.h>

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
// Rows of activations lie 64 bytes past a multiple of 128 apart, so that eight lanes read all banks once.
constexpr uint32_t kActivationPitch = kStageDepth * 2 + 64;
constexpr uint32_t kWeightStageBytes = kTileBlocks * kStageBlocks * kBlockBytes;
constexpr uint32_t kActivationStageBytes = (kTileTokens * kActivationPitch + 127) / 128 * 128;
constexpr uint32_t kReduceBytes = (kWarpsK - 1) * kTileRows * kTileTokens * 4;

// Shared memory of the rings of a block.
__host__ __device__ constexpr uint32_t ring_bytes(uint32_t stages, uint32_t activation_stages) {
  return stages * kWeightStageBytes + activation_stages * kActivationStageBytes;
}

static_assert(kTileRows % kBlockRows == 0 && (kWarpRows == 32 || kWarpRows % 64 == 0), "weight rows of a warp");
static_assert(kTileTokens % 8 == 0 && kTileTokens <= 32, "rows of a tile");
static_assert(kStageDepth % 64 == 0 && kStageBlocks % kWarpsK == 0, "k of a stage");
static_assert((kWarpsK & (kWarpsK - 1)) == 0, "warps that share rows halve the sums");
static_assert(kWeightStageBytes % 128 == 0, "stages lie at multiples of 128 bytes");

struct Arguments {
  Dimensions d;
  uint32_t stages, activation_stages;
  const uint8_t *weights;
  const float *globals;
  const __nv_bfloat16 *activations;
  const int32_t *offsets;
  __nv_bfloat16 *out;
  float *partials;  // [blocks][kTileRows * kTileTokens], kPoison between runs
};

}  // namespace
