// Grouped GEMM of CUTLASS with scales along k, on sm_100 and sm_120:
// out[r][:] = alpha of expert x (activations[r][:] x weights[expert of r]^T), for every expert that has rows.
//
// One persistent launch walks the tiles of all experts; CUTLASS rewrites its TMA descriptors on the device when it moves to
// another expert. The problem sizes are on the device only: `prepare` derives them, the pointers and the scale layouts from
// `offsets`, inside run(), so a captured graph follows routing that was rewritten after capture. Experts without rows have
// no tiles.
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

// Row-major D of the plain problem and column-major D of the swapped one are both out[rows][n].
using OutputLayout = std::conditional_t<kSwap, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
constexpr int kOutputAlignment = 128 / cutlass::sizeof_bits<Output>::value;

// The M and the N operand of the problem, from what the weights and the activations are.
template <class Weights, class Activations>
using OperandM = std::conditional_t<kSwap, Weights, Activations>;
template <class Weights, class Activations>
using OperandN = std::conditional_t<kSwap, Activations, Weights>;

// alpha * accumulator, rounded once to bf16; no C operand.
template <class Arch, class OperatorClass, class Schedule>
using EpilogueOf = typename cutlass::epilogue::collective::CollectiveBuilder<
    Arch, OperatorClass, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float, void,
    OutputLayout *, kOutputAlignment, Output, OutputLayout *, kOutputAlignment, Schedule,
    cutlass::epilogue::fusion::LinearCombination<Output, float, void, float>>::CollectiveOp;

// As many stages as fit, unless the configuration says how many (STAGES): CUTLASS does not count all of its padding.
#ifdef MOEBIUS_STAGES
template <class Epilogue>
using StagesOf = cutlass::gemm::collective::StageCount<MOEBIUS_STAGES>;
#else
template <class Epilogue>
using StagesOf = cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
    sizeof(typename Epilogue::SharedStorage))>;
#endif

// One entry an expert, in the order of the swapped or plain problem.
template <class Scheme>
struct Arrays {
  using Kernel = typename Scheme::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using ElementScale = typename Scheme::Scale;

  Problem *problems;
  const typename Kernel::ElementA **a;
  const typename Kernel::ElementB **b;
  Output **outputs;
  typename Kernel::InternalStrideA *stride_a;
  typename Kernel::InternalStrideB *stride_b;
  typename Kernel::InternalStrideD *stride_d;
  const ElementScale **scales_a;
  const ElementScale **scales_b;
  typename Mainloop::InternalLayoutSFA *layout_a;
  typename Mainloop::InternalLayoutSFB *layout_b;
  float *alphas;  // null without globals
};

// The rows' operand moves with the routing; the weights' operand does not.
template <class Scheme>
__device__ void set_rows(const Arrays<Scheme> &arrays, uint32_t expert, const void *values, const void *scales,
                         Problem problem) {
  using Config = typename Scheme::ScaleConfig;
  const auto whole = cute::append<4>(problem, 1);
  const auto *row_scales = static_cast<const typename Scheme::Scale *>(scales);
  if constexpr (kSwap) {
    arrays.b[expert] = static_cast<const typename Scheme::Kernel::ElementB *>(values);
    arrays.scales_b[expert] = row_scales;
    arrays.layout_b[expert] = Config::tile_atom_to_shape_SFB(whole);
  } else {
    arrays.a[expert] = static_cast<const typename Scheme::Kernel::ElementA *>(values);
    arrays.scales_a[expert] = row_scales;
    arrays.layout_a[expert] = Config::tile_atom_to_shape_SFA(whole);
  }
}

template <class Scheme>
__device__ void set_weights(const Arrays<Scheme> &arrays, uint32_t expert, const void *values, const void *scales,
                            Problem problem) {
  using Config = typename Scheme::ScaleConfig;
  const auto whole = cute::append<4>(problem, 1);
  const auto *weight_scales = static_cast<const typename Scheme::Scale *>(scales);
  if constexpr (kSwap) {
    arrays.a[expert] = static_cast<const typename Scheme::Kernel::ElementA *>(values);
    arrays.scales_a[expert] = weight_scales;
    arrays.layout_a[expert] = Config::tile_atom_to_shape_SFA(whole);
  } else {
    arrays.b[expert] = static_cast<const typename Scheme::Kernel::ElementB *>(values);
    arrays.scales_b[expert] = weight_scales;
    arrays.layout_b[expert] = Config::tile_atom_to_shape_SFB(whole);
  }
}

