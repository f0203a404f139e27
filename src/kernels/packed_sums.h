// What a product of packed rows (kernels/packed_products.h) is made of, however many tokens there
// are: the lines and terms of a block, what is needed of the activations, and the order in which
// sums are added up.
//
// With a wide copy of the activations (kernels/activations.h) the sums of formats whose terms are
// whole numbers stay whole numbers over a block of 256, in whatever order (InWholeNumbers): each
// fits 16 bits, so that it is scaled by a product of halves. At the end of the block the two sums,
// that of scaled products and that of minima times sums of activations, become floats.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/activations.h"
#include "kernels/all_formats.h"
#include "kernels/packed_formats.h"

namespace thaw {
namespace {

inline constexpr int64_t kStep = kActivationStep;  // elements

// Elements of a panel: 64 KiB of bytes for two groups, and 8 to 58 KiB of scales and offsets. Half
// of the smallest L2 cache; each segment costs a load and a store of every sum.
inline constexpr int64_t kSegment = kOutlierSegment;

template <typename F>
inline constexpr int kGroupsOfBlock = F::kBlock / F::kGroup;
template <typename F>
inline constexpr int kStepsOfBlock = F::kBlock / 32;
template <typename F>
inline constexpr int64_t kBlockBytes = F::kLeadBytes + F::kBodyBytes;

// Weights of 8 bits take no zero point where the lanes multiply them as signed numbers.
template <typename V, typename F>
inline constexpr int kZeroOf = F::kBits == 8 && V::kSignedBytes ? 0 : F::kZero;

// Calls act<phase>() for the steps of a chunk.
template <typename F, typename Act>
[[gnu::always_inline]] inline void ForEachPhase(const Act& act) {
  ForEachOf(std::make_integer_sequence<int, F::kPhases>(), act);
}

// Whether the sums of groups of a size and a wide copy of activations fit 16 bits.
template <typename F, int kGroup>
constexpr bool FitSumsHalves() {
  constexpr int kAbove = (1 << F::kBits) - 1 - F::kZero;
  constexpr int kLargest = kAbove > F::kZero ? kAbove : F::kZero;
  return kGroup / kActivationSum * kMostOfWideSum * kLargest < 1 << 15;
}

// A format whose sums stay whole numbers over a block. Where those of 32 elements would not fit 16
// bits, 16 are a group, and two groups have one term.
template <typename F>
struct InWholeNumbers : F {
  static constexpr bool kIsWhole = true;
  static constexpr int kGroup = FitSumsHalves<F, F::kGroup>() ? F::kGroup : kActivationSum;
  static constexpr int kGroupsOfTerm = F::kGroup / kGroup;
  static_assert(FitSumsHalves<F, kGroup>());
};

template <typename F>
concept IsWhole = requires { F::kIsWhole; };

// Pairs of groups of a block of 256. What belongs to a pair, as its minima, lies in one word.
template <typename F>
inline constexpr int kPairsOfWide = kWideActivationBlock / F::kGroup / 2;

// Which term of a block a group has.
template <typename F>
constexpr int TermOfGroup(int group) {
  if constexpr (IsWhole<F>) return group / F::kGroupsOfTerm;
  return group;
}

// The numbers of four terms of a block that piece(i) begin, in the bytes of words.
template <typename V, typename F, typename PieceOf>
[[gnu::always_inline]] inline typename V::Ints FourFromPieces(const BlockPlace& at,
                                                              const PieceOf& piece) {
  const auto bits = [&](int i) {
    const Piece of_first = piece(i);
    const auto words =
        V::ShiftRight(V::Load(at.Line(of_first.line)), static_cast<int>(of_first.shift));
    return V::And(words, V::BroadcastByte(static_cast<int>(of_first.mask)));
  };
  if (F::kTermPieces == 1 || piece(1).mask == 0) return bits(0);
  return V::Or(bits(0), V::template ShiftLeft<F::kSecondUp>(bits(1)));
}

// The number of any one term in every word.
template <typename V, typename F, typename PieceOf>
[[gnu::always_inline]] inline typename V::Ints OneFromPieces(const BlockPlace& at,
                                                             const PieceOf& piece) {
  const auto bits = BitsOf<V>(at, piece(0));
  if constexpr (F::kTermPieces == 1) return bits;
  return V::Or(bits, V::template ShiftLeft<F::kSecondUp>(BitsOf<V>(at, piece(1))));
}

// Terms [4 * four, 4 * four + 4) of a block.
template <typename V, typename F>
[[gnu::always_inline]] inline FourTerms<V> FourTermsOf(const BlockPlace& at, int four) {
  const auto first = static_cast<uint32_t>(4 * four);
  FourTerms<V> terms{FourFromPieces<V, F>(at, [&](int i) { return F::ScalePiece(first, i); }),
                     V::Broadcast(0)};
  if constexpr (F::kScaleZero != 0) {
    terms.scales = V::SubtractBytes(terms.scales, V::BroadcastByte(F::kScaleZero));
  }
  if constexpr (F::kHasOffsets) {
    terms.minima = FourFromPieces<V, F>(at, [&](int i) { return F::MinimumPiece(first, i); });
  }
  return terms;
}

// A term from the whole numbers that belong to it.
template <typename V, typename F>
[[gnu::always_inline]] inline Term<V> WholeTerm(const BlockPlace& at, typename V::Ints scale,
                                                typename V::Ints minimum) {
  const Term<V> of_block = F::template BlockTermOf<V>(at);
  Term<V> term{V::Multiply(of_block.scale, V::ToFloats(scale)), V::Zero()};
  if constexpr (F::kHasOffsets) {
    term.offset = V::Multiply(of_block.offset, V::ToFloats(minimum));
  }
  return term;
}

// The scale and offset of one group of a block, which is known before.
template <typename V, typename F>
[[gnu::always_inline]] inline Term<V> TermOf(const BlockPlace& at, int group) {
  if constexpr (HasWholeTerms<F>) {
    const int term = TermOfGroup<F>(group);
    const FourTerms<V> of_four = FourTermsOf<V, F>(at, term / 4);
    return WholeTerm<V, F>(at, SignedByteOf<V>(of_four.scales, term % 4),
                           SignedByteOf<V>(of_four.minima, term % 4));
  } else {
    return F::template TermOf<V>(at, group);
  }
}

// The same of any group.
template <typename V, typename F>
[[gnu::always_inline]] inline Term<V> TermOfAny(const BlockPlace& at, int group) {
  if constexpr (HasWholeTerms<F>) {
    const auto term = static_cast<uint32_t>(TermOfGroup<F>(group));
    auto scale = OneFromPieces<V, F>(at, [&](int i) { return F::ScalePiece(term, i); });
    if constexpr (F::kScaleZero != 0) {
      scale = V::Subtract(scale, V::Broadcast(F::kScaleZero));
    } else if constexpr (F::kHasSignedScales) {
      scale = SignedByteOf<V>(scale, 0);
    }
    typename V::Ints minimum = V::Broadcast(0);
    if constexpr (F::kHasOffsets) {
      minimum = OneFromPieces<V, F>(at, [&](int i) { return F::MinimumPiece(term, i); });
    }
    return WholeTerm<V, F>(at, scale, minimum);
  } else {
    return TermOf<V, F>(at, group);
  }
}

// The terms of all groups of a block.
template <typename V, typename F>
struct Terms {
  typename V::Floats scale[kGroupsOfBlock<F>];
  typename V::Floats offset[kGroupsOfBlock<F>];

