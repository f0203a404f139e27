// Products of packed rows (kernels/packed_products.h) with a few tokens, out of registers: each
// step of 32 elements is unpacked and multiplied with all of them, or with as many as there are
// registers for, group by group, so that the weights are read from memory once, in one stream.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/activations.h"
#include "kernels/lines_in_turn.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"

namespace thaw {
namespace {

// Points of a grid are looked up anew for every batch: that is much work, and more tokens than
// these are faster by way of a panel, but where vectors find bytes in short tables.
inline constexpr int kMostGridTokens = 4;
template <typename V, typename F>
inline constexpr bool kFindsPointsFast = FindsBytes<V> && F::kGrid.size() <= 1024;

// Tokens that are multiplied directly at the most. A panel unpacks its rows once for all of them,
// but is written and read, and goes through its sums and outliers by segments: the less work
// unpacking is, the more batches come before it.
template <typename V, typename F>
constexpr int MostDirectTokens() {
  if constexpr (HasGrid<F>) return kFindsPointsFast<V, F> ? V::kDirectTokens : kMostGridTokens;
  return V::kDirectTokens * std::min(V::kMostBatches, F::kMostBatches);
}

// A step's share of a chunk's lines, evenly spread, so that no burst fills the queue.
template <typename F, int phase>
struct LinesOfStep {
  static constexpr int64_t kBlockLines = (kGroupRows * kBlockBytes<F> + 63) / 64;
  static constexpr int64_t kChunkLines = (kBlockLines + F::kChunks - 1) / F::kChunks;
  static constexpr int64_t kBegin = kChunkLines * phase / F::kPhases;
  static constexpr int64_t kCount = kChunkLines * (phase + 1) / F::kPhases - kBegin;

  static const std::byte* Of(const BlockPlace& place, int chunk) {
    return place.body + 64 * (kChunkLines * chunk + kBegin);
  }
};

// Asks for what a step reads some way further on.
template <typename V, typename F, int phase, int kCacheHint>
[[gnu::always_inline]] inline void AskForLinesOfStep(const BlockPlace& place, int chunk) {
  using Lines = LinesOfStep<F, phase>;
  constexpr int64_t kAhead = kCacheHint == kIntoL2 ? V::kAheadBytesIntoL2 : V::kAheadBytes;
  const std::byte* ahead = Lines::Of(place, chunk) + kAhead;
#pragma GCC unroll 16
  for (int64_t line = 0; line < Lines::kCount; ++line) {
    __builtin_prefetch(ahead + 64 * line, 0, kCacheHint);
  }
}

// Whether a vector holds all rows of a group and lines are loaded as they are, so that a block is
// read one line after the other, whatever the number of tokens.
template <typename V, typename F>
inline constexpr bool kLoadsWholeLines = V::kLanes == kGroupRows && !HasGrid<F>;

// Whether lines are loaded in the order of memory, to which the compiler is kept. Smaller vectors
// gain by it in formats of narrow numbers only (0016).
template <typename V, typename F, int kTokens>
inline constexpr bool kIsLoadedInOrder =
    kTokens <= V::kMostTokensInOrder && !HasGrid<F> &&
    (kLoadsWholeLines<V, F> || (F::kChunks > 1 && kBitsInMemory<F> <= 4));

// Whether the hardware does not follow a format's lines by itself: where it loses them
// (kPrefetches), but for blocks that are read once, in order and with little arithmetic to a line.
template <typename V, typename F>
inline constexpr bool kIsLost =
    F::kPrefetches && !(kLoadsWholeLines<V, F> && kBitsInMemory<F> >= 4);

// Asks for the first lines of a page further on: the hardware follows lines within a page of 4 KiB
// and begins anew with the next (docs/decisions/0016-memory-ahead.md).
[[gnu::always_inline]] inline void AskForPage(const BlockPlace& place) {
  constexpr uintptr_t kFurtherBytes = 6 << 10;
  const uintptr_t further = reinterpret_cast<uintptr_t>(place.body) + kFurtherBytes;
  const auto* page = place.body + kFurtherBytes + (-further & (kPageBytes - 1));
  __builtin_prefetch(page, 0, kIntoL2);
  __builtin_prefetch(page + 64, 0, kIntoL2);
}

// Lines in turn are asked for into L2 where so many tokens, or more, are multiplied with them.
inline constexpr int kFewestTokensIntoL2 = 4;

// Asks for memory ahead of the weights, where the machine is faster so. Elsewhere several tokens of
// every format need it still: their work leaves loads fewer places to run ahead; and so do the
// blocks that lose the hardware's own prefetching. Where it follows, it is shown the next page.
template <typename V, typename F, int kTokens, int phase>
[[gnu::always_inline]] inline void AskAhead(const BlockPlace& place, int chunk) {
  // Where a vector holds but a part of the rows, the first one asks for all.
  if (place.lane != 0) return;
  if (V::AsksInTurn()) {
    using Lines = LinesOfStep<F, phase>;
    constexpr int kCacheHint = kTokens < kFewestTokensIntoL2 ? kIntoL1 : kIntoL2;
    AskInTurn<64 * Lines::kCount, kCacheHint>(Lines::Of(place, chunk));
  } else if (V::AsksAheadIntoL2()) {
    AskForLinesOfStep<V, F, phase, kIntoL2>(place, chunk);
  } else if (V::AsksAhead()) {
    AskForLinesOfStep<V, F, phase, kIntoL1>(place, chunk);
  } else if (kTokens > 1 || kIsLost<V, F>) {
    AskForLinesOfStep<V, F, phase, kIntoL2>(place, chunk);
  } else if (kLoadsWholeLines<V, F> && chunk == 0 && phase == 0) {
    AskForPage(place);
  }
}

// The sums of some tokens and a vector of rows.
template <typename V, typename F, int kTokens>
struct DirectSums {
  typename V::Floats total[kTokens];
  typename V::Floats unscaled[kTokens];  // of the steps that share the present scale
  typename V::Ints products[kTokens];    // of the present group

