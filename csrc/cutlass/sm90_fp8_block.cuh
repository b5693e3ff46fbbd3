// e4m3 weights with one f32 scale per 128 x 128 block, e4m3 activations with one f32 scale per row and 128 values of k, on
// sm_90. The tensor core's sum over a block of k is multiplied by both scales while it is added to an f32 accumulator.
//
// CUTLASS reads the scales of an expert as [rows][k/128] and [n/128][k/128] ("K-major"): the canonical layouts, so nothing
// is packed and nothing but pointers depends on the routing.
#pragma once

#include <cutlass/detail/blockwise_scale_layout.hpp>

#include "cutlass/sm90_grouped.cuh"

namespace moebius {
namespace {

struct Fp8Block {
  using Element = cutlass::float_e4m3_t;
  using Schedule =
      std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpongFP8Blockwise,
                         cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperativeFP8Blockwise>;
  static constexpr int kAlignment = 128 / cutlass::sizeof_bits<Element>::value;
  // With one block of k a tile, the shared-memory layout of the scales is the same for K-major and MN-major scales, which
  // CUTLASS mixes up between A and B.
  static_assert(MOEBIUS_TILE_K == kScaleBlock, "a tile holds one block of k");
  using Scales = cutlass::detail::Sm90BlockwiseScaleConfig<kSwap ? kScaleBlock : 1, kSwap ? 1 : kScaleBlock,
                                                           kScaleBlock, cute::GMMA::Major::K, cute::GMMA::Major::K>;
  using LayoutSFA = decltype(Scales::deduce_layoutSFA());
  using LayoutSFB = decltype(Scales::deduce_layoutSFB());
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element,
      cute::tuple<cutlass::layout::RowMajor *, LayoutSFA *>, kAlignment, Element,
      cute::tuple<cutlass::layout::ColumnMajor *, LayoutSFB *>, kAlignment, float, Tile, Cluster, Stages,
      Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;

  static constexpr bool kAlpha = false;
  static constexpr bool kBlockScales = true;

  static __device__ const float *activation_scales(const moebius_operands &operands, int32_t first_row, uint32_t k) {
    return static_cast<const float *>(operands.activation_scales) +
           int64_t(first_row) * ((k + kScaleBlock - 1) / kScaleBlock);
  }

  static typename Kernel::MainloopArguments mainloop(const Arrays<Kernel, Element> &arrays) {
    const Element **a = kSwap ? arrays.weights : arrays.activations;
    const Element **b = kSwap ? arrays.activations : arrays.weights;
    const float **scales_a = kSwap ? arrays.weight_scales : arrays.activation_scales;
    const float **scales_b = kSwap ? arrays.activation_scales : arrays.weight_scales;
    // The scale layouts of a grouped problem follow from its size; their arguments are not read.
    return {a, arrays.stride_a, b, arrays.stride_b, scales_a, nullptr, scales_b, nullptr};
  }
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Fp8Block>)