// Routing -> problems, and the pointers and layouts that move with it. One thread an expert.
template <class Scheme>
__global__ void prepare(Arrays<Scheme> arrays, moebius_operands operands, moebius_shape shape) {
  cutlass::arch::wait_on_dependent_grids();
  const uint32_t expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < shape.experts) {
    const int32_t first = operands.offsets[expert];
    const int32_t rows = operands.offsets[expert + 1] - first;
    const Problem problem =
        kSwap ? Problem{int(shape.n), rows, int(shape.k)} : Problem{rows, int(shape.n), int(shape.k)};
    arrays.problems[expert] = problem;
    arrays.outputs[expert] = static_cast<Output *>(operands.out) + int64_t(first) * shape.n;
    set_rows(arrays, expert,
             static_cast<const uint8_t *>(operands.activations) +
                 int64_t(first) * shape.k * cutlass::sizeof_bits<typename Scheme::Activation>::value / 8,
             Scheme::Scales::activations(operands, expert, first, shape.k), problem);
    if constexpr (Scheme::kGlobals) {
      arrays.alphas[expert] =
          operands.weight_globals[expert] * operands.activation_globals[shape.act_globals == 1 ? 0 : expert];
    }
  }
  cutlass::arch::launch_dependent_grids();
}

// What does not move with the routing: written once, at plan time.
template <class Scheme>
__global__ void lay_out(Arrays<Scheme> arrays, moebius_operands operands, moebius_shape shape) {
  const uint32_t expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert >= shape.experts) {
    return;
  }
  const Problem problem =
      kSwap ? Problem{int(shape.n), 1, int(shape.k)} : Problem{1, int(shape.n), int(shape.k)};
  set_weights(arrays, expert,
              static_cast<const uint8_t *>(operands.weights) +
                  int64_t(expert) * shape.n * shape.k * cutlass::sizeof_bits<typename Scheme::Weight>::value / 8,
              Scheme::Scales::weights(operands, expert, shape.n, shape.k), problem);
  // Both operands are k-major with the same leading dimension; the output has n.
  cute::get<0>(arrays.stride_a[expert]) = shape.k;
  cute::get<0>(arrays.stride_b[expert]) = shape.k;
  cute::get<kSwap ? 1 : 0>(arrays.stride_d[expert]) = shape.n;
}

// A unit of one scheme. Scheme gives the types Kernel, Weight, Activation, Scale, ScaleConfig and Scales (the place of the
// scales: common/sf_layout.cuh or of its own), and kGlobals, kAlignmentK, weights_layout and activations_layout.
template <class Scheme>
struct Grouped {
  using Kernel = typename Scheme::Kernel;
  using SchemeArrays = Arrays<Scheme>;

  static constexpr const char *weights_layout = Scheme::weights_layout;
  static constexpr const char *activations_layout = Scheme::activations_layout;
  static constexpr uint32_t kSharedBytes = Kernel::SharedStorageSize;
  static constexpr uint32_t kThreads = Kernel::MaxThreadsPerBlock;
  static constexpr uint32_t kStages = Kernel::CollectiveMainloop::DispatchPolicy::Stages;

  struct Plan {
    typename Kernel::Params params;
    SchemeArrays arrays;
    moebius_operands operands;
    moebius_shape shape;
    dim3 grid;
  };

