// Grouped GEMM of CUTLASS on sm_90: out[r][:] = activations[r][:] x weights[expert of r]^T, for every expert that has rows.
//
// One persistent launch walks the tiles of all experts; CUTLASS rewrites its TMA descriptors on the device when it moves to
// another expert. The problem sizes are on the device only: `prepare` derives them from `offsets`, inside run(), so a
// captured graph follows routing that was rewritten after capture. Experts without rows have no tiles.
//
// Plain: rows are M and weights are N. Swapped: weights are M and rows are N, so that few rows do not fill a 128-row tile;
// the output of a swapped problem is column-major, which is the same [rows][n] in memory.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include <new>
#include <type_traits>

#include "common/launch.cuh"
#include "common/unit.cuh"

namespace moebius {
namespace {

using Problem = cute::Shape<int, int, int>;
using GroupedProblem = cutlass::gemm::GroupProblemShape<Problem>;
using Tile = cute::Shape<cute::Int<MOEBIUS_TILE_M>, cute::Int<MOEBIUS_TILE_N>, cute::Int<MOEBIUS_TILE_K>>;
using Cluster = cute::Shape<cute::Int<MOEBIUS_CLUSTER_M>, cute::Int<MOEBIUS_CLUSTER_N>, cute::_1>;
using Output = cutlass::bfloat16_t;

constexpr bool kSwap = MOEBIUS_SWAP != 0;
constexpr uint32_t kScaleBlock = 128;

static_assert(MOEBIUS_COOPERATIVE + MOEBIUS_PINGPONG == 1, "a schedule is cooperative or pingpong");

using EpilogueSchedule =
    std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong,
                       cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative>;
// Row-major D of the plain problem and column-major D of the swapped one are both out[rows][n].
using OutputLayout = std::conditional_t<kSwap, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
constexpr int kOutputAlignment = 128 / cutlass::sizeof_bits<Output>::value;

// alpha * accumulator, rounded once to bf16; no C operand.
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, OutputLayout *, kOutputAlignment, Output,
    OutputLayout *, kOutputAlignment, EpilogueSchedule,
    cutlass::epilogue::fusion::LinearCombination<Output, float, void, float>>::CollectiveOp;
using Stages = cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
    sizeof(typename Epilogue::SharedStorage))>;

// What differs between the schemes, as arrays with one entry an expert. Unused ones stay null.
template <class Kernel, class Element>
struct Arrays {
  Problem *problems;
  const Element **activations;
  const Element **weights;
  Output **outputs;
  typename Kernel::InternalStrideA *stride_a;
  typename Kernel::InternalStrideB *stride_b;
  typename Kernel::InternalStrideD *stride_d;
  float *alphas;
  const float **activation_scales;
  const float **weight_scales;
};

// Routing -> problems and the pointers that move with it. One thread an expert.
template <class Scheme>
__global__ void prepare(Arrays<typename Scheme::Kernel, typename Scheme::Element> arrays, moebius_operands operands,
                        uint32_t experts, uint32_t n, uint32_t k) {
  cutlass::arch::wait_on_dependent_grids();
  const uint32_t expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < experts) {
    const int32_t first = operands.offsets[expert];
    const int32_t rows = operands.offsets[expert + 1] - first;
    arrays.problems[expert] = kSwap ? Problem{int(n), rows, int(k)} : Problem{rows, int(n), int(k)};
    arrays.activations[expert] =
        static_cast<const typename Scheme::Element *>(operands.activations) + int64_t(first) * k;
    arrays.outputs[expert] = static_cast<Output *>(operands.out) + int64_t(first) * n;
    if constexpr (Scheme::kAlpha) {
      arrays.alphas[expert] = static_cast<const float *>(operands.weight_scales)[expert] *
                              static_cast<const float *>(operands.activation_scales)[0];
    }
    if constexpr (Scheme::kBlockScales) {
      arrays.activation_scales[expert] = Scheme::activation_scales(operands, first, k);
    }
  }
  cutlass::arch::launch_dependent_grids();
}

// What does not move with the routing: written once, at plan time.
template <class Scheme>
__global__ void lay_out(Arrays<typename Scheme::Kernel, typename Scheme::Element> arrays, moebius_operands operands,
                        uint32_t experts, uint32_t n, uint32_t k) {
  const uint32_t expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert >= experts) {
    return;
  }
  arrays.weights[expert] =
      static_cast<const typename Scheme::Element *>(operands.weights) + int64_t(expert) * n * k;
  // Both operands are k-major with the same leading dimension; the output has n.
  cute::get<0>(arrays.stride_a[expert]) = k;
  cute::get<0>(arrays.stride_b[expert]) = k;
  cute::get<kSwap ? 1 : 0>(arrays.stride_d[expert]) = n;
  if constexpr (Scheme::kBlockScales) {
    const int64_t blocks = int64_t((n + kScaleBlock - 1) / kScaleBlock) * ((k + kScaleBlock - 1) / kScaleBlock);
    arrays.weight_scales[expert] = static_cast<const float *>(operands.weight_scales) + expert * blocks;
  }
}

