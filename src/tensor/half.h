// Conversions between float and the narrower floating-point formats that tensors and block scales
// are stored in, by integer arithmetic on the bits, so that every host and compiler agrees.
//
//   name   sign exponent mantissa  bias  where
//   F16      1      5       10      15   IEEE 754 binary16: tensors, block scales, the KV cache
//   BF16     1      8        7     127   the upper half of a float: tensors
//   E8M0     -      8        0     127   MXFP4 block scales: powers of two
//   UE4M3    -      4        3       7   NVFP4 block scales
//
// Widening is exact. Narrowing rounds to the nearest value, ties to the even mantissa, overflows to
// infinity and keeps subnormals, signed zeros and NaN (made quiet, the upper bits of its payload
// kept), which is what the processors' own instructions do. All functions are pure.
#pragma once

#include <bit>
#include <cstdint>

namespace thaw {

constexpr float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t shifted = static_cast<uint32_t>(half & 0x7fff) << 13;  // mantissas aligned
  constexpr uint32_t kRebias = (127 - 15) << 23;
  if (shifted >= 0x7c00u << 13) {  // infinity or NaN: the exponent becomes 255, a NaN quiet
    const uint32_t quiet = shifted > 0x7c00u << 13 ? 0x00400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | shifted | quiet);
  }
  if (shifted < 0x0400u << 13) {
    // Zero or subnormal, m * 2^-24 with m the mantissa: as the mantissa of 2^-14, m makes
    // 2^-14 + m * 2^-24; the difference is exact and normal.
    constexpr uint32_t kTwoToMinus14 = (127 - 14) << 23;
    const float magnitude =
        std::bit_cast<float>(kTwoToMinus14 | shifted) - std::bit_cast<float>(kTwoToMinus14);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (shifted + kRebias));
}

constexpr uint16_t F32ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x03ff));
  }
  // 65520 lies halfway between the largest half, 65504, and 2^16, which would be the next.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < (127 - 14) << 23) {
    // Below 2^-14 halves are multiples of 2^-24, the step of floats in [0.5, 1): adding 0.5 rounds
    // to them, and leaves the multiple in the lowest bits.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  // Adding just under half of the last kept place, one more if that place is odd, carries exactly
  // when the rest is to be rounded up; a carry out of the mantissa is the next exponent.
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0x0fff + (rebiased >> 13 & 1)) >> 13));
}

constexpr float BF16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t F32ToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x0040);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Half of the E8M0 value: 2^(code - 128). The factor is there because the 4-bit codebook of the
// blocks scaled by it holds doubled values. Code 255, a NaN in the OCP Microscaling specification,
// reads as 2^127, as in ggml, whose files these are.
constexpr float HalvedE8M0ToF32(uint8_t code) {
  // 2^-128 and 2^-127 are subnormal floats; from code 2 on, code - 1 is the biased exponent.
  const uint32_t bits = code < 2 ? 0x00200000u << code : static_cast<uint32_t>(code - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Half of the UE4M3 value, for the same codebook. There is no infinity; 0x7f, the NaN, reads as 0
// and the highest bit is ignored otherwise, as in ggml.
constexpr float HalvedUE4M3ToF32(uint8_t code) {
  if (code == 0x7f) return 0.0f;
  const uint32_t exponent = code >> 3 & 0x0f;
  const uint32_t mantissa = code & 0x07;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;  // steps of 2^-9, halved
  return std::bit_cast<float>((exponent - 7 - 1 + 127) << 23 | mantissa << 20);
}

}  // namespace thaw