  [[gnu::always_inline]] void Clear(int t) { unscaled[t] = V::Zero(); }
};

template <typename V, IsWhole F, int kTokens>
struct DirectSums<V, F, kTokens> {
  typename V::Floats total[kTokens];
  typename V::Ints unscaled[kTokens];  // of the steps of the present block
  typename V::Ints products[kTokens];

  [[gnu::always_inline]] void Clear(int t) { unscaled[t] = V::Broadcast(0); }
};

// Whether the sums of two groups are scaled at once.
template <typename V, typename F>
inline constexpr bool kScalesPairs = IsWhole<F> && V::kPairsSums;

// Whether those are the groups of two steps, whose lines are multiplied in turn.
template <typename V, typename F>
inline constexpr bool kPairsSteps = kScalesPairs<V, F> && F::kGroup == kStep;

// Whether high nibbles are multiplied where they lie, as 16 times the numbers: the sum of a step is
// shifted, which is exact, instead of its lines.
template <typename V, typename F>
inline constexpr bool kTakesHighNibbles = HasNibbles<F> && V::kTakesHighNibbles;

// From which line of a step on they are multiplied so; 8: none.
template <typename V, typename F>
constexpr int FirstHighFactor(int phase) {
  if constexpr (kTakesHighNibbles<V, F>) return F::FirstHighLine(phase);
  return 8;
}

// A line as it is multiplied.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints FactorLine(const BlockPlace& at, int chunk,
                                                          int phase, int j) {
  if constexpr (kTakesHighNibbles<V, F>) {
    if (j >= F::FirstHighLine(phase)) return HighNibbleLine<V, F>(at, chunk, j);
  }
  return F::template LineOf<V>(at, chunk, phase, j);
}

// LoadWeights, line by line where they are loaded in order: the hardware follows lines that are
// read as they lie at the rate of memory, and loses them when the compiler takes one before another
// (docs/decisions/0016-memory-ahead.md).
template <typename V, typename F, int kTokens>
[[gnu::always_inline]] inline void LoadWeightsInOrder(BlockPlace& at, int chunk, int phase,
                                                      typename V::Ints (&w)[8]) {
  if constexpr (kIsLoadedInOrder<V, F, kTokens> && HasSteps<F>) {
    typename V::Ints lines[F::kStepLines];
#pragma GCC unroll 8
    for (int i = 0; i < F::kStepLines; ++i) {
      lines[i] = F::template StepLine<V>(at, chunk, i);
      asm volatile("" : "+r"(at.body) : "v"(lines[i]));
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      w[j] = F::template LineFrom<V>(at, chunk, j, [&](int i) { return lines[i]; });
    }
  } else if constexpr (kIsLoadedInOrder<V, F, kTokens>) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      w[j] = FactorLine<V, F>(at, chunk, phase, j);
      asm volatile("" : "+r"(at.body) : "v"(w[j]));
    }
  } else if constexpr (kTakesHighNibbles<V, F>) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = FactorLine<V, F>(at, chunk, phase, j);
  } else {
    LoadWeights<V, F>(at, chunk, phase, w);
  }
}