  [[gnu::always_inline]] explicit Terms(const BlockPlace& at) {
#pragma GCC unroll 16
    for (int group = 0; group < kGroupsOfBlock<F>; ++group) {
      const Term<V> term = TermOf<V, F>(at, group);
      scale[group] = term.scale;
      if constexpr (F::kHasOffsets) offset[group] = term.offset;
    }
  }
};

// The scales of two groups of the same four, that of the first in the lower halves.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints ScalesOf(const BlockPlace& at, int low, int high) {
  const int first = TermOfGroup<F>(low);
  return HalvesOfBytes<V, F::kHasSignedScales>(FourTermsOf<V, F>(at, first / 4).scales, first % 4,
                                               TermOfGroup<F>(high) % 4);
}

// The minima of a pair of groups.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints MinimaOf(const BlockPlace& at, int pair) {
  const int first = TermOfGroup<F>(2 * pair);
  return HalvesOfBytes<V, false>(FourTermsOf<V, F>(at, first / 4).minima, first % 4,
                                 TermOfGroup<F>(2 * pair + 1) % 4);
}

// The scale of a group as V::AddScaled takes it, or as halves meet it.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints WholeScaleOf(const BlockPlace& at, int group) {
  if constexpr (V::kScalesHalves) return ScalesOf<V, F>(at, group, group);
  const int term = TermOfGroup<F>(group);
  const typename V::Ints scales = FourTermsOf<V, F>(at, term / 4).scales;
  if constexpr (V::kScalesWords) {
    return SignedByteOf<V>(scales, term % 4);
  } else {
    return HalvesOfBytes<V, F::kHasSignedScales>(scales, term % 4, kNoByte);
  }
}

