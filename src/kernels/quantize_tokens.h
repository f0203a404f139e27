// KernelTable::quantize_activations over the blocks of an instruction set: what Blocks has to have
// is what portable/quantize.cc has.
//
// In an anonymous namespace, for the reason given in packed_formats.h: each file that includes this
// is compiled for an instruction set of its own. All of them get the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/activations.h"

namespace thaw {
namespace {

// Below this the reciprocal of the scale leaves the range of floats (127 / 2^-121 is under 2^128);
// next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-121f;

// The square of the magnitude from which on a number of the token is an outlier; where a number is
// infinite or NaN, or overflows when squared, so is this. The same additions in the same order
// everywhere, in so many lanes that their latency is hidden.
inline float SquaredOutlierLimit(const float* values, int64_t k) {
  constexpr int64_t kLanes = kActivationStep;
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  double sum = 0;
  for (int64_t lane = 0; lane < kLanes / 4; ++lane) {
    sum += static_cast<double>((lanes[lane] + lanes[lane + kLanes / 4]) +
                               (lanes[lane + kLanes / 2] + lanes[lane + kLanes / 4 * 3]));
  }
  constexpr double kSquaredRatio = kOutlierRatio * kOutlierRatio;
  return static_cast<float>(sum * kSquaredRatio / static_cast<double>(k));
}

// Where a block's part of a copy goes.
struct QuantizedBlock {
  int8_t* quants;
  float* scale;
  float* sums;
  float* step_sums;
  int32_t* corrections;
  int32_t* step_corrections;
};

// The outliers of a token as they are found.
struct OutlierList {
  Outlier* outliers;
  int32_t count;
  int32_t room;
};

// Moves the outliers of a block of n steps, which begins at element `first`, to the list.
template <typename Blocks, int n>
[[gnu::noinline]] void TakeOutliers(const float* values, float limit, int64_t first,
                                    typename Blocks::Step (&steps)[n], OutlierList& list) {
  for (int i = 0; i < n; ++i) {
    const uint32_t above = Blocks::SquaresAbove(steps[i], limit);
    uint32_t taken = 0;
    for (uint32_t rest = above; rest != 0 && list.count < list.room; rest &= rest - 1) {
      const int at = std::countr_zero(rest);
      const int64_t index = i * kActivationStep + at;
      list.outliers[list.count++] = {static_cast<int32_t>(first + index), values[index]};
      taken |= uint32_t{1} << at;
    }
    steps[i] = Blocks::ZeroWhere(steps[i], taken);
  }
}

// A block of n steps, 32 or 64 values, that begins at element `first` of its token.
template <typename Blocks, int n>
void QuantizeBlock(const float* values, float limit, int64_t first, const QuantizedBlock& out,
                   OutlierList& list) {
  typename Blocks::Step steps[n];
  for (int i = 0; i < n; ++i) steps[i] = Blocks::Load(values + i * kActivationStep);
  float amax = Blocks::LargestMagnitude(steps);
  if (amax * amax > limit) {
    TakeOutliers<Blocks>(values, limit, first, steps, list);
    amax = Blocks::LargestMagnitude(steps);
  }
  int32_t sums[2 * n] = {};
  const bool is_finite = amax - amax == 0;
  if (!is_finite || amax < kSmallestAmax) {
    *out.scale = is_finite ? 0.0f : amax;
    for (int i = 0; i < n * kActivationStep; ++i) out.quants[i] = 0;
  } else {
    *out.scale = amax / 127.0f;
    Blocks::Quantize(steps, 127.0f / amax, out.quants, sums);
  }
  for (int half = 0; half < 2 * n; ++half) {
    out.sums[half] = static_cast<float>(sums[half]);
    out.corrections[half] = -kCorrectionUnit * sums[half];
  }
  for (int i = 0; i < n; ++i) {
    const int32_t sum = sums[2 * i] + sums[2 * i + 1];
    out.step_sums[i] = static_cast<float>(sum);
    out.step_corrections[i] = -kCorrectionUnit * sum;
  }
}

template <typename Blocks>
void QuantizeTokens(const Activations& a, int64_t token_begin, int64_t token_end) {
  if (a.quants == nullptr) return;
  const int64_t k = a.k;
  const int64_t segments = OutlierSegments(k);
  const int64_t blocks = ActivationBlocks(k);
  const int64_t most_outliers = MaxOutliers(k);
  for (int64_t token = token_begin; token < token_end; ++token) {
    const float* values = a.values + token * k;
    const float limit = SquaredOutlierLimit(values, k);
    OutlierList list{a.outliers + token * most_outliers, 0, static_cast<int32_t>(most_outliers)};
    for (int64_t segment = 0; segment < segments; ++segment) {
      const int64_t begin = segment * kOutlierSegment;
      const int64_t end = k - begin < kOutlierSegment ? k : begin + kOutlierSegment;
      for (int64_t at = begin; at < end; at += kActivationBlock) {
        const int64_t element = token * k + at;
        const QuantizedBlock out{
            .quants = a.quants + element,
            .scale = a.scales + token * blocks + at / kActivationBlock,
            .sums = a.sums + element / kActivationSum,
            .step_sums = a.step_sums + element / kActivationStep,
            .corrections = a.corrections + element / kActivationSum,
            .step_corrections = a.step_corrections + element / kActivationStep};
        if (end - at >= kActivationBlock) {
          QuantizeBlock<Blocks, 2>(values + at, limit, at, out, list);
        } else {
          QuantizeBlock<Blocks, 1>(values + at, limit, at, out, list);
        }
      }
      a.outlier_ends[token * segments + segment] = list.count;
    }
  }
}

}  // namespace
}  // namespace thaw