// Whether the sums of a group are scaled as halves, before they become words. Its zero point is
// taken off at the end of the block then.
template <typename V, typename F>
inline constexpr bool kScalesHalvesOf = IsWhole<F> && V::kScalesHalves;

// The scales, and offsets, of a block.
template <typename V, typename F>
using DirectTerms = std::conditional_t<kScalesPairs<V, F>, PairTerms<V, F>, Terms<V, F>>;

// The zero point of numbers as they are multiplied: pairs of many tokens take that of the
// corrections, which spares each of them more than it takes.
template <typename V, typename F, int kTokens>
inline constexpr int kDirectZero =
    kScalesPairs<V, F> && kTokens > V::kDirectTokens / 2 && kZeroOf<V, F> != 0 ? kCorrectionUnit
                                                                               : kZeroOf<V, F>;

// What the sum of a group's products begins with, times 2^kRaised.
template <typename V, typename F, int kTokens, int kRaised = 0>
[[gnu::always_inline]] inline typename V::Ints FirstOfGroup(const TokenRows& rows, int64_t t,
                                                            int64_t group) {
  constexpr int kZero = kDirectZero<V, F, kTokens>;
  if constexpr (kZero == 0) return V::Broadcast(0);
  const typename V::Ints correction = V::Broadcast(rows.Correction<F::kGroup>(t, group));
  constexpr int kShift = CorrectionShift(kZero) - kRaised;
  if constexpr (kShift == 0) return correction;
  return V::template ShiftRightSigned<kShift>(correction);
}

// Tokens that are multiplied at once where each of them has two sums and eight lines are at hand.
inline constexpr int kMostTokensOfHalves = 4;

// Calls multiply<first, n>() for those and the next ones, up to kTokens.
template <int kTokens, int kFirst = 0, typename Multiply>
[[gnu::always_inline]] inline void ForTokensAtOnce(const Multiply& multiply) {
  constexpr int kLeft = kTokens - kFirst;
  if constexpr (kLeft > 0) {
    constexpr int kAtOnce = std::min(kLeft, kMostTokensOfHalves);
    multiply.template operator()<kFirst, kAtOnce>();
    ForTokensAtOnce<kTokens, kFirst + kAtOnce>(multiply);
  }
}

// Adds the products of the lines line(half, 0..kLines) with the activations at `a` of kTokens
// tokens: those of half 0 to `first`, of half 1, whose activations follow, to `second`, line by
// line in turn. So the sums that wait for each other are half as many
// (docs/decisions/0007-packed-rows.md).
template <typename V, typename F, int kTokens, int kLines, typename Line>
[[gnu::always_inline]] inline void AddProductsOfHalves(const Line& line, const int8_t* a,
                                                       int64_t token_bytes, typename V::Ints* first,
                                                       typename V::Ints* second) {
  // Hidden, so that GCC finds all activations of a token from one address.
  const int8_t* of_token[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    of_token[t] = a + t * token_bytes;
    asm("" : "+r"(of_token[t]));
  }
#pragma GCC unroll 8
  for (int j = 0; j < kLines; ++j) {
    const typename V::Ints of_first = line(0, j);
    const typename V::Ints of_second = line(1, j);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const int8_t* at = of_token[t] + 4 * j;
      first[t] = V::template Dot<F::kBits, 1>(&of_first, at, first[t]);
      second[t] = V::template Dot<F::kBits, 1>(&of_second, at + 4 * kLines, second[t]);
    }
  }
}

