// KernelTable::quantize_activations over the blocks of an instruction set: what Blocks has to have
// is what portable/quantize.cc has.
//
// In an anonymous namespace, for the reason given in packed_formats.h: each file that includes this
// is compiled for an instruction set of its own. All of them get the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/bf16.h"

namespace thaw {
namespace {

// Below this the reciprocal of the scale leaves the range of floats (127 / 2^-121 is under 2^128);
// next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-121f;

// Likewise for shorts: 32767 / 2^-112.
constexpr float kSmallestShortAmax = 0x1p-112f;

inline float Magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffff);
}

// The square of the magnitude from which on a number of the token is an outlier; where a number is
// infinite or NaN, or overflows when squared, so is this. `ratio`: that magnitude over the root
// mean square. The same additions in the same order everywhere, in so many lanes that their latency
// is hidden.
inline float SquaredOutlierLimit(const float* values, int64_t k, int64_t ratio) {
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
  return static_cast<float>(sum * static_cast<double>(ratio * ratio) / static_cast<double>(k));
}

// Where a block's part of a copy goes.
struct QuantizedBlock {
  int8_t* quants;
  float* scale;
  float* sums;
  float* step_sums;
  int16_t* half_sums;
  int16_t* half_step_sums;
  int32_t* corrections;
  int32_t* step_corrections;
  int32_t* second_corrections;
  int16_t* pair_corrections;
  int16_t* wide_pair_corrections;

  // Of the block at element `at` of a token.
  QuantizedBlock(const Activations& a, int64_t token, int64_t at) {
    const int64_t element = token * a.k + at;
    quants = a.quants + token * QuantStride(a.k) + at;
    scale = a.scales + token * ActivationBlocks(a.k) + at / kActivationBlock;
    sums = a.sums + element / kActivationSum;
    step_sums = a.step_sums + element / kActivationStep;
    half_sums = a.half_sums + element / kActivationSum;
    half_step_sums = a.half_step_sums + element / kActivationStep;
    corrections = a.corrections + element / kActivationSum;
    step_corrections = a.step_corrections + element / kActivationStep;
    second_corrections = a.second_corrections + element / kActivationStep;
    pair_corrections = a.pair_corrections + element / 4;
    wide_pair_corrections = a.wide_pair_corrections + element / 8;
  }
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

// The values of n steps, 32 or 64, from element `first` of their token on, without the outliers
// among them. Returns the largest magnitude that is left.
template <typename Blocks, int n>
float LoadSteps(const float* values, float limit, int64_t first, typename Blocks::Step (&steps)[n],
                OutlierList& list) {
  for (int i = 0; i < n; ++i) steps[i] = Blocks::Load(values + i * kActivationStep);
  const float amax = Blocks::LargestMagnitude(steps);
  if (!(amax * amax > limit)) return amax;
  TakeOutliers<Blocks>(values, limit, first, steps, list);
  return Blocks::LargestMagnitude(steps);
}

// How a block whose largest magnitude is `amax` is quantized: value * factor, rounded, is a quant
// and quant * scale the value; factor 0 where all quants are 0.
struct Quantization {
  float scale;
  float factor;