// Of a format in whole numbers: the scales of its groups.
template <typename V, IsWhole F>
struct Terms<V, F> {
  typename V::Ints scale[kGroupsOfBlock<F>];

  [[gnu::always_inline]] explicit Terms(const BlockPlace& at) {
#pragma GCC unroll 16
    for (int group = 0; group < kGroupsOfBlock<F>; ++group) {
      scale[group] = WholeScaleOf<V, F>(at, group);
    }
  }
};

// The scales of its pairs of groups, those of the second in the upper halves.
template <typename V, typename F>
struct PairTerms {
  typename V::Ints scale[kPairsOfWide<F>];

  [[gnu::always_inline]] explicit PairTerms(const BlockPlace& at) {
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairsOfWide<F>; ++pair) {
      scale[pair] = ScalesOf<V, F>(at, 2 * pair, 2 * pair + 1);
    }
  }
};

template <typename F>
concept HasGrid = requires { F::kGrid; };

// Formats whose points are named by bytes as they lie, four of every row in a line.
template <typename F>
concept HasByteIndices = requires(const BlockPlace& at) { F::IndicesAt(at, 0, 0); };

// index(row, i): the number of point i of a pair.
struct ByteIndices {
  const std::byte* of_pair;  // of row 0

  [[gnu::always_inline]] uint64_t operator()(int row, int i) const {
    return std::to_integer<uint64_t>(of_pair[4 * row + i]);
  }
  [[gnu::always_inline]] std::array<uint64_t, 2> Both(int row) const {
    uint16_t both;
    std::memcpy(&both, of_pair + 4 * row, sizeof(both));
    return {both & uint64_t{0xff}, uint64_t{both} >> 8};
  }
};

// The same of pair `pair` of a step, where points are loaded (LoadsPoints).
template <typename V, typename F>
[[gnu::always_inline]] inline auto IndicesOfPair(const BlockPlace& at, int chunk, int phase,
                                                 int pair) {
  if constexpr (HasByteIndices<F>) {
    return ByteIndices{F::IndicesAt(at, chunk, pair)};
  } else {
    return V::IndicesOf(F::template PointsOf<V>(at, chunk, phase, pair));
  }
}