// The lines w[0, 2 n) as those of two halves.
template <typename V, int n>
struct HalvesOf {
  const typename V::Ints* w;

  [[gnu::always_inline]] inline typename V::Ints operator()(int half, int j) const {
    return w[n * half + j];
  }
};

// Adds the products of kLines lines to one sum of each token.
template <typename V, typename F, int kTokens, int kLines>
[[gnu::always_inline]] inline void AddProducts(const typename V::Ints* lines, const int8_t* a,
                                               int64_t token_bytes,
                                               typename V::Ints (&sums)[kTokens]) {
  if constexpr (V::kHalvesLines) {
    ForTokensAtOnce<kTokens>([&]<int first, int n>() __attribute__((always_inline)) {
      typename V::Ints second[n];
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) second[t] = V::Broadcast(0);
      AddProductsOfHalves<V, F, n, kLines / 2>(HalvesOf<V, kLines / 2>{lines},
                                               a + first * token_bytes, token_bytes, sums + first,
                                               second);
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) sums[first + t] = V::Add(sums[first + t], second[t]);
    });
  } else {
    // Line by line the sums of the tokens do not wait for each other.
    constexpr int kAtOnce = V::kTakesLinesInTurn ? 1 : kLines;
#pragma GCC unroll 8
    for (int j = 0; j < kLines; j += kAtOnce) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        sums[t] =
            V::template Dot<F::kBits, kAtOnce>(lines + j, a + t * token_bytes + 4 * j, sums[t]);
      }
    }
  }
}

// Adds the products of a step's lines, high nibbles from line kFirstHigh on (0 or 4): `sums` begin
// with 16 times what they begin with.
template <typename V, typename F, int kTokens, int kFirstHigh>
[[gnu::always_inline]] inline void AddNibbles(const typename V::Ints* lines, const int8_t* a,
                                              int64_t token_bytes,
                                              typename V::Ints (&sums)[kTokens]) {
  static_assert(kFirstHigh == 0 || kFirstHigh == 4);
  if constexpr (kFirstHigh == 0) {
    AddProducts<V, F, kTokens, 8>(lines, a, token_bytes, sums);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) sums[t] = V::template ShiftRightSigned<4>(sums[t]);
  } else if constexpr (V::kHalvesLines) {
    ForTokensAtOnce<kTokens>([&]<int first, int n>() __attribute__((always_inline)) {
      typename V::Ints low[n];
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) low[t] = V::Broadcast(0);
      AddProductsOfHalves<V, F, n, 4>(HalvesOf<V, 4>{lines}, a + first * token_bytes, token_bytes,
                                      low, sums + first);
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) {
        sums[first + t] = V::Add(V::template ShiftRightSigned<4>(sums[first + t]), low[t]);
      }
    });
  } else {
    AddProducts<V, F, kTokens, 4>(lines + 4, a + 16, token_bytes, sums);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) sums[t] = V::template ShiftRightSigned<4>(sums[t]);
    AddProducts<V, F, kTokens, 4>(lines, a, token_bytes, sums);
  }
}

// Whether activations take the signs of a grid's magnitudes, which has no zero point then. Numbers
// of 7 bits, whose products would fill halves, gain by it, those of 5 (IQ3_S) do not.
template <typename V, typename F>
inline constexpr bool kSignsActivations =
    HasSigns<F> && F::kBits == 7 && requires { typename V::OctetVectors; };

