// The block-scaled grouped kernel of CUTLASS on sm_120: warps multiply with OMMA or QMMA out of registers, one block fills
// shared memory by TMA; clusters are of one block.
#pragma once

#include "cutlass/sm1xx_grouped.cuh"

namespace moebius {
namespace {

static_assert(MOEBIUS_COOPERATIVE + MOEBIUS_PINGPONG == 1, "a schedule is cooperative or pingpong");
static_assert(MOEBIUS_CLUSTER_M * MOEBIUS_CLUSTER_N == 1, "sm_120 has no clusters of several blocks for this kernel");

// Weights and Activations name a value and its scale as CUTLASS does (nv_float4_t<float_e2m1_t>); the alignments are in values.
template <class Weights, int weight_alignment, class Activations, int activation_alignment>
struct BlockScaled {
  using Arch = cutlass::arch::Sm120;
  using OperatorClass = cutlass::arch::OpClassBlockScaledTensorOp;
  using Epilogue = EpilogueOf<Arch, OperatorClass, cutlass::epilogue::collective::EpilogueScheduleAuto>;
  using Schedule = std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, OperatorClass, OperandM<Weights, Activations>, cutlass::layout::RowMajor *,
      kSwap ? weight_alignment : activation_alignment, OperandN<Weights, Activations>, cutlass::layout::ColumnMajor *,
      kSwap ? activation_alignment : weight_alignment, float, Tile, Cluster, StagesOf<Epilogue>,
      Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;
};

}  // namespace
}  // namespace moebius