// What is looked up for n pairs of points, from `pair` on: 8 / kPairs lines of each.
template <typename V, typename F, int n>
[[gnu::always_inline]] inline void LookUpPairs(const BlockPlace& at, int chunk, int phase, int pair,
                                               typename V::Ints (&lines)[8 / F::kPairs * n]) {
  constexpr int kLines = 8 / F::kPairs;
  if constexpr (LoadsPoints<V, F> && HasByteIndices<F>) {
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      V::LookUpBy(F::GridPoints(), IndicesOfPair<V, F>(at, chunk, phase, pair + i),
                  lines + kLines * i);
    }
    return;
  }
  typename V::Ints points[n];
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) points[i] = F::template PointsOf<V>(at, chunk, phase, pair + i);
  if constexpr (LoadsPoints<V, F>) {
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      V::LookUpBy(F::GridPoints(), V::IndicesOf(points[i]), lines + kLines * i);
    }
  } else {
    V::LookUpHalves(F::kGrid, points);
#pragma GCC unroll 8
    for (int i = 0; i < 2 * n; ++i) lines[i] = ElementsOfCodes<V>(points[i / 2], i % 2);
  }
}

// Line j of a step of a grid, from what was looked up for it.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints LineOfPoints(const BlockPlace& at, int chunk,
                                                            int phase, typename V::Ints x, int j) {
  if constexpr (HasSigns<F>) {
    return SignedLine<V, F>(at, chunk, phase, x, j);
  } else {
    return F::template LineOf<V>(at, chunk, phase, x, j);
  }
}

// One line of a step, and all eight.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints LoadLine(const BlockPlace& at, int chunk, int phase,
                                                        int j) {
  if constexpr (HasGrid<F> && FindsBytes<V>) {
    return LoadLineOfBytes<V, F>(at, chunk, phase, j);
  } else if constexpr (HasGrid<F>) {
    constexpr int kLines = 8 / F::kPairs;
    typename V::Ints lines[kLines];
    LookUpPairs<V, F, 1>(at, chunk, phase, j / kLines, lines);
    return LineOfPoints<V, F>(at, chunk, phase, lines[j % kLines], j);
  } else {
    return F::template LineOf<V>(at, chunk, phase, j);
  }
}

template <typename V, typename F>
[[gnu::always_inline]] inline void LoadWeights(const BlockPlace& at, int chunk, int phase,
                                               typename V::Ints (&w)[8]) {
  if constexpr (HasGrid<F> && FindsBytes<V>) {
    LoadStepOfBytes<V, F>(at, chunk, phase, w);
  } else if constexpr (HasGrid<F>) {
    LookUpPairs<V, F, F::kPairs>(at, chunk, phase, 0, w);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = LineOfPoints<V, F>(at, chunk, phase, w[j], j);
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = F::template LineOf<V>(at, chunk, phase, j);
  }
}

// Gives the numbers of a step a larger zero point, by `kRaise`.
template <typename V, int kRaise>
[[gnu::always_inline]] inline void RaiseNumbers(typename V::Ints (&w)[8]) {
  if constexpr (kRaise != 0) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = V::AddBytes(w[j], V::BroadcastByte(kRaise));
  }
}

template <typename F>
[[gnu::always_inline]] inline BlockPlace PlaceOf(const std::byte* unit, int64_t unit_blocks,
                                                 int64_t block, int lane) {
  // Two lead fields are two bytes each and stand in units of one block.
  constexpr int64_t kLeadFieldBytes = F::kLeadBytes == 4 ? 2 : F::kLeadBytes;
  const std::byte* lead = unit + kGroupRows * kLeadFieldBytes * block;
  return {.lead = {lead, lead + kGroupRows * kLeadFieldBytes * unit_blocks},
          .body = unit + kGroupRows * (F::kLeadBytes * unit_blocks + F::kBodyBytes * block),
          .lane = lane};
}

// Where a block lies in a group of rows.
template <typename F>
[[gnu::always_inline]] inline BlockPlace PlaceInGroup(const std::byte* group, int64_t k,
                                                      int64_t block, int lane) {
  const int64_t blocks = k / F::kBlock;
  const int64_t first = block / F::kUnitBlocks * F::kUnitBlocks;
  int64_t of_unit = 1;
  if constexpr (F::kUnitBlocks > 1) {
    of_unit = blocks - first < F::kUnitBlocks ? blocks - first : F::kUnitBlocks;
  }
  return PlaceOf<F>(group + kGroupRows * kBlockBytes<F> * first, of_unit, block - first, lane);
}

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

