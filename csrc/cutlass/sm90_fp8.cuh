// e4m3 weights with one f32 scale per expert, e4m3 activations with one f32 scale, on sm_90. The product of the two scales
// is the alpha of the expert. The tensor core's sum of 128 products of k is added to an f32 accumulator outside it, because
// it keeps fewer bits than f32 (no "fast accumulation"). All operands are canonical.
#pragma once

#include "cutlass/sm90_grouped.cuh"

namespace moebius {
namespace {

struct Fp8 {
  using Element = cutlass::float_e4m3_t;
  using Schedule = std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>;
  static constexpr int kAlignment = 128 / cutlass::sizeof_bits<Element>::value;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor *, kAlignment, Element,
      cutlass::layout::ColumnMajor *, kAlignment, float, Tile, Cluster, Stages, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;

  static constexpr bool kAlpha = true;
  static constexpr bool kBlockScales = false;

  static typename Kernel::MainloopArguments mainloop(const Arrays<Kernel, Element> &arrays) {
    const Element **a = kSwap ? arrays.weights : arrays.activations;
    const Element **b = kSwap ? arrays.activations : arrays.weights;
    return {a, arrays.stride_a, b, arrays.stride_b};
  }
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Fp8>)
