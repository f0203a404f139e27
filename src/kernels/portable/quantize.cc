#include <algorithm>
#include <bit>

#include "kernels/portable/portable.h"

namespace thaw::portable {
namespace {

// Below this the reciprocal of the scale leaves the range of floats (127 / 2^-121 is under 2^128);
// next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-121f;

// Magnitudes from these bits on are infinite or NaN.
constexpr uint32_t kInfinityBits = 0x7f800000;

// The largest magnitude of a block, by the order of the bits: a NaN beats everything.
float LargestMagnitude(const float* values) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < kActivationBlock; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

// Round half to even, for |x| < 2^22: at 1.5 * 2^23 the step of floats is 1, so the sum is rounded
// to a whole number, which its lowest bits then hold.
int32_t RoundToInt(float x) {
  constexpr float kShift = 0x1.8p23f;
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + kShift) -
                              std::bit_cast<uint32_t>(kShift));
}

void QuantizeBlock(const float* values, int8_t* quants, float* scale, float* sums) {
  const float amax = LargestMagnitude(values);
  const bool is_finite = std::bit_cast<uint32_t>(amax) < kInfinityBits;
  if (!is_finite || amax < kSmallestAmax) {
    std::fill_n(quants, kActivationBlock, int8_t{0});
    *scale = is_finite ? 0.0f : amax;
  } else {
    *scale = amax / 127.0f;
    const float inverse = 127.0f / amax;
    for (int64_t i = 0; i < kActivationBlock; ++i) {
      quants[i] = static_cast<int8_t>(RoundToInt(values[i] * inverse));
    }
  }
  for (int64_t half = 0; half < kActivationBlock / kActivationSum; ++half) {
    int32_t sum = 0;
    for (int64_t i = 0; i < kActivationSum; ++i) sum += quants[half * kActivationSum + i];
    sums[half] = *scale * static_cast<float>(sum);
  }
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeByBlocks(QuantizeBlock, activations, token_begin, token_end);
}

}  // namespace thaw::portable