// What a correction (kernels/activations.h) is shifted by for a zero point.
constexpr int CorrectionShift(int zero) { return Log2(kCorrectionUnit) - Log2(zero); }

struct OutlierSpan {
  const Outlier* begin;
  const Outlier* end;
};

// The activations of tokens from `token` on, as the kernels address them.
struct TokenRows {
  const int8_t* quants;
  const float* scales;
  const float* sums;
  const float* step_sums;
  const int16_t* half_sums;
  const int16_t* half_step_sums;
  const int32_t* corrections;
  const int32_t* step_corrections;
  const int32_t* second_corrections;
  const int16_t* pair_corrections;
  const int16_t* wide_pair_corrections;
  const Outlier* outliers;
  const int32_t* outlier_ends;
  int64_t k;
  int64_t quant_stride;

  TokenRows(const Activations& a, int64_t token)
      : quants(a.quants + token * QuantStride(a.k)),
        scales(a.scales + token * ActivationBlocks(a.k)),
        sums(a.sums + token * (a.k / 16)),
        step_sums(a.step_sums + token * (a.k / 32)),
        half_sums(a.half_sums + token * (a.k / 16)),
        half_step_sums(a.half_step_sums + token * (a.k / 32)),
        corrections(a.corrections + token * (a.k / 16)),
        step_corrections(a.step_corrections + token * (a.k / 32)),
        second_corrections(a.second_corrections + token * (a.k / 32)),
        pair_corrections(a.pair_corrections + token * (a.k / 4)),
        wide_pair_corrections(a.wide_pair_corrections + token * (a.k / 8)),
        outliers(a.outliers + token * MaxOutliers(a.k)),
        outlier_ends(a.outlier_ends + token * OutlierSegments(a.k)),
        k(a.k),
        quant_stride(QuantStride(a.k)) {}

  // Of a group of 32 or 16 elements.
  template <int kGroup>
  float Sum(int64_t t, int64_t group) const {
    return (kGroup == 32 ? step_sums : sums)[t * (k / kGroup) + group];
  }
  // Of two groups, the first one in the lower half.
  template <int kGroup>
  int32_t SumPair(int64_t t, int64_t pair) const {
    const int16_t* of_group = kGroup == 32 ? half_step_sums : half_sums;
    int32_t both;
    std::memcpy(&both, of_group + t * (k / kGroup) + 2 * pair, sizeof(both));
    return both;
  }
  template <int kGroup>
  int32_t Correction(int64_t t, int64_t group) const {
    return (kGroup == 32 ? step_corrections : corrections)[t * (k / kGroup) + group];
  }

  // Of the second half of a step, plus 2^15.
  int32_t SecondCorrection(int64_t t, int64_t step) const {
    return second_corrections[t * (k / 32) + step];
  }

  // Both pair corrections of n quants, 8 or 16: the first one in the lower half.
  template <int n>
  int32_t PairCorrection(int64_t t, int64_t i) const {
    const int16_t* of_quants = n == 16 ? wide_pair_corrections : pair_corrections;
    int32_t both;
    std::memcpy(&both, of_quants + t * (k / n * 2) + 2 * i, sizeof(both));
    return both;
  }

  // The scale of the activations of a step.
  float Scale(int64_t t, int64_t step) const {
    return scales[t * ActivationBlocks(k) + step / kStepsOfScale];
  }
  // Whether a step is the last of those that share it.
  bool EndsScale(int64_t step) const {
    return (step + 1) % kStepsOfScale == 0 || (step + 1) * kStep == k;
  }

  // Those of a segment.
  OutlierSpan Outliers(int64_t t, int64_t segment) const {
    const int32_t* ends = outlier_ends + t * OutlierSegments(k);
    const Outlier* of_token = outliers + t * MaxOutliers(k);
    return {segment == 0 ? of_token : of_token + ends[segment - 1], of_token + ends[segment]};
  }
};

