// native/sm80+/nvfp4-w4a16: grouped GEMM of NVFP4 weights and bf16 activations for few rows per expert.
//
// The work is bound by reading weights, so everything serves the stream of weights: blocks stay resident, a producer warp keeps
// rings of stages full through the copy engine (w4a16_produce.cuh), consumer warps decode in registers and multiply by
// mma.m16n8k16 with the weights as the M operand, so that 1 to 8 rows of an expert fill one N tile (w4a16_multiply.cuh). A tile
// is (expert, up to MOEBIUS_TILE_N rows, MOEBIUS_TILE_M weight rows); only touched experts have tiles. The tiles' stages of k are
// dealt to the blocks in one contiguous range each (stream-K, w4a16_work.cuh), so that 8 experts fill the device as well as
// 256; the sums of a tile that is cut by a range's end are brought together in w4a16_finish.cuh.
#pragma once

#include "common/launch.cuh"
#include "common/unit.cuh"
#include "native/w4a16_consume.cuh"

namespace {

__global__ void __launch_bounds__(kBlockThreads, kBlocksPerSm) w4a16_kernel(const Arguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  float4 *reduce = reinterpret_cast<float4 *>(shared + ring_bytes(a.stages, a.activation_stages));
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
  const Ring ring{shared, shared + a.stages * kWeightStageBytes, tiles, full, empty, a.stages, a.activation_stages};
  if (threadIdx.x >= kConsumers) {
    produce(a, work, ring);
  } else {
    consume(a, Deal(work.units()).count(blockIdx.x), globals, ring, reduce);
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
  static constexpr uint32_t kSharedBytes = ring_bytes(2, 2) + fixed_bytes(kMaxExperts), kThreads = kBlockThreads, kStages = kMaxStages;

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

  struct Occupancy {
    uint32_t blocks;  // of a multiprocessor
    uint32_t stages, activation_stages;
    uint32_t shared_bytes;
  };

  // Fewer blocks than asked for where their stages do not fit.
  static int32_t occupancy(uint32_t experts, Occupancy *occupancy, moebius_message *message) {
    int device = 0, major = 0, most = 0, whole = 0, reserved = 0;
    MOEBIUS_TRY_CUDA(cudaGetDevice(&device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), message);
    MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device), message);
    cudaFuncAttributes attributes;
    MOEBIUS_TRY_CUDA(cudaFuncGetAttributes(&attributes, w4a16_kernel), message);
    const int64_t fixed = int64_t(fixed_bytes(experts)) + int64_t(attributes.sharedSizeBytes);
    // Activations come from L2 but for the first time, so few stages of them hide the way and the rest of shared memory holds
    // weights. Before sm_90 a stage is complete only when all copies issued before its last are, so they come with their weights.
    const uint32_t few = major >= 9 ? 3 : kMaxStages;
    for (uint32_t blocks = kBlocksPerSm; blocks > 0; --blocks) {
      const int64_t share = whole / int64_t(blocks) - reserved, left = (share < most ? share : most) - fixed;
      for (uint32_t stages = kMaxStages; stages >= 2; --stages) {
        const uint32_t activations = stages < few ? stages : few;
        if (int64_t(ring_bytes(stages, activations)) > left) continue;
        *occupancy = {blocks, stages, activations, ring_bytes(stages, activations) + fixed_bytes(experts)};
        return MOEBIUS_OK;
      }
    }
    return moebius::unsupported(message, "two stages of %u bytes do not fit the %d bytes of shared memory of a block",
                                ring_bytes(1, 1), most);
  }

  static int32_t plan(const moebius_shape *s, const moebius_operands *o, moebius_stream stream, void **plan, moebius_message *message) {
    Occupancy fit{};
    MOEBIUS_TRY(occupancy(s->experts, &fit, message));
    Plan p{};
    p.blocks = fit.blocks * s->sm_count;
    p.shared_bytes = fit.shared_bytes;
    p.arguments.stages = fit.stages;
    p.arguments.activation_stages = fit.activation_stages;
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
    Occupancy fit{};
    MOEBIUS_TRY(occupancy(256, &fit, message));
    return moebius::describe(w4a16_kernel, fit.shared_bytes, kBlockThreads, fit.stages, resources, message);
  }
};

}  // namespace

MOEBIUS_DEFINE_UNIT(Kernel)