// The products of a group of such a grid, from octet `first` of a step on, with the activations at
// `a` of kTokens tokens.
template <typename V, typename F, int kTokens>
[[gnu::always_inline]] inline void MultiplyMagnitudes(const BlockPlace& at, int chunk, int phase,
                                                      int first, const int8_t* a,
                                                      int64_t token_bytes,
                                                      typename V::Ints (&products)[kTokens]) {
  using Ints = typename V::Ints;
  using Vectors = typename V::template OctetVectorsOf<F>;
  static_assert(std::ranges::max(F::kMagnitudes) < 64);
  Ints sums[2][kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) sums[0][t] = sums[1][t] = V::Broadcast(0);
#pragma GCC unroll 2
  for (int pair = 0; pair < F::kGroup / 16; ++pair) {
    Ints magnitudes[2][2];  // [octet of the pair][vector]
    Ints signs[2][2];
#pragma GCC unroll 2
    for (int o = 0; o < 2; ++o) {
      const int octet = first + 2 * pair + o;
      Vectors::LookUp(F::GridPoints(), IndicesOfPair<V, F>(at, chunk, phase, F::kPairs * octet / 4),
                      o, magnitudes[o]);
      const Ints words = F::template SignsOf<V>(at, chunk, phase, octet);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) signs[o][i] = Vectors::Signs(words, F::kByteOfSigns[octet], i);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const int8_t* of_token = a + t * token_bytes + 16 * pair;
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        sums[i][t] =
            V::AddTwoProducts(sums[i][t], {magnitudes[0][i], magnitudes[1][i]},
                              {V::WithSignsOf(Vectors::Activations(of_token, i), signs[0][i]),
                               V::WithSignsOf(Vectors::Activations(of_token + 8, i), signs[1][i])});
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) products[t] = Vectors::Sum(sums[0][t], sums[1][t]);
}

// Adds the products of step `phase` of a chunk to the sums of kTokens tokens.
template <typename V, typename F, int kTokens, int phase>
[[gnu::always_inline]] inline void MultiplyStep(BlockPlace& place, int chunk,
                                                const DirectTerms<V, F>& terms,
                                                const TokenRows& rows, int64_t first_step,
                                                DirectSums<V, F, kTokens>& of_tokens) {
  using Ints = typename V::Ints;
  constexpr int kFirstHigh = FirstHighFactor<V, F>(phase);
  const int step_of_block = chunk * F::kPhases + phase;
  const int64_t step = first_step + step_of_block;
  constexpr int kGroups = 32 / F::kGroup;
  AskAhead<V, F, kTokens, phase>(place, chunk);
  Ints w[8];
  if constexpr (!kSignsActivations<V, F>) {
    LoadWeightsInOrder<V, F, kTokens>(place, chunk, phase, w);
  }
  const int8_t* a = rows.quants + kStep * step;
  // Hidden, so that GCC does not keep the addresses of all lines and tokens for the next step.
  if constexpr (kTokens > 1) asm("" : "+r"(a));
#pragma GCC unroll 2
  for (int i = 0; i < kGroups; ++i) {
    const int group = step_of_block * kGroups + i;  // of the block
    const int64_t of_row = kGroups * step + i;
    const Ints* lines = w + F::kGroup / 4 * i;
    if constexpr (kScalesHalvesOf<V, F>) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        of_tokens.unscaled[t] = V::template AddScaledDot<F::kBits, F::kGroup / 4>(
            of_tokens.unscaled[t], lines, a + t * rows.quant_stride + F::kGroup * i,
            terms.scale[group]);
      }
    } else {
      auto& products = of_tokens.products;
      if constexpr (kSignsActivations<V, F>) {
        MultiplyMagnitudes<V, F, kTokens>(place, chunk, phase, F::kGroup / 8 * i, a + F::kGroup * i,
                                          rows.quant_stride, products);
      } else if constexpr (kFirstHigh < 8) {
        static_assert(kGroups == 1);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          products[t] = FirstOfGroup<V, F, kTokens, 4>(rows, t, of_row);
        }
        AddNibbles<V, F, kTokens, kFirstHigh>(lines, a, rows.quant_stride, products);
      } else {
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          products[t] = FirstOfGroup<V, F, kTokens>(rows, t, of_row);
        }
        AddProducts<V, F, kTokens, F::kGroup / 4>(lines, a + F::kGroup * i, rows.quant_stride,
                                                  products);
      }
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        auto& unscaled = of_tokens.unscaled[t];
        const Ints sum = products[t];
        if constexpr (IsWhole<F>) {
          unscaled = V::AddScaled(unscaled, sum, terms.scale[group]);
        } else {
          unscaled =
              AddGroup<V, F::kHasOffsets>(unscaled, sum, terms.scale[group], terms.offset[group],
                                          rows.Sum<F::kGroup>(t, of_row));
        }
      }
    }
  }
  if constexpr (IsWhole<F>) return;
  // Known to the compiler where a block of weights has whole scales of activations.
  constexpr bool kHasWholeScales = kStepsOfBlock<F> % kStepsOfScale == 0;
  if (kHasWholeScales ? (step_of_block + 1) % kStepsOfScale != 0 : !rows.EndsScale(step)) return;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    if constexpr (!IsWhole<F>) {
      of_tokens.total[t] = V::MultiplyAdd(of_tokens.unscaled[t], V::Broadcast(rows.Scale(t, step)),
                                          of_tokens.total[t]);
      of_tokens.unscaled[t] = V::Zero();
    }
  }
}

