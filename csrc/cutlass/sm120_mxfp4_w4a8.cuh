// MXFP4 weights (e2m1 in groups of 32 with ue8m0 scales) and MXFP8 activations (e4m3 likewise) on sm_120, with the mxf8f6f4
// instructions. TMA unpacks two weights of a byte into a byte each on the way to shared memory, which asks for k in steps of
// 128 values. Values are read as they are; scales are packed into 128x4 planes.
#pragma once

#include "common/sf_layout.cuh"
#include "cutlass/sm120_block_scaled.cuh"

namespace moebius {
namespace {

struct Mxfp4W4a8 {
  using Weight = cutlass::float_e2m1_t;
  using Activation = cutlass::float_e4m3_t;
  using Scale = cutlass::float_ue8m0_t;

  static constexpr const char *weights_layout = "mxfp4-scales-128x4";
  static constexpr const char *activations_layout = "mxfp8-scales-128x4";
  static constexpr bool kGlobals = false;
  static constexpr uint32_t kAlignmentK = 128;
  static constexpr const char *kAlignmentReason = "TMA unpacks FP4 in pieces of 128 values";

  using Kernel = typename BlockScaled<cutlass::mx_float4_t<Weight>, int(kAlignmentK), cutlass::mx_float8_t<Activation>,
                                      16>::Kernel;
  using ScaleConfig = typename Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;
  using Scales = ScalePlanes<32>;
};

}  // namespace
}  // namespace moebius

MOEBIUS_DEFINE_UNIT(moebius::Grouped<moebius::Mxfp4W4a8>)
