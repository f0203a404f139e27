// KernelTable::quantize_activations by a function for one block, inlined into it.
//
// In an anonymous namespace, for the reason given in packed_formats.h: each file that includes this
// is compiled for an instruction set of its own. All of them get the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/activations.h"

namespace thaw {
namespace {

// The square of the magnitude from which on a number of the token is an outlier; where a number is
// infinite or NaN, or overflows when squared, so is this. The same additions in the same order
// everywhere, in as many lanes as any compiler's baseline registers take.
inline float SquaredOutlierLimit(const float* values, int64_t k) {
  constexpr int64_t kLanes = 8;
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  constexpr double kSquaredRatio = kOutlierRatio * kOutlierRatio;
  return static_cast<float>(sum * kSquaredRatio / static_cast<double>(k));
}

// Moves the outliers of a block from `values` to the token's list, where there is room for `room`
// more of them; returns how many.
inline int32_t TakeOutliers(float* values, float limit, int64_t first_index, int64_t room,
                            Outlier* outliers) {
  int32_t count = 0;
  for (int64_t i = 0; i < kActivationBlock && count < room; ++i) {
    if (!(values[i] * values[i] > limit)) continue;
    outliers[count++] = {static_cast<int32_t>(first_index + i), values[i]};
    values[i] = 0;
  }
  return count;
}

// `quantize_block(values, quants, scale, sums)`: 32 values to 32 quants, a scale, and the sums of
// the quants' halves.
template <typename QuantizeBlock>
void QuantizeTokens(QuantizeBlock quantize_block, const Activations& activations,
                    int64_t token_begin, int64_t token_end) {
  if (activations.quants == nullptr) return;
  const int64_t k = activations.k;
  const int64_t blocks = k / kActivationBlock;
  const int64_t most_outliers = k / (kOutlierRatio * kOutlierRatio);
  for (int64_t token = token_begin; token < token_end; ++token) {
    const float* values = activations.values + token * k;
    Outlier* outliers = activations.outliers + token * most_outliers;
    const float limit = SquaredOutlierLimit(values, k);
    int32_t count = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      const float* of_block = values + block * kActivationBlock;
      int has_outliers = 0;  // without a branch, for the compiler's vectors
      for (int64_t i = 0; i < kActivationBlock; ++i) {
        has_outliers |= of_block[i] * of_block[i] > limit;
      }
      float rest[kActivationBlock];
      if (has_outliers != 0) {
        std::memcpy(rest, of_block, sizeof(rest));
        count += TakeOutliers(rest, limit, block * kActivationBlock, most_outliers - count,
                              outliers + count);
        of_block = rest;
      }
      const int64_t at = token * blocks + block;
      int32_t sums[2];
      float scale;
      quantize_block(of_block, activations.quants + at * kActivationBlock, &scale, sums);
      const int32_t sum = sums[0] + sums[1];
      activations.scales[at] = scale;
      activations.block_sums[at] = scale * static_cast<float>(sum);
      activations.block_corrections[at] = -kCorrectionUnit * sum;
      for (int64_t half = 0; half < 2; ++half) {
        activations.sums[2 * at + half] = scale * static_cast<float>(sums[half]);
        activations.corrections[2 * at + half] = -kCorrectionUnit * sums[half];
      }
    }
    activations.outlier_counts[token] = count;
  }
}

}  // namespace
}  // namespace thaw
