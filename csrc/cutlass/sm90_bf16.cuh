// bf16 weights and activations, f32 accumulation, on sm_90. All operands are canonical: nothing is packed.
#pragma once

#include "cutlass/sm90_grouped.cuh"

namespace moebius {
namespace {

struct Bf16 {
  using Element = cutlass::bfloat16_t;
  using Schedule = std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>;
  static constexpr int kAlignment = 128 / cutlass::sizeof_bits<Element>::value;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor *, kAlignment, Element,
      cutlass::layout::ColumnMajor *, kAlignment, float, Tile, Cluster, Stages, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;

  static constexpr bool kAlpha = false;
  static constexpr bool kBlockScales = false;

  static typename Kernel::MainloopArguments mainloop(const Arrays<Kernel, Element> &arrays) {
    const Element **a = kSwap ? arrays.weights : arrays.activations;
    const Element **b = kSwap ? arrays.activations : arrays.weights;
    return {a, arrays.stride_a, b, arrays.stride_b};
  }
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Bf16>)