  static int32_t supports(const moebius_shape *shape, moebius_message *message) {
    if (shape->k % Scheme::kAlignmentK != 0) {
      return unsupported(message, "K %u is not a multiple of %u (%s)", shape->k, Scheme::kAlignmentK,
                         Scheme::kAlignmentReason);
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
    const uint32_t experts = shape.experts;
    SchemeArrays arrays{};
    arrays.problems = carver.take<Problem>(experts);
    arrays.a = carver.take<const typename Kernel::ElementA *>(experts);
    arrays.b = carver.take<const typename Kernel::ElementB *>(experts);
    arrays.outputs = carver.take<Output *>(experts);
    arrays.stride_a = carver.take<typename Kernel::InternalStrideA>(experts);
    arrays.stride_b = carver.take<typename Kernel::InternalStrideB>(experts);
    arrays.stride_d = carver.take<typename Kernel::InternalStrideD>(experts);
    arrays.scales_a = carver.take<const typename Scheme::Scale *>(experts);
    arrays.scales_b = carver.take<const typename Scheme::Scale *>(experts);
    arrays.layout_a = carver.take<typename SchemeArrays::Mainloop::InternalLayoutSFA>(experts);
    arrays.layout_b = carver.take<typename SchemeArrays::Mainloop::InternalLayoutSFB>(experts);
    if constexpr (Scheme::kGlobals) {
      arrays.alphas = carver.take<float>(experts);
    }
    return arrays;
  }

  static typename Kernel::Arguments arguments(const moebius_shape &shape, const SchemeArrays &arrays) {
    typename Kernel::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {int32_t(shape.experts), arrays.problems, nullptr};
    arguments.mainloop.ptr_A = arrays.a;
    arguments.mainloop.dA = arrays.stride_a;
    arguments.mainloop.ptr_B = arrays.b;
    arguments.mainloop.dB = arrays.stride_b;
    arguments.mainloop.ptr_SFA = arrays.scales_a;
    arguments.mainloop.layout_SFA = arrays.layout_a;
    arguments.mainloop.ptr_SFB = arrays.scales_b;
    arguments.mainloop.layout_SFB = arrays.layout_b;
    arguments.epilogue.thread.alpha = 1.0f;
    if constexpr (Scheme::kGlobals) {
      arguments.epilogue.thread.alpha_ptr = arrays.alphas;
      cute::get<2>(arguments.epilogue.thread.dAlpha) = 1;
    }
    arguments.epilogue.ptr_D = arrays.outputs;
    arguments.epilogue.dD = arrays.stride_d;
    arguments.hw_info.sm_count = int(shape.sm_count);
    arguments.hw_info.cluster_shape = dim3(MOEBIUS_CLUSTER_M, MOEBIUS_CLUSTER_N, 1);
    arguments.hw_info.cluster_shape_fallback = arguments.hw_info.cluster_shape;
    // Tiles that share weights run next to one another, so that each weight comes from memory once.
    using Order = decltype(arguments.scheduler.raster_order);
    arguments.scheduler.raster_order = kSwap ? Order::AlongN : Order::AlongM;
    return arguments;
  }

  static int32_t sizes(const moebius_shape *shape, moebius_sizes *sizes, moebius_message *message) {
    MOEBIUS_TRY(supports(shape, message));
    Carver carver(nullptr);
    const SchemeArrays arrays = carve(carver, *shape);
    carver.take<char>(Kernel::get_workspace_size(arguments(*shape, arrays)));
    *sizes = moebius_sizes{};
    Scheme::Scales::sizes(*shape, sizes);
    sizes->workspace = carver.used();
    return MOEBIUS_OK;
  }

  static int32_t pack_weights(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                              moebius_message *message) {
    return Scheme::Scales::pack_weights(shape, operands, stream, message);
  }

  static int32_t pack_activations(const moebius_shape *shape, const moebius_operands *operands, moebius_stream stream,
                                  moebius_message *message) {
    return Scheme::Scales::pack_activations(shape, operands, stream, message);
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
    MOEBIUS_TRY_CUDA(launch(lay_out<Scheme>, blocks(shape->experts), kExpertsPerBlock, 0, cuda_stream, false, arrays,
                            *operands, *shape),
                     message);
    Plan *made =
        new (std::nothrow) Plan{Kernel::to_underlying_arguments(args, workspace), arrays, *operands, *shape, {}};
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
      MOEBIUS_TRY_CUDA(launch(prepare<Scheme>, blocks(planned.shape.experts), kExpertsPerBlock, 0, cuda_stream,
                              pdl != 0, planned.arrays, planned.operands, planned.shape),
                       message);
    }
    if (parts & MOEBIUS_RUN_GEMM) {
      MOEBIUS_TRY_CUDA(launch_cluster(cutlass::device_kernel<Kernel>, planned.grid, kThreads,
                                      dim3(MOEBIUS_CLUSTER_M, MOEBIUS_CLUSTER_N, 1), kSharedBytes, cuda_stream,
                                      pdl != 0, planned.params),
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
