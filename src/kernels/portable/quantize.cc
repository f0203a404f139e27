#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/portable/int8_block.h"
#include "kernels/portable/portable.h"
#include "kernels/quantize_tokens.h"

namespace thaw::portable {
namespace {

struct Blocks {
  // 32 values.
  struct Step {
    float values[kActivationStep];
  };

  static Step Load(const float* values) {
    Step step;
    std::copy_n(values, kActivationStep, step.values);
    return step;
  }

  // A NaN beats everything.
  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    uint32_t largest = 0;
    for (const Step& step : steps) {
      const float magnitude = portable::LargestMagnitude(step.values, kActivationStep);
      largest = std::max(largest, std::bit_cast<uint32_t>(magnitude));
    }
    return std::bit_cast<float>(largest);
  }

  // A bit for each value whose square is above the limit.
  static uint32_t SquaresAbove(const Step& step, float limit) {
    uint32_t above = 0;
    for (int i = 0; i < kActivationStep; ++i) {
      above |= uint32_t{step.values[i] * step.values[i] > limit} << i;
    }
    return above;
  }

  // The values whose bits are set become 0.
  static Step ZeroWhere(Step step, uint32_t bits) {
    for (int i = 0; i < kActivationStep; ++i) {
      if ((bits >> i & 1) != 0) step.values[i] = 0;
    }
    return step;
  }

  // The values times `factor`, rounded half to even, within +-127; `sums`: of each 16 of them.
  template <int n>
  static void Quantize(const Step (&steps)[n], float factor, int8_t* quants,
                       int32_t (&sums)[2 * n]) {
    for (int half = 0; half < 2 * n; ++half) {
      int32_t sum = 0;
      for (int i = 0; i < kActivationSum; ++i, ++quants) {
        const float value = steps[half / 2].values[half % 2 * kActivationSum + i];
        *quants = static_cast<int8_t>(RoundToInt(value * factor));
        sum += *quants;
      }
      sums[half] = sum;
    }
  }

  // The pair corrections of the quants of a step; those of a wide copy where there is room for
  // them.
  static void CorrectPairs(const int8_t* quants, int16_t* of_eights, int16_t* of_sixteens) {
    const auto correct = [&](int first, int length) {
      int sum = 0;
      for (int i = first; i < first + length; i += 4) sum += quants[i] + quants[i + 1];
      return static_cast<int16_t>(-kPairUnit * sum);
    };
    for (int i = 0; i < 8; ++i) of_eights[i] = correct(i / 2 * 8 + i % 2 * 2, 8);
    if (of_sixteens == nullptr) return;
    for (int i = 0; i < 4; ++i) of_sixteens[i] = correct(i / 2 * 16 + i % 2 * 2, 16);
  }

  // The most that the magnitudes of 16 quants add up to, of n that begin at a multiple of 32.
  static int32_t MostOfSums(const int8_t* quants, int64_t n) {
    int32_t most = 0;
    for (int64_t first = 0; first < n; first += kActivationSum) {
      int32_t sum = 0;
      for (int64_t i = first; i < first + kActivationSum; ++i) sum += std::abs(quants[i]);
      most = std::max(most, sum);
    }
    return most;
  }
};

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
}

}  // namespace thaw::portable
