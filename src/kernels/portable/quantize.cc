#include <algorithm>

#include "kernels/portable/int8_block.h"
#include "kernels/portable/portable.h"
#include "kernels/quantize_tokens.h"

namespace thaw::portable {
namespace {

// Below this the reciprocal of the scale leaves the range of floats (127 / 2^-121 is under 2^128);
// next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-121f;

void QuantizeBlock(const float* values, int8_t* quants, float* scale, int32_t* sums) {
  const float amax = LargestMagnitude(values, kActivationBlock);
  const bool is_finite = IsFiniteMagnitude(amax);
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
    sums[half] = sum;
  }
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens(QuantizeBlock, activations, token_begin, token_end);
}

}  // namespace thaw::portable