// The same of a pair of groups, which meet their scales as halves of words: of step `phase`, or of
// that and the next one.
template <typename V, typename F, int kTokens, int phase>
[[gnu::always_inline]] inline void MultiplyPair(BlockPlace& place, int chunk,
                                                const PairTerms<V, F>& terms, const TokenRows& rows,
                                                int64_t first_step,
                                                DirectSums<V, F, kTokens>& of_tokens) {
  using Ints = typename V::Ints;
  constexpr int kZero = kDirectZero<V, F, kTokens>;
  constexpr bool kIsRaised = kPairsSteps<V, F> && FirstHighFactor<V, F>(1) == 0;
  constexpr int kRaised = kIsRaised ? 4 : 0;  // what the second group's numbers are shifted by
  const int step_of_block = chunk * F::kPhases + phase;
  const int64_t step = first_step + step_of_block;
  const int64_t group = step * (kStep / F::kGroup);
  const int8_t* a = rows.quants + kStep * step;
  AskAhead<V, F, kTokens, phase>(place, chunk);
  if constexpr (kPairsSteps<V, F>) AskAhead<V, F, kTokens, phase + 1>(place, chunk);
  Ints first[kTokens];
  Ints second[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    first[t] = FirstOfGroup<V, F, kTokens>(rows, t, group);
    second[t] = FirstOfGroup<V, F, kTokens, kRaised>(rows, t, group + 1);
  }
  if constexpr (kPairsSteps<V, F>) {
    const auto line = [&](int half, int j) __attribute__((always_inline)) {
      const Ints w = FactorLine<V, F>(place, chunk, phase + half, j);
      if constexpr (kIsLoadedInOrder<V, F, kTokens>) asm volatile("" : "+r"(place.body) : "v"(w));
      return w;
    };
    AddProductsOfHalves<V, F, kTokens, 8>(line, a, rows.quant_stride, first, second);
  } else {
    Ints w[8];
    LoadWeightsInOrder<V, F, kTokens>(place, chunk, phase, w);
    RaiseNumbers<V, kZero - kZeroOf<V, F>>(w);
    ForTokensAtOnce<kTokens>([&]<int begin, int n>() __attribute__((always_inline)) {
      AddProductsOfHalves<V, F, n, 4>(HalvesOf<V, 4>{w}, a + begin * rows.quant_stride,
                                      rows.quant_stride, first + begin, second + begin);
    });
  }
  const Ints scales = terms.scale[step_of_block * (kStep / F::kGroup) / 2];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const Ints of_pair = V::LowerHalvesOf(first[t], V::template ShiftLeft<16 - kRaised>(second[t]));
    of_tokens.unscaled[t] = V::AddHalfProducts(of_tokens.unscaled[t], of_pair, scales);
  }
}

// Number `index` of a block, for all rows of a vector, its zero point taken off. Unsigned, so that
// divisions by powers of two are shifts.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints NumberOfAny(const BlockPlace& place,
                                                           uint32_t index) {
  constexpr int kZero = kZeroOf<V, F>;
  if constexpr (requires { F::template ElementAt<V>(place, index); }) {
    const auto number = F::template ElementAt<V>(place, index);
    if constexpr (kZero == 0) return number;
    return V::Subtract(number, V::Broadcast(kZero));
  } else {
    const uint32_t step = index / 32;
    const typename V::Ints line =
        LoadLine<V, F>(place, static_cast<int>(step / F::kPhases),
                       static_cast<int>(step % F::kPhases), static_cast<int>(index % 32 / 4));
    return V::template Dot<F::kBits, 1>(&line, kOneAt[index % 4], V::Broadcast(-kZero));
  }
}

