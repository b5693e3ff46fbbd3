// e4m3 weights with one f32 scale per 128 x 128 block, e4m3 activations with one f32 scale per row and 128 values of k, on
// sm_120. QMMA sums a block of k; the sum is multiplied by both scales while it is added to an f32 accumulator.
//
// CUTLASS is told that the scales of an expert are [rows][k/128] and [n/128][k/128]: the canonical layouts, so nothing is
// packed.
#pragma once

#include <cutlass/detail/blockwise_scale_layout.hpp>

#include "cutlass/sm1xx_grouped.cuh"

namespace moebius {
namespace {

static_assert(MOEBIUS_COOPERATIVE + MOEBIUS_PINGPONG == 1, "a schedule is cooperative or pingpong");

constexpr uint32_t kScaleBlock = 128;
static_assert(MOEBIUS_TILE_K == kScaleBlock, "a tile holds one block of k");

// The canonical f32 scales, where they are.
struct CanonicalScales {
  static void sizes(const moebius_shape &, moebius_sizes *) {}
  static int32_t pack_weights(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *) {
    return MOEBIUS_OK;
  }
  static int32_t pack_activations(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *) {
    return MOEBIUS_OK;
  }
  static __device__ const void *weights(const moebius_operands &operands, uint32_t expert, uint32_t n, uint32_t k) {
    const int64_t blocks = int64_t((n + kScaleBlock - 1) / kScaleBlock) * (k / kScaleBlock);
    return static_cast<const float *>(operands.weight_scales) + expert * blocks;
  }
  static __device__ const void *activations(const moebius_operands &operands, uint32_t, int32_t first_row, uint32_t k) {
    return static_cast<const float *>(operands.activation_scales) + int64_t(first_row) * (k / kScaleBlock);
  }
};

struct Fp8Block {
  using Weight = cutlass::float_e4m3_t;
  using Activation = cutlass::float_e4m3_t;
  using Scale = float;
  using Scales = CanonicalScales;

  static constexpr const char *weights_layout = "canonical";
  static constexpr const char *activations_layout = "canonical";
  static constexpr bool kGlobals = false;
  static constexpr uint32_t kAlignmentK = kScaleBlock;
  static constexpr const char *kAlignmentReason = "a tile holds one whole block of k";
  static constexpr int kAlignment = 128 / cutlass::sizeof_bits<Weight>::value;

  using Arch = cutlass::arch::Sm120;
  using OperatorClass = cutlass::arch::OpClassTensorOp;
  using ScaleConfig =
      cutlass::detail::Sm120BlockwiseScaleConfig<kSwap ? kScaleBlock : 1, kSwap ? 1 : kScaleBlock, kScaleBlock,
                                                 cute::UMMA::Major::K, cute::UMMA::Major::K>;
  using LayoutSFA = decltype(ScaleConfig::deduce_layoutSFA());
  using LayoutSFB = decltype(ScaleConfig::deduce_layoutSFB());
  using Schedule = std::conditional_t<MOEBIUS_PINGPONG != 0, cutlass::gemm::KernelTmaWarpSpecializedBlockwisePingpongSm120,
                                      cutlass::gemm::KernelTmaWarpSpecializedBlockwiseCooperativeSm120>;
  using Epilogue = EpilogueOf<Arch, OperatorClass, cutlass::epilogue::collective::EpilogueScheduleAuto>;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, OperatorClass, Weight, cute::tuple<cutlass::layout::RowMajor *, LayoutSFA *>, kAlignment, Activation,
      cute::tuple<cutlass::layout::ColumnMajor *, LayoutSFB *>, kAlignment, float, Tile, Cluster, StagesOf<Epilogue>,
      Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<GroupedProblem, Mainloop, Epilogue>;
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Fp8Block>)
