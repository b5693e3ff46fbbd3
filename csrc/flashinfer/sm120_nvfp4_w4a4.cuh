// FlashInfer's grouped NVFP4 GEMM for sm_120, called the way FlashInfer calls it: its launcher starts a kernel of its own that
// derives pointers, strides and scale layouts from the offsets, then CUTLASS's cooperative grouped kernel, both with
// programmatic dependent launch whatever the harness asks for. FlashInfer's tiles are 128 x {32, 64, 128} x {128, 256}, plain
// and swapped.
//
// The derivation is inside MOEBIUS_RUN_GEMM, because the launcher does not part it from the GEMM; MOEBIUS_RUN_PREPARE is the
// product of the globals alone. FlashInfer reads the same 128x4 planes of scales as our own kernels, at the same places.
#pragma once

#include <flashinfer/gemm/group_gemm_nvfp4_groupwise_sm120.cuh>

#include <exception>

#include "common/sf_layout.cuh"
#include "cutlass/sm120_block_scaled.cuh"

static_assert(MOEBIUS_COOPERATIVE == 1, "FlashInfer launches the cooperative kernel");
static_assert(MOEBIUS_TILE_M == 128 && MOEBIUS_TILE_N <= 128, "not a tile of FlashInfer's");

namespace flashinfer::group_gemm {

// The macro pastes its parameters into names, which must differ between units: expand them first.
#define MOEBIUS_INSTANTIATE(...) INSTANTIATE_GROUP_GEMM_NVFP4_GROUPWISE_SM120(__VA_ARGS__)
MOEBIUS_INSTANTIATE(MOEBIUS_TILE_M, MOEBIUS_TILE_N, MOEBIUS_TILE_K, MOEBIUS_SWAP, cutlass::float_e2m1_t,
                    cutlass::float_e2m1_t, cutlass::float_ue4m3_t, cutlass::float_ue4m3_t, cutlass::bfloat16_t,
                    float_e2m1_t, float_e2m1_t, float_ue4m3_t, float_ue4m3_t, bfloat16_t)
#undef MOEBIUS_INSTANTIATE

}  // namespace flashinfer::group_gemm

namespace moebius {
namespace {

// The alpha of each expert's problem. One thread an expert.
__global__ void multiply_globals(moebius_operands operands, moebius_shape shape, float *alphas) {
  cutlass::arch::wait_on_dependent_grids();
  const uint32_t expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < shape.experts) {
    alphas[expert] = operands.weight_globals[expert] * operands.activation_globals[shape.act_globals == 1 ? 0 : expert];
  }
  cutlass::arch::launch_dependent_grids();
}

struct FlashInfer {
  using Value = cutlass::float_e2m1_t;
  using Scale = cutlass::float_ue4m3_t;
  using Pair = cutlass::nv_float4_t<Value>;
  // The kernel that the launcher instantiates, to ask what it takes.
  using Kernel = typename BlockScaled<Pair, 32, Pair, 32>::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Scales = ScalePlanes<16>;

  static constexpr const char *weights_layout = "nvfp4-scales-128x4";
  static constexpr const char *activations_layout = "nvfp4-scales-128x4";
  static constexpr uint32_t kSharedBytes = Kernel::SharedStorageSize;
  static constexpr uint32_t kThreads = Kernel::MaxThreadsPerBlock;
  static constexpr uint32_t kStages = Mainloop::DispatchPolicy::Stages;
  static constexpr uint32_t kAlignmentK = 32;
  static constexpr uint32_t kExpertsPerBlock = 128;

  struct Buffers {
    float *alphas;
    int32_t *no_rows;
    char *arguments;
    uint64_t argument_bytes;
    char *workspace;
    uint64_t workspace_bytes;
  };

  struct Plan {
    moebius_operands operands;
    moebius_shape shape;
    Buffers buffers;
    int device;
  };

  static int32_t supports(const moebius_shape *shape, moebius_message *message) {
    if (shape->k % kAlignmentK != 0) {
      return unsupported(message, "K %u is not a multiple of %u (TMA reads 16 bytes at a time)", shape->k, kAlignmentK);
    }
    if (shape->n % kOutputAlignment != 0) {
      return unsupported(message, "N %u is not a multiple of %d (TMA writes 16 bytes at a time)", shape->n,
                         kOutputAlignment);
    }
    return MOEBIUS_OK;
  }

  static Buffers carve(Carver &carver, const moebius_shape &shape) {
    // The launcher cuts ten arrays out of its first buffer, each at the next 16 bytes, and CUTLASS's workspace out of the other.
    constexpr uint64_t kPerExpert =
        sizeof(Problem) + 5 * sizeof(void *) + sizeof(typename Kernel::InternalStrideA) +
        sizeof(typename Kernel::InternalStrideB) + sizeof(typename Kernel::InternalStrideD) +
        sizeof(typename Mainloop::InternalLayoutSFA) + sizeof(typename Mainloop::InternalLayoutSFB);
    typename Kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {int32_t(shape.experts), nullptr, nullptr};
    arguments.hw_info.sm_count = int(shape.sm_count);

    Buffers buffers{};
    buffers.alphas = carver.take<float>(shape.experts);
    buffers.no_rows = carver.take<int32_t>(shape.experts + 1);
    buffers.argument_bytes = kPerExpert * shape.experts + 16 * 16;
    buffers.arguments = carver.take<char>(buffers.argument_bytes);
    buffers.workspace_bytes = Kernel::get_workspace_size(arguments) + 16;
    buffers.workspace = carver.take<char>(buffers.workspace_bytes);
    return buffers;
  }