// The weights of element `index` of a block.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Floats WeightsAt(const BlockPlace& place,
                                                           uint32_t index) {
  const Term<V> term = TermOfAny<V, F>(place, static_cast<int>(index / F::kGroup));
  return WeightOf<V, F>(term, V::ToFloats(NumberOfAny<V, F>(place, index)));
}

// Lines that memory brings while an outlier is added to a vector, or to all parts of the rows.
template <typename V>
inline constexpr int kLinesOfOutlier = V::kLanes / 4;

// Adds what outliers contribute to one token. Where it is the only one, memory from `next` on is
// asked for meanwhile; steps of several tokens ask by themselves.
template <typename V, typename F, bool kIsAlone>
[[gnu::noinline]] typename V::Floats AddOutliers(const std::byte* group, int64_t k, int lane,
                                                 OutlierSpan outliers, const std::byte* next,
                                                 typename V::Floats total) {
  for (const Outlier* outlier = outliers.begin; outlier != outliers.end; ++outlier) {
    if (kIsAlone && V::AsksInTurn()) {
      if (lane == 0) AskInTurn<64 * kLinesOfOutlier<V>>(next);
      next += 64 * kLinesOfOutlier<V>;
    } else if (kIsAlone && (kLoadsWholeLines<V, F> || (V::AsksAheadIntoL2() && lane == 0))) {
#pragma GCC unroll 4
      for (int i = 0; i < kLinesOfOutlier<V>; ++i, next += 64) __builtin_prefetch(next, 0, kIntoL2);
    }
    const auto index = static_cast<uint32_t>(outlier->index);
    const typename V::Floats weights =
        WeightsAt<V, F>(PlaceInGroup<F>(group, k, index / F::kBlock, lane), index % F::kBlock);
    total = V::MultiplyAdd(weights, V::Broadcast(outlier->value), total);
  }
  return total;
}

// Adds the sums of a block in whole numbers to the totals.
template <typename V, IsWhole F, int kTokens>
[[gnu::always_inline]] inline void EndBlock(const BlockPlace& place, const TokenRows& rows,
                                            int64_t first_step, DirectSums<V, F, kTokens>& sums) {
  const Term<V> of_block = F::template BlockTermOf<V>(place);
  constexpr int kPairs = kPairsOfWide<F>;
  typename V::Ints minima[kPairs];
  if constexpr (F::kHasOffsets) {
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) minima[pair] = MinimaOf<V, F>(place, pair);
  }
  if constexpr (kScalesHalvesOf<V, F> && F::kZero != 0) {
    typename V::Ints scales[kPairs];
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) {
      scales[pair] = ScalesOf<V, F>(place, 2 * pair, 2 * pair + 1);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const auto too_much = SumOfPairs<V, F>(scales, rows, t, first_step);
      sums.unscaled[t] =
          V::Subtract(sums.unscaled[t], V::template ShiftLeft<Log2(F::kZero)>(too_much));
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    sums.total[t] =
        AddBlock<V, F>(sums.total[t], sums.unscaled[t], of_block, minima, rows, t, first_step);
    sums.Clear(t);
  }
}