  explicit Quantization(float amax) {
    const bool is_finite = amax - amax == 0;
    const bool is_zero = !is_finite || amax < kSmallestAmax;
    scale = !is_finite ? amax : is_zero ? 0.0f : amax / 127.0f;
    factor = is_zero ? 0.0f : 127.0f / amax;
  }
};

// The quants of steps and the sums of their halves.
template <typename Blocks, int n>
void QuantizeSteps(const typename Blocks::Step (&steps)[n], const Quantization& by, int8_t* quants,
                   int32_t (&sums)[2 * n]) {
  if (by.factor == 0) {
    for (int i = 0; i < n * kActivationStep; ++i) quants[i] = 0;
    for (int32_t& sum : sums) sum = 0;
  } else {
    Blocks::Quantize(steps, by.factor, quants, sums);
  }
}

// What the sums of a block's halves of steps are kept as, in loops that compilers make vectors of.
template <bool is_wide, int n>
void StoreSums(const int32_t (&sums)[2 * n], const QuantizedBlock& out) {
  for (int half = 0; half < 2 * n; ++half) out.sums[half] = static_cast<float>(sums[half]);
  for (int half = 0; half < 2 * n; ++half) out.corrections[half] = -kCorrectionUnit * sums[half];
  int32_t of_steps[n];
  for (int i = 0; i < n; ++i) of_steps[i] = sums[2 * i] + sums[2 * i + 1];
  for (int i = 0; i < n; ++i) out.step_sums[i] = static_cast<float>(of_steps[i]);
  for (int i = 0; i < n; ++i) out.step_corrections[i] = -kCorrectionUnit * of_steps[i];
  if constexpr (is_wide) {
    for (int half = 0; half < 2 * n; ++half) out.half_sums[half] = static_cast<int16_t>(sums[half]);
    for (int i = 0; i < n; ++i) out.half_step_sums[i] = static_cast<int16_t>(of_steps[i]);
    for (int i = 0; i < n; ++i) {
      out.second_corrections[i] = (1 << 15) - kCorrectionUnit * sums[2 * i + 1];
    }
  }
}

// The pair corrections of n steps.
template <typename Blocks, bool is_wide, int64_t n>
void StorePairs(const QuantizedBlock& out) {
  for (int64_t i = 0; i < n; ++i) {
    Blocks::CorrectPairs(out.quants + kActivationStep * i, out.pair_corrections + 8 * i,
                         is_wide ? out.wide_pair_corrections + 4 * i : nullptr);
  }
}

// A block of n steps that begins at element `at` of a token.
template <typename Blocks, int n>
void QuantizeBlock(const Activations& a, int64_t token, int64_t at, float limit,
                   OutlierList& list) {
  typename Blocks::Step steps[n];
  const float amax = LoadSteps<Blocks>(a.values + token * a.k + at, limit, at, steps, list);
  const Quantization by(amax);
  const QuantizedBlock out(a, token, at);
  *out.scale = by.scale;
  int32_t sums[2 * n];
  QuantizeSteps<Blocks>(steps, by, out.quants, sums);
  StoreSums<false, n>(sums, out);
  StorePairs<Blocks, false, n>(out);
}

// The wide block that begins at element `at`. Where magnitudes add up to too much it takes a
// coarser scale: x f rounded is off by 1/2, so that 16 |x| f add up to `most` + 8 at the most,
// times kMost / most with their own rounding to kMost + 16.
template <typename Blocks>
void QuantizeWideBlock(const Activations& a, int64_t token, int64_t at, float limit,
                       OutlierList& list) {
  constexpr int64_t kParts = kWideActivationBlock / kActivationBlock;
  constexpr int32_t kMost = kMostOfWideSum - 17;
  typename Blocks::Step steps[kParts][kStepsOfScale];
  uint32_t largest = 0;  // by the order of the bits, as LargestMagnitude
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t first = at + part * kActivationBlock;
    const float amax =
        LoadSteps<Blocks>(a.values + token * a.k + first, limit, first, steps[part], list);
    const auto bits = std::bit_cast<uint32_t>(amax);
    largest = bits > largest ? bits : largest;
  }
  const QuantizedBlock out(a, token, at);
  constexpr int kHalves = 2 * kStepsOfScale;  // of a part
  int32_t sums[kParts * kHalves];
  const auto quantize = [&](const Quantization& by) {
    for (int64_t part = 0; part < kParts; ++part) {
      int32_t of_part[kHalves];
      QuantizeSteps<Blocks>(steps[part], by, out.quants + part * kActivationBlock, of_part);
      for (int i = 0; i < kHalves; ++i) sums[part * kHalves + i] = of_part[i];
    }
  };
  Quantization by(std::bit_cast<float>(largest));
  quantize(by);
  const int32_t most = Blocks::MostOfSums(out.quants, kWideActivationBlock);
  if (most > kMostOfWideSum) {
    by.factor *= static_cast<float>(kMost) / static_cast<float>(most);
    by.scale *= static_cast<float>(most) / static_cast<float>(kMost);
    quantize(by);
  }
  for (int64_t part = 0; part < kParts; ++part) out.scale[part] = by.scale;
  StoreSums<true, kParts * kStepsOfScale>(sums, out);
  StorePairs<Blocks, true, kParts * kStepsOfScale>(out);
}