  static int32_t sizes(const moebius_shape *shape, moebius_sizes *sizes, moebius_message *message) {
    MOEBIUS_TRY(supports(shape, message));
    Carver carver(nullptr);
    carve(carver, *shape);
    *sizes = moebius_sizes{};
    Scales::sizes(*shape, sizes);
    sizes->workspace = carver.used();
    return MOEBIUS_OK;
  }

  static int32_t pack_weights(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                              moebius_message *message) {
    return Scales::pack_weights(shape, operands, stream, message);
  }

  static int32_t pack_activations(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                                  moebius_message *message) {
    return Scales::pack_activations(shape, operands, stream, message);
  }

  // FlashInfer throws what its checks find.
  static int32_t call(const Plan &plan, const int32_t *offsets, moebius_stream stream, moebius_message *message) {
    const auto mutable_value = [](const void *pointer) { return static_cast<Value *>(const_cast<void *>(pointer)); };
    const auto mutable_scale = [](const void *pointer) { return static_cast<Scale *>(const_cast<void *>(pointer)); };
    try {
      const cudaError_t status =
          flashinfer::group_gemm::CutlassNVFP4GroupwiseScaledGroupGEMMSM120<MOEBIUS_TILE_M, MOEBIUS_TILE_N,
                                                                            MOEBIUS_TILE_K, MOEBIUS_SWAP>(
              plan.buffers.arguments, plan.buffers.argument_bytes, plan.buffers.workspace,
              plan.buffers.workspace_bytes, mutable_value(plan.operands.activations),
              mutable_value(plan.operands.weights), mutable_scale(plan.operands.packed_activations),
              mutable_scale(plan.operands.packed_weights), static_cast<Output *>(plan.operands.out),
              plan.buffers.alphas, const_cast<int32_t *>(offsets), int(plan.shape.n), int(plan.shape.k),
              int(plan.shape.experts), reinterpret_cast<cudaStream_t>(stream), plan.device);
      MOEBIUS_TRY(check(status, "FlashInfer's launcher", message));
    } catch (const std::exception &error) {
      return failed(message, "FlashInfer's launcher said %s", error.what());
    }
    MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
    return MOEBIUS_OK;
  }

  static int32_t plan(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream, void **plan,
                      moebius_message *message) {
    MOEBIUS_TRY(supports(shape, message));
    Carver carver(operands->workspace);
    Plan first{*operands, *shape, carve(carver, *shape), 0};
    MOEBIUS_TRY_CUDA(cudaGetDevice(&first.device), message);
    // The launcher loads and configures its kernels in the call: make the first one here, with no rows for any expert.
    const cudaStream_t cuda_stream = reinterpret_cast<cudaStream_t>(stream);
    MOEBIUS_TRY_CUDA(
        cudaMemsetAsync(first.buffers.no_rows, 0, (shape->experts + 1) * sizeof(int32_t), cuda_stream), message);
    MOEBIUS_TRY(call(first, first.buffers.no_rows, stream, message));
    Plan *made = new (std::nothrow) Plan(first);
    if (made == nullptr) {
      return failed(message, "no host memory for a plan of %zu bytes", sizeof(Plan));
    }
    *plan = made;
    return MOEBIUS_OK;
  }

  static int32_t run(void *plan, uint32_t parts, uint32_t pdl, moebius_stream stream, moebius_message *message) {
    const Plan &planned = *static_cast<const Plan *>(plan);
    if (parts & MOEBIUS_RUN_PREPARE) {
      const dim3 blocks((planned.shape.experts + kExpertsPerBlock - 1) / kExpertsPerBlock);
      MOEBIUS_TRY_CUDA(launch(multiply_globals, blocks, kExpertsPerBlock, 0, reinterpret_cast<cudaStream_t>(stream),
                              pdl != 0, planned.operands, planned.shape, planned.buffers.alphas),
                       message);
    }
    if (parts & MOEBIUS_RUN_GEMM) {
      MOEBIUS_TRY(call(planned, planned.operands.offsets, stream, message));
    }
    return MOEBIUS_OK;
  }

  static void destroy(void *plan) { delete static_cast<Plan *>(plan); }

  static int32_t resources(moebius_resources *resources, moebius_message *message) {
    return describe(cutlass::device_kernel<Kernel>, kSharedBytes, kThreads, kStages, resources, message);
  }
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::FlashInfer)