// A unit of one scheme. Scheme gives Element, Kernel, mainloop(), kAlpha and kBlockScales; see the headers that include this
// one. Every scheme reads the canonical operands: there is nothing to pack.
template <class Scheme>
struct Grouped {
  using Kernel = typename Scheme::Kernel;
  using Element = typename Scheme::Element;
  using SchemeArrays = Arrays<Kernel, Element>;

  static constexpr const char *weights_layout = "canonical";
  static constexpr const char *activations_layout = "canonical";
  static constexpr uint32_t kSharedBytes = Kernel::SharedStorageSize;
  static constexpr uint32_t kThreads = Kernel::MaxThreadsPerBlock;
  static constexpr uint32_t kStages = Kernel::CollectiveMainloop::DispatchPolicy::Stages;

  struct Plan {
    typename Kernel::Params params;
    SchemeArrays arrays;
    moebius_operands operands;
    uint32_t experts, n, k;
    dim3 grid;
  };

  static int32_t supports(const moebius_shape *shape, moebius_message *message) {
    constexpr uint32_t kAlignment = 128 / cutlass::sizeof_bits<Element>::value;
    if (shape->k % kAlignment != 0) {
      return unsupported(message, "K %u is not a multiple of %u (TMA reads 16 bytes at a time)", shape->k, kAlignment);
    }
    if (shape->n % kOutputAlignment != 0) {
      return unsupported(message, "N %u is not a multiple of %d (TMA writes 16 bytes at a time)", shape->n,
                         kOutputAlignment);
    }
    if (shape->sm_count < MOEBIUS_CLUSTER_M * MOEBIUS_CLUSTER_N) {
      return unsupported(message, "a cluster of %d blocks does not fit %u multiprocessors",
                         MOEBIUS_CLUSTER_M * MOEBIUS_CLUSTER_N, shape->sm_count);
    }
    return MOEBIUS_OK;
  }

  static SchemeArrays carve(Carver &carver, const moebius_shape &shape) {
    SchemeArrays arrays{};
    arrays.problems = carver.take<Problem>(shape.experts);
    arrays.activations = carver.take<const Element *>(shape.experts);
    arrays.weights = carver.take<const Element *>(shape.experts);
    arrays.outputs = carver.take<Output *>(shape.experts);
    arrays.stride_a = carver.take<typename Kernel::InternalStrideA>(shape.experts);
    arrays.stride_b = carver.take<typename Kernel::InternalStrideB>(shape.experts);
    arrays.stride_d = carver.take<typename Kernel::InternalStrideD>(shape.experts);
    if constexpr (Scheme::kAlpha) {
      arrays.alphas = carver.take<float>(shape.experts);
    }
    if constexpr (Scheme::kBlockScales) {
      arrays.activation_scales = carver.take<const float *>(shape.experts);
      arrays.weight_scales = carver.take<const float *>(shape.experts);
    }
    return arrays;
  }

  static typename Kernel::Arguments arguments(const moebius_shape &shape, const SchemeArrays &arrays) {
    typename Kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {int32_t(shape.experts), arrays.problems, nullptr};
    arguments.mainloop = Scheme::mainloop(arrays);
    arguments.epilogue.thread.alpha = 1.0f;
    if constexpr (Scheme::kAlpha) {
      arguments.epilogue.thread.alpha_ptr = arrays.alphas;
      cute::get<2>(arguments.epilogue.thread.dAlpha) = 1;
    }
    arguments.epilogue.ptr_D = arrays.outputs;
    arguments.epilogue.dD = arrays.stride_d;
    arguments.hw_info.sm_count = int(shape.sm_count);
    // Tiles that share weights run next to one another, so that each weight comes from memory once.
    using Order = typename Kernel::TileScheduler::RasterOrderOptions;
    arguments.scheduler.raster_order = kSwap ? Order::AlongN : Order::AlongM;
    return arguments;
  }

  static int32_t sizes(const moebius_shape *shape, moebius_sizes *sizes, moebius_message *message) {
    MOEBIUS_TRY(supports(shape, message));
    Carver carver(nullptr);
    const SchemeArrays arrays = carve(carver, *shape);
    carver.take<char>(Kernel::get_workspace_size(arguments(*shape, arrays)));
    *sizes = moebius_sizes{};
    sizes->workspace = carver.used();
    return MOEBIUS_OK;
  }