// The rounded or the split copy of tokens [begin, end).
inline void RoundTokens(const Activations& a, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const float* values = a.values + token * a.k;
    uint16_t* rounded = a.rounded + token * RoundedStride(a.k);
    for (int64_t i = 0; i < a.k; ++i) rounded[i] = RoundToBF16(values[i]);
    if (a.residues == nullptr) continue;
    uint16_t* residues = a.residues + token * RoundedStride(a.k);
    for (int64_t i = 0; i < a.k; ++i) {
      residues[i] = RoundToBF16(values[i] - std::bit_cast<float>(uint32_t{rounded[i]} << 16));
    }
  }
}

// How a block of values becomes shorts: value * factor, rounded, is a short and short * scale the
// value. `magnitude`: of all values, on average, rounded.
struct Shortening {
  float scale;
  float factor;

  Shortening(float amax, float magnitude) {
    constexpr float kMostAlone = 32767;
    // Each short is at most half off, and the sum of magnitudes less than that.
    constexpr float kMost = kMostOfShorts - kActivationBlock / 2 - 1;
    constexpr float kMostOnAverage = kMost / kActivationBlock;
    const bool is_finite = amax - amax == 0;
    const bool is_zero = !is_finite || amax < kSmallestShortAmax;
    const bool is_spiky = amax / kMostAlone > magnitude / kMostOnAverage;
    const float most = is_spiky ? kMostAlone : kMostOnAverage;
    const float of_values = is_spiky ? amax : magnitude;
    scale = !is_finite ? amax : is_zero ? 0.0f : of_values / most;
    factor = is_zero ? 0.0f : most / of_values;
  }
};

// The copy of shorts of tokens [begin, end).
template <typename Blocks>
void ShortenTokens(const Activations& a, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = 8;
  constexpr int64_t n = kActivationBlock;
  const int64_t blocks = ActivationBlocks(a.k);
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t block = 0; block < blocks; ++block) {
      const float* values = a.values + token * a.k + block * n;
      typename Blocks::Step steps[kStepsOfScale];
      for (int64_t i = 0; i < kStepsOfScale; ++i) {
        steps[i] = Blocks::Load(values + i * kActivationStep);
      }
      float lanes[kLanes] = {};
      for (int64_t i = 0; i < n; i += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += Magnitude(values[i + lane]) * (1.0f / n);
        }
      }
      for (int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      }
      const Shortening by(Blocks::LargestMagnitude(steps), lanes[0]);
      a.scales[token * blocks + block] = by.scale;
      int16_t* shorts = a.shorts + token * RoundedStride(a.k) + block * n;
      const uint32_t kept = by.factor == 0 ? 0 : 0xffff;
      for (int64_t i = 0; i < n; ++i) {
        // The last bit of 3 x 2^22 is 1: the number added to it is its lower half.
        const float number = values[i] * by.factor + 0x1.8p23f;
        shorts[i] = static_cast<int16_t>(std::bit_cast<uint32_t>(number) & kept);
      }
    }
  }
}

template <typename Blocks>
void QuantizeTokens(const Activations& a, int64_t token_begin, int64_t token_end) {
  if (a.rounded != nullptr) return RoundTokens(a, token_begin, token_end);
  if (a.shorts != nullptr) return ShortenTokens<Blocks>(a, token_begin, token_end);
  if (a.quants == nullptr) return;
  const bool is_wide = a.copy == ActivationCopy::kWide;
  const int64_t k = a.k;
  const int64_t segments = OutlierSegments(k);
  const int64_t most_outliers = MaxOutliers(k);
  for (int64_t token = token_begin; token < token_end; ++token) {
    const float* values = a.values + token * k;
    const float limit = SquaredOutlierLimit(values, k, is_wide ? kWideOutlierRatio : kOutlierRatio);
    OutlierList list{a.outliers + token * most_outliers, 0, static_cast<int32_t>(most_outliers)};
    for (int64_t segment = 0; segment < segments; ++segment) {
      const int64_t begin = segment * kOutlierSegment;
      const int64_t end = k - begin < kOutlierSegment ? k : begin + kOutlierSegment;
      int64_t at = begin;
      for (; is_wide && at < end; at += kWideActivationBlock) {
        QuantizeWideBlock<Blocks>(a, token, at, limit, list);
      }
      for (; at + kActivationBlock <= end; at += kActivationBlock) {
        QuantizeBlock<Blocks, 2>(a, token, at, limit, list);
      }
      if (at < end) QuantizeBlock<Blocks, 1>(a, token, at, limit, list);
      a.outlier_ends[token * segments + segment] = list.count;
    }
  }
}

}  // namespace
}  // namespace thaw