// Parts of the rows of a block, from that at `first` on, with a sum of their own each. They take
// turns step by step.
template <typename V, typename F, int kTokens, int... kParts>
[[gnu::always_inline]] inline void MultiplyBlock(const BlockPlace& first, const TokenRows& rows,
                                                 int64_t first_step,
                                                 DirectSums<V, F, kTokens>* sums,
                                                 std::integer_sequence<int, kParts...> /*parts*/) {
  using Terms = DirectTerms<V, F>;
  BlockPlace places[] = {first.Below(kParts * V::kLanes)...};
  const Terms terms[] = {Terms(places[kParts])...};
  // Inlined early, by attributes: GCC 12 would keep `places` and `sums` in memory.
  const auto multiply_chunk = [&](int chunk) __attribute__((always_inline)) {
    ForEachPhase<F>([&]<int phase>() __attribute__((always_inline)) {
      if constexpr (!kScalesPairs<V, F>) {
        (MultiplyStep<V, F, kTokens, phase>(places[kParts], chunk, terms[kParts], rows, first_step,
                                            sums[kParts]),
         ...);
      } else if constexpr (!kPairsSteps<V, F> || phase % 2 == 0) {
        (MultiplyPair<V, F, kTokens, phase>(places[kParts], chunk, terms[kParts], rows, first_step,
                                            sums[kParts]),
         ...);
      }
    });
  };
  if constexpr (kLoadsWholeLines<V, F> && kTokens == 1) {
    const auto multiply = [&]<int chunk>() __attribute__((always_inline)) {
      multiply_chunk(chunk);
    };
    ForEachOf(std::make_integer_sequence<int, F::kChunks>(), multiply);
  } else {
    // Kept rolled, by a bound that the compiler cannot see: code that reads many places at once
    // defeats the hardware's prefetching.
    int chunks = F::kChunks;
    if constexpr (F::kChunks > 1) asm("" : "+r"(chunks));
    for (int chunk = 0; chunk < chunks; ++chunk) multiply_chunk(chunk);
  }
  if constexpr (IsWhole<F>) {
    (EndBlock<V, F, kTokens>(places[kParts], rows, first_step, sums[kParts]), ...);
  }
}

// Whether vectors that hold but a part of the rows take turns step by step, so that every line is
// read once, rather than block by block. Several tokens, and grids, have no registers for it.
template <typename F, int kTokens>
inline constexpr bool kTakesTurnsByStep = kTokens == 1 && !HasGrid<F>;

// One group of rows times kTokens tokens; out[t * out_stride + row]. Where a vector holds but a
// part of the rows, one after the other would leave memory idle while the second is read from a
// cache: they take turns.
template <typename V, typename F, int kTokens>
[[gnu::noinline]] void MultiplyGroup(const std::byte* group, const TokenRows& rows, float* out,
                                     int64_t out_stride) {
  constexpr int kParts = kGroupRows / V::kLanes;
  constexpr int kAtOnce = kTakesTurnsByStep<F, kTokens> ? kParts : 1;
  const int64_t k = rows.k;
  const int64_t blocks = k / F::kBlock;
  DirectSums<V, F, kTokens> sums[kParts];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      sums[part].total[t] = V::Zero();
      sums[part].Clear(t);
    }
  }
  const std::byte* unit = group;
  for (int64_t block = 0; block < blocks; block += F::kUnitBlocks) {
    const int64_t of_unit = blocks - block < F::kUnitBlocks ? blocks - block : F::kUnitBlocks;
    for (int64_t i = 0; i < of_unit; ++i) {
#pragma GCC unroll 4
      for (int part = 0; part < kParts; part += kAtOnce) {
        MultiplyBlock<V, F, kTokens>(PlaceOf<F>(unit, of_unit, i, part * V::kLanes), rows,
                                     (block + i) * kStepsOfBlock<F>, sums + part,
                                     std::make_integer_sequence<int, kAtOnce>());
      }
      const int64_t end = (block + i + 1) * F::kBlock;
      if (end % kSegment != 0 && end != k) continue;
      const std::byte* next = group + kGroupRows * kBlockBytes<F> * (block + i + 1) +
                              (V::AsksAheadIntoL2() ? V::kAheadBytesIntoL2 : 0);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const OutlierSpan outliers = rows.Outliers(t, (end - 1) / kSegment);
        if (outliers.begin == outliers.end) continue;
#pragma GCC unroll 4
        for (int part = 0; part < kParts; ++part) {
          sums[part].total[t] = AddOutliers<V, F, kTokens == 1>(
              group, k, part * V::kLanes, outliers, next, sums[part].total[t]);
        }
      }
    }
    unit += kGroupRows * kBlockBytes<F> * of_unit;
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      V::StoreFloats(sums[part].total[t], out + t * out_stride + part * V::kLanes);
    }
  }
}

}  // namespace
}  // namespace thaw