  static int32_t pack_weights(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *) {
    return MOEBIUS_OK;
  }

  static int32_t pack_activations(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *) {
    return MOEBIUS_OK;
  }

  static int32_t allow_shared_memory(moebius_message *message) {
    MOEBIUS_TRY_CUDA(cudaFuncSetAttribute(cutlass::device_kernel<Kernel>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
                     message);
    return MOEBIUS_OK;
  }

  static int32_t plan(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream, void **plan,
                      moebius_message *message) {
    MOEBIUS_TRY(supports(shape, message));
    Carver carver(operands->workspace);
    const SchemeArrays arrays = carve(carver, *shape);
    const typename Kernel::Arguments args = arguments(*shape, arrays);
    void *workspace = carver.take<char>(Kernel::get_workspace_size(args));
    if (!Kernel::can_implement(args)) {
      return failed(message, "CUTLASS cannot implement N %u, K %u with this tile", shape->n, shape->k);
    }
    MOEBIUS_TRY(allow_shared_memory(message));
    const cudaStream_t cuda_stream = reinterpret_cast<cudaStream_t>(stream);
    const cutlass::Status status = Kernel::initialize_workspace(args, workspace, cuda_stream);
    if (status != cutlass::Status::kSuccess) {
      return failed(message, "initialize_workspace said %s", cutlassGetStatusString(status));
    }
    MOEBIUS_TRY_CUDA(launch(lay_out<Scheme>, blocks(shape->experts), kExpertsPerBlock, 0, cuda_stream, false, arrays, *operands,
                            shape->experts, shape->n, shape->k),
                     message);
    Plan *made = new (std::nothrow)
        Plan{Kernel::to_underlying_arguments(args, workspace), arrays, *operands, shape->experts, shape->n, shape->k, {}};
    if (made == nullptr) {
      return failed(message, "no host memory for a plan of %zu bytes", sizeof(Plan));
    }
    made->grid = Kernel::get_grid_shape(made->params);
    if (blank(made->params.mainloop.tma_load_a.get_tma_descriptor()) ||
        blank(made->params.mainloop.tma_load_b.get_tma_descriptor()) ||
        blank(made->params.epilogue.tma_store_d.get_tma_descriptor())) {
      delete made;
      return failed(message, "the driver refused a TMA descriptor of tile %dx%dx%d", MOEBIUS_TILE_M, MOEBIUS_TILE_N,
                    MOEBIUS_TILE_K);
    }
    *plan = made;
    return MOEBIUS_OK;
  }

  static int32_t run(void *plan, uint32_t parts, uint32_t pdl, moebius_stream stream, moebius_message *message) {
    const Plan &planned = *static_cast<const Plan *>(plan);
    const cudaStream_t cuda_stream = reinterpret_cast<cudaStream_t>(stream);
    if (parts & MOEBIUS_RUN_PREPARE) {
      MOEBIUS_TRY_CUDA(launch(prepare<Scheme>, blocks(planned.experts), kExpertsPerBlock, 0, cuda_stream, pdl != 0,
                              planned.arrays, planned.operands, planned.experts, planned.n, planned.k),
                       message);
    }
    if (parts & MOEBIUS_RUN_GEMM) {
      MOEBIUS_TRY_CUDA(launch_cluster(cutlass::device_kernel<Kernel>, planned.grid, kThreads,
                                      dim3(MOEBIUS_CLUSTER_M, MOEBIUS_CLUSTER_N, 1), kSharedBytes,
                                      cuda_stream, pdl != 0, planned.params),
                       message);
    }
    return MOEBIUS_OK;
  }

  static void destroy(void *plan) { delete static_cast<Plan *>(plan); }

  static int32_t resources(moebius_resources *resources, moebius_message *message) {
    MOEBIUS_TRY(allow_shared_memory(message));
    return describe(cutlass::device_kernel<Kernel>, kSharedBytes, kThreads, kStages, resources, message);
  }

 private:
  static constexpr uint32_t kExpertsPerBlock = 128;
  static constexpr dim3 blocks(uint32_t experts) { return dim3((experts + kExpertsPerBlock - 1) / kExpertsPerBlock); }

  // CUTLASS prints when the driver refuses a descriptor, but returns it all the same, untouched.
  static bool blank(const cute::TmaDescriptor *descriptor) {
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(descriptor);
    for (size_t i = 0; i < sizeof(*descriptor); ++i) {
      if (bytes[i] != 0) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace
}  // namespace moebius
