// Encoding to the canonical formats, bit for bit as src/numeric does it: each operation is one rounded f32 operation (the
// intrinsics keep the compiler from fusing them), subnormals are kept, divisions are divisions.
#pragma once

#include <cstdint>

namespace moebius_support {

constexpr uint32_t kMagnitude = 0x7fffffffu;

__device__ inline float f32_infinity() { return __uint_as_float(0x7f800000u); }

// e2m1 code of a magnitude: how many rounding boundaries lie below it; ties go to the even code.
__device__ inline uint32_t encode_e2m1(float a) {
  return uint32_t(a > 0.25f) + uint32_t(a >= 0.75f) + uint32_t(a > 1.25f) + uint32_t(a >= 1.75f) + uint32_t(a > 2.5f) +
         uint32_t(a >= 3.5f) + uint32_t(a > 5.0f);
}

// e4m3 code of a magnitude, to nearest even, saturating at 448. Below 2^-6 the addition rounds to a multiple of 2^-9.
__device__ inline uint32_t encode_e4m3(float a) {
  const uint32_t b = __float_as_uint(a);
  const uint32_t normal = min(((b + 0x7ffffu + (b >> 20 & 1)) >> 20) - 960u, 0x7eu);
  const uint32_t subnormal = __float_as_uint(__fadd_rn(__fmul_rn(a, 512.0f), 8388608.0f)) & 0xff;
  return a >= 0.015625f ? normal : subnormal;
}

// Value of an e4m3 code below 0x7f.
__device__ inline float value_of_e4m3(uint32_t code) {
  return code < 8 ? float(code) * 0.001953125f : __uint_as_float((code << 20) + (120u << 23));
}

// ue8m0 scale of a block with this largest magnitude, for elements whose largest power of two is 2^emax.
__device__ inline uint32_t encode_ue8m0(uint32_t amax_bits, uint32_t emax) {
  const uint32_t exponent = amax_bits >> 23 & 0xff;
  return exponent > emax ? exponent - emax : 0;
}

__device__ inline float value_of_ue8m0(uint32_t code) { return __uint_as_float(code == 0 ? 0x00400000u : code << 23); }

// f32 scale that puts `amax` at `top`; at least 2^-126, and 1 for an amax of zero.
__device__ inline float scale_to(float top, uint32_t amax_bits) {
  return amax_bits == 0 ? 1.0f : fmaxf(__fdiv_rn(__uint_as_float(amax_bits), top), 1.17549435e-38f);
}

// Codes of x / step with their signs.
__device__ inline uint32_t code_e2m1(float x, float step) {
  const uint32_t bits = __float_as_uint(x);
  return encode_e2m1(__fdiv_rn(__uint_as_float(bits & kMagnitude), step)) | bits >> 31 << 3;
}

__device__ inline uint32_t code_e4m3(float x, float step) {
  const uint32_t bits = __float_as_uint(x);
  return encode_e4m3(__fdiv_rn(__uint_as_float(bits & kMagnitude), step)) | (bits >> 24 & 0x80);
}

}  // namespace moebius_support
