// NVFP4 weights and activations (e2m1 in groups of 16 with ue4m3 scales) on sm_120. The product of an expert's two globals is
// the alpha of its problem: it multiplies the f32 accumulator once, before the rounding to bf16. Values are read as they are;
// scales are packed into 128x4 planes.
#pragma once

#include "common/sf_layout.cuh"
#include "cutlass/sm120_block_scaled.cuh"

namespace moebius {
namespace {

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

  using Kernel = typename BlockScaled<Pair, int(kAlignmentK), Pair, int(kAlignmentK)>::Kernel;
  using ScaleConfig = typename Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;
  using Scales = ScalePlanes<16>;
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Nvfp4>)
