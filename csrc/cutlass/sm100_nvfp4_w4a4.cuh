// NVFP4 weights and activations on sm_100 with tcgen05: one multiprocessor a tile (SMS = 1), or two that share one (SMS = 2:
// 256-row tiles in clusters of 2x1). The product of an expert's two globals is the alpha of its problem: it multiplies the f32
// accumulator once, before the rounding to bf16. Scales are packed into 128x4 planes.
#pragma once

#include "common/sf_layout.cuh"
#include "cutlass/sm1xx_grouped.cuh"

namespace moebius {
namespace {

static_assert(MOEBIUS_SMS == 1 || MOEBIUS_SMS == 2, "a tile is computed by one or two multiprocessors");
static_assert(MOEBIUS_CLUSTER_M % MOEBIUS_SMS == 0, "two multiprocessors share a tile within a cluster");

struct Nvfp4 {
  using Weight = cutlass::float_e2m1_t;
  using Activation = cutlass::float_e2m1_t;
  using Scale = cutlass::float_ue4m3_t;
  using Pair = cutlass::nv_float4_t<cutlass::float_e2m1_t>;

  static constexpr const char *weights_layout = "nvfp4-scales-128x4";
  static constexpr const char *activations_layout = "nvfp4-scales-128x4";
  static constexpr bool kGlobals = true;
  static constexpr uint32_t kAlignmentK = 32;
  static constexpr const char *kAlignmentReason = "TMA reads 16 bytes at a time";

  using Arch = cutlass::arch::Sm100;
  using OperatorClass = cutlass::arch::OpClassBlockScaledTensorOp;
  using EpilogueSchedule = std::conditional_t<MOEBIUS_SMS == 2, cutlass::epilogue::PtrArrayTmaWarpSpecialized2Sm,
                                              cutlass::epilogue::PtrArrayTmaWarpSpecialized1Sm>;
  using Schedule = std::conditional_t<MOEBIUS_SMS == 2, cutlass::gemm::KernelPtrArrayTmaWarpSpecialized2SmNvf4Sm100,
                                      cutlass::gemm::KernelPtrArrayTmaWarpSpecialized1SmNvf4Sm100>;
  using Epilogue = EpilogueOf<Arch, OperatorClass, EpilogueSchedule>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, OperatorClass, Pair, cutlass::layout::RowMajor *, int(kAlignmentK), Pair, cutlass::layout::ColumnMajor *,
      int(kAlignmentK), float, Tile, Cluster, StagesOf<Epilogue>, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;
  using ScaleConfig = typename Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;
  using Scales = ScalePlanes<16>;
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Nvfp4>)