// Adds the products of a group of elements that share a scale of the weights, 32 or 16, to the sum
// of those that share a scale of the activations. `activations`: the sum of the group's.
template <typename V, bool kHasOffsets>
[[gnu::always_inline]] inline typename V::Floats AddGroup(typename V::Floats unscaled,
                                                          typename V::Ints sum,
                                                          typename V::Floats scale,
                                                          typename V::Floats offset,
                                                          float activations) {
  unscaled = V::MultiplyAdd(V::ToFloats(sum), scale, unscaled);
  if constexpr (!kHasOffsets) return unscaled;
  return V::MultiplyAdd(offset, V::Broadcast(activations), unscaled);
}

// The sum of a pair of groups, from that of the first: it goes to the upper half, and the second
// group's is added below it, from 2^15 on, which keeps its sign from borrowing. With a zero point,
// kCorrectionUnit, groups are of 16 and a pair is a step.
template <typename V, bool kHasZero>
[[gnu::always_inline]] inline typename V::Ints BeginSecond(typename V::Ints first,
                                                           const TokenRows& rows, int64_t t,
                                                           int64_t pair) {
  const int32_t second = kHasZero ? rows.SecondCorrection(t, pair) : 1 << 15;
  return V::Add(V::template ShiftLeft<16>(first), V::Broadcast(second));
}

// sum + that of a pair of groups times their scales, that of the first in the upper halves.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints AddPair(typename V::Ints sum,
                                                       typename V::Ints of_pair,
                                                       typename V::Ints scales) {
  return V::AddHalfProducts(sum, V::Xor(of_pair, V::Broadcast(1 << 15)), scales);
}

// The sums of the activations of a block's groups, each times a number: those of pair after pair.
// `first_step` is the first of the block.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints SumOfPairs(
    const typename V::Ints (&numbers)[kPairsOfWide<F>], const TokenRows& rows, int64_t t,
    int64_t first_step) {
  const int64_t first_pair = first_step * kStep / (2 * F::kGroup);
  typename V::Ints sum = V::Broadcast(0);
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairsOfWide<F>; ++pair) {
    sum = V::AddHalfProducts(sum, numbers[pair],
                             V::Broadcast(rows.SumPair<F::kGroup>(t, first_pair + pair)));
  }
  return sum;
}

// Ends a block of whole sums of one token: adds them to `total`. `minima_sum`, of formats with
// offsets: the sum of minima times sums of activations. `scale`: that of the activations.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Floats AddBlockSums(typename V::Floats total,
                                                              typename V::Ints sum,
                                                              typename V::Floats minima_sum,
                                                              const Term<V>& of_block,
                                                              float scale) {
  typename V::Floats scaled = V::Multiply(V::ToFloats(sum), of_block.scale);
  if constexpr (F::kHasOffsets) scaled = V::MultiplyAdd(minima_sum, of_block.offset, scaled);
  return V::MultiplyAdd(scaled, V::Broadcast(scale), total);
}

// The same with the minima themselves.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Floats AddBlock(
    typename V::Floats total, typename V::Ints sum, const Term<V>& of_block,
    const typename V::Ints (&minima)[kPairsOfWide<F>], const TokenRows& rows, int64_t t,
    int64_t first_step) {
  typename V::Floats minima_sum = V::Zero();
  if constexpr (F::kHasOffsets) {
    minima_sum = V::ToFloats(SumOfPairs<V, F>(minima, rows, t, first_step));
  }
  return AddBlockSums<V, F>(total, sum, minima_sum, of_block, rows.Scale(t, first_step));
}

// The weights that numbers of a group are.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Floats WeightOf(const Term<V>& term,
                                                          typename V::Floats numbers) {
  if constexpr (!F::kHasOffsets) return V::Multiply(term.scale, numbers);
  return V::MultiplyAdd(term.scale, numbers, term.offset);
}

// A product with kOneAt[i] picks byte i of every word.
inline constexpr int8_t kOneAt[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};

}  // namespace
}  // namespace thaw
