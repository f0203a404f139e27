// Steps of turning a block of floats into int8 with one scale, which activations and the KV cache
// share. Pure functions; every kernel table gets the same bits from its own version of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace thaw::portable {

// The largest magnitude of n numbers, by the order of the bits: a NaN beats everything.
inline float LargestMagnitude(const float* values, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

// Whether a magnitude is neither infinite nor NaN.
inline bool IsFiniteMagnitude(float magnitude) {
  constexpr uint32_t kInfinityBits = 0x7f800000;
  return std::bit_cast<uint32_t>(magnitude) < kInfinityBits;
}

// Round half to even, for |x| < 2^22: at 1.5 * 2^23 the step of floats is 1, so the sum is rounded
// to a whole number, which its lowest bits then hold.
inline int32_t RoundToInt(float x) {
  constexpr float kShift = 0x1.8p23f;
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + kShift) -
                              std::bit_cast<uint32_t>(kShift));
}

}  // namespace thaw::portable
