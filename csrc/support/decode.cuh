// Exact decode of the canonical formats to double, written from the format definitions and from nothing else: the judge of
// kernels must not share their mistakes.
#pragma once

#include <cstdint>

namespace moebius_support {

// e2m1: sign, two exponent bits of bias 1, one mantissa bit; the values are 0, .5, 1, 1.5, 2, 3, 4, 6.
__device__ inline double decode_e2m1(uint32_t code) {
  const uint32_t exponent = code >> 1 & 3, mantissa = code & 1;
  const double magnitude = exponent == 0 ? 0.5 * mantissa : (1.0 + 0.5 * mantissa) * (1 << (exponent - 1));
  return code & 8 ? -magnitude : magnitude;
}

// e4m3 (fn): sign, four exponent bits of bias 7, three mantissa bits, no infinity, 0x7f and 0xff are NaN.
__device__ inline double decode_e4m3(uint32_t code) {
  const uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return __longlong_as_double(0x7ff8000000000000ll);
  const double magnitude =
      exponent == 0 ? ldexp(double(mantissa), -9) : ldexp(1.0 + mantissa / 8.0, int(exponent) - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

// ue8m0: a power of two of bias 127, 0xff is NaN.
__device__ inline double decode_ue8m0(uint32_t code) {
  return code == 255 ? __longlong_as_double(0x7ff8000000000000ll) : ldexp(1.0, int(code) - 127);
}

__device__ inline double decode_bf16(uint16_t bits) { return double(__uint_as_float(uint32_t(bits) << 16)); }

// Lower k in the low nibble.
__device__ inline uint32_t nibble(const uint8_t *packed, uint64_t index) {
  const uint32_t byte = packed[index / 2];
  return index & 1 ? byte >> 4 : byte & 15;
}

}  // namespace moebius_support
