// Products of packed rows (kernels/packed_products.h) with many tokens, through a panel: up to two
// groups of rows are unpacked, kSegment elements at a time, into bytes and scales that stay in a
// near cache, and tiles of a few tokens run over it.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/activations.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"
#include "kernels/panel_matmul.h"

namespace thaw {
namespace {

inline constexpr int64_t kPanelGroups = 2;
inline constexpr int64_t kPanelRows = kPanelGroups * kGroupRows;
inline constexpr int64_t kPanelLineBytes = 4 * kPanelRows;

// Whether sums of products of pairs stay halves that go on from the pair corrections: what their
// zero point adds overflows then and is taken off again, modulo 2^16.
template <typename V, typename Kind>
inline constexpr bool kCorrectsPairs =
    V::kScalesHalves && !Kind::kHasOffsets && (IsWhole<Kind> || Kind::kBits == 7);

// The zero point of a panel's numbers. Where the lanes multiply unsigned bytes all are given that
// of the corrections, so that they need no shift; where they multiply any signed ones it is taken
// off, and there are no corrections.
template <typename V, typename F>
inline constexpr int kPanelZeroOf = [] {
  if (kCorrectsPairs<V, F>) return int{kPairUnit};
  const bool is_signed = V::kSignedPanels && (F::kBits == 8 || V::kWidthsAlike);
  if (F::kZero == 0 || is_signed) return 0;
  return V::kWidthsAlike ? kCorrectionUnit : F::kZero;
}();

// What whole sums over the blocks of 256 of a segment become floats with.
struct BlockTerms {
  std::byte*
      minima;      // [kSegment / 32, kPanelRows] words: of pairs of groups, the first one's below
  float* scales;   // [kSegment / 256, kPanelRows]
  float* offsets;  // the same

  static constexpr int64_t kOfPairs = kPanelRows * (kSegment / 32);
  static constexpr int64_t kOfBlocks = kPanelRows * (kSegment / kWideActivationBlock);
  static constexpr int64_t kBytes = 4 * (kOfPairs + 2 * kOfBlocks);

  explicit BlockTerms(std::byte* scratch)
      : minima(scratch),
        scales(reinterpret_cast<float*>(scratch + 4 * kOfPairs)),
        offsets(scales + kOfBlocks) {}
};

// Whether a panel's numbers are of 16 bits, multiplied with activations that are widened for every
// tile.
template <typename V, typename Kind>
inline constexpr bool kIsWidened = Kind::kBits == 8 && V::kWidensBytes;

// Elements of every row in a line of a panel.
template <typename V, typename Kind>
inline constexpr int64_t kElementsOfLine = kIsWidened<V, Kind> ? 2 : 4;

// Two groups of rows (or one), unpacked: the memory of a panel.
struct Panel {
  std::byte* lines;  // [kSegment / 4, kPanelRows, 4], or of 16 bits [kSegment / 2, kPanelRows, 2]
  float* scales;     // [kSegment / 16, kPanelRows]; [kSegment / 32, ...] where 32 share a scale
  float* offsets;    // the same

  // In whole numbers: the scales of groups, or of pairs of groups, the first one in the upper half.
  std::byte* whole_scales;  // [kSegment / 16, kPanelRows] words, as scales
  BlockTerms terms;

  static constexpr int64_t kOfGroups = kPanelRows * (kSegment / 16);

  static constexpr int64_t kMostLineBytes = 2 * kPanelRows * kSegment;

  explicit Panel(std::byte* scratch)
      : lines(scratch),
        scales(reinterpret_cast<float*>(scratch + kMostLineBytes)),
        offsets(scales + kOfGroups),
        whole_scales(reinterpret_cast<std::byte*>(offsets + kOfGroups)),
        terms(whole_scales + 4 * kOfGroups) {}
};

inline constexpr int64_t kPanelBytes =
    Panel::kMostLineBytes + 4 * 3 * Panel::kOfGroups + BlockTerms::kBytes;

static_assert(kPanelBytes <= kPackedScratchBytes);

// `kPanelZero`: what the panel's numbers are too large by; with 0 they are signed bytes. With
// kElements, 4 or 2, of every row in a line.
template <typename V, typename F, int kPanelZero, int64_t kElements, int phase>
[[gnu::always_inline]] inline void UnpackStep(const BlockPlace& place, int chunk,
                                              std::byte* lines) {
  typename V::Ints w[8];
  LoadWeights<V, F>(place, chunk, phase, w);
  RaiseNumbers<V, kPanelZero - kZeroOf<V, F>>(w);
  if constexpr (V::kPairsLines) {
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) V::PairLines(w[j], w[j + 1]);
  }
  constexpr int64_t kLines = kStep / kElements;
  std::byte* to = lines + (chunk * F::kPhases + phase) * kLines * kPanelLineBytes;
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    if constexpr (kElements == 2) {
      typename V::Ints halves[2];
      V::WidenLine(w[j], halves);
      V::Store(halves[0], to + 2 * j * kPanelLineBytes);
      V::Store(halves[1], to + (2 * j + 1) * kPanelLineBytes);
    } else {
      V::Store(w[j], to + j * kPanelLineBytes);
    }
  }
}

// The terms of block `block` of a segment, for rows [row, row + lanes) of a panel.
template <typename V, typename F>
[[gnu::always_inline]] inline void FillBlockTerms(const BlockPlace& place, int64_t block,
                                                  int64_t row, const BlockTerms& terms) {
  const Term<V> of_block = F::template BlockTermOf<V>(place);
  V::StoreFloats(of_block.scale, terms.scales + block * kPanelRows + row);
  if constexpr (F::kHasOffsets) {
    V::StoreFloats(of_block.offset, terms.offsets + block * kPanelRows + row);
    constexpr int kPairs = kPairsOfWide<F>;
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) {
      V::Store(MinimaOf<V, F>(place, pair),
               terms.minima + 4 * ((block * kPairs + pair) * kPanelRows + row));
    }
  }
}

// The scales of a block's groups in whole numbers.
template <typename V, typename F>
[[gnu::always_inline]] inline void FillWholeScales(const BlockPlace& place, int64_t block,
                                                   int64_t row, std::byte* whole_scales) {
  const auto line = [&](int64_t index) { return whole_scales + 4 * (index * kPanelRows + row); };
  constexpr int kPairs = kPairsOfWide<F>;
#pragma GCC unroll 8
  for (int pair = 0; pair < kPairs; ++pair) {
    const int64_t index = block * kPairs + pair;
    if constexpr (V::kPairsSums) {
      V::Store(ScalesOf<V, F>(place, 2 * pair + 1, 2 * pair), line(index));
    } else {
      V::Store(WholeScaleOf<V, F>(place, 2 * pair), line(2 * index));
      V::Store(WholeScaleOf<V, F>(place, 2 * pair + 1), line(2 * index + 1));
    }
  }
}

// Elements [begin, end) of a group as rows [row, row + 16) of a panel, or of what has the lines,
// scales and offsets of one.
template <typename V, typename F, int kPanelZero, int64_t kElements, typename PanelMemory>
[[gnu::noinline]] void FillPanel(const std::byte* group, int64_t k, int64_t begin, int64_t end,
                                 int64_t row, const PanelMemory& panel) {
  for (int lane = 0; lane < kGroupRows; lane += V::kLanes) {
    std::byte* lines = panel.lines + 4 * (row + lane);
    float* scales = panel.scales + row + lane;
    float* offsets = panel.offsets + row + lane;
    for (int64_t block = begin / F::kBlock; block < end / F::kBlock; ++block) {
      const BlockPlace place = PlaceInGroup<F>(group, k, block, lane);
#pragma GCC unroll 16
      for (int i = 0; i < kGroupsOfBlock<F>; ++i, scales += kPanelRows, offsets += kPanelRows) {
        const Term<V> term = TermOf<V, F>(place, i);
        V::StoreFloats(term.scale, scales);
        if constexpr (F::kHasOffsets) V::StoreFloats(term.offset, offsets);
      }
      if constexpr (IsWhole<F>) {
        const int64_t of_segment = block - begin / F::kBlock;
        FillWholeScales<V, F>(place, of_segment, row + lane, panel.whole_scales);
        FillBlockTerms<V, F>(place, of_segment, row + lane, panel.terms);
      }
      for (int chunk = 0; chunk < F::kChunks; ++chunk) {
        ForEachPhase<F>([&]<int phase>() {
          UnpackStep<V, F, kPanelZero, kElements, phase>(place, chunk, lines);
        });
      }
      lines += F::kBlock / kElements * kPanelLineBytes;
    }
  }
}

// The part of a panel that a tile runs over.
struct PanelSegment {
  Panel panel;
  int64_t begin;  // elements of the row
  int64_t end;
  int zero;  // what the panel's numbers are too large by

  // kIsWidened: the activations of the tile's tokens, of the segment alone, kWidenedStride apart.
  const int16_t* widened;

  // Not a multiple of 4 KiB, at which loads of different tokens would meet in the nearest cache.
  static constexpr int64_t kWidenedStride = kSegment + 32;
};

// The packed bytes that are unpacked next, asked for while the present panel is multiplied: a share
// after each of its tiles, into the second cache.
class UnpackedNext {
 public:
  UnpackedNext() = default;
  UnpackedNext(const std::byte* first_group, int64_t n_groups, int64_t group_bytes, int64_t bytes)
      : group_(first_group), n_groups_(n_groups), group_bytes_(group_bytes), bytes_(bytes) {}

  // Asks for what is left of shares [0, n) of `of`.
  void AskUpTo(int64_t n, int64_t of) {
    const int64_t lines = bytes_ / kLine;
    for (const int64_t end = lines * n / of; asked_ < end; ++asked_) {
      for (int64_t i = 0; i < n_groups_; ++i) {
        __builtin_prefetch(group_ + i * group_bytes_ + asked_ * kLine, 0, 2);
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const std::byte* group_ = nullptr;  // where the segment begins in the first of n_groups
  int64_t n_groups_ = 0;
  int64_t group_bytes_ = 0;  // from one group to the next
  int64_t bytes_ = 0;        // of each group
  int64_t asked_ = 0;        // lines
};

// How groups of rows are taken in segments.
struct SegmentedGroups {
  int64_t block;        // elements of every row
  int64_t block_bytes;  // of all rows of a group
  int64_t segment;      // elements, whole blocks
};

template <typename F>
inline constexpr SegmentedGroups kGroupsOf = {F::kBlock, kGroupRows* kBlockBytes<F>, kSegment};

// Takes groups of rows two at a time and a segment after another: fill(group, begin, end, row)
// unpacks elements [begin, end) of each group as rows [row, row + 16), and multiply(begin, end,
// first row, number of rows, what is unpacked next) follows.
template <SegmentedGroups by, typename Fill, typename Multiply>
[[gnu::always_inline]] inline void ForEachSegment(const std::byte* groups, int64_t n_groups,
                                                  int64_t k, const Fill& fill,
                                                  const Multiply& multiply) {
  const int64_t group_bytes = k / by.block * by.block_bytes;
  const auto end_of = [&](int64_t begin) {
    return k - begin < by.segment ? k : begin + by.segment;
  };
  const auto panel_of = [&](int64_t g) {
    return n_groups - g < kPanelGroups ? n_groups - g : kPanelGroups;
  };
  const auto segment_of = [&](int64_t g, int64_t begin) {
    return UnpackedNext(groups + g * group_bytes + begin / by.block * by.block_bytes, panel_of(g),
                        group_bytes, (end_of(begin) - begin) / by.block * by.block_bytes);
  };
  for (int64_t g = 0; g < n_groups; g += kPanelGroups) {
    for (int64_t begin = 0; begin < k; begin += by.segment) {
      const int64_t end = end_of(begin);
      for (int64_t i = 0; i < panel_of(g); ++i) {
        fill(groups + (g + i) * group_bytes, begin, end, i * kGroupRows);
      }
      UnpackedNext next;
      if (end < k) {
        next = segment_of(g, end);
      } else if (g + kPanelGroups < n_groups) {
        next = segment_of(g + kPanelGroups, 0);
      }
      multiply(begin, end, g * kGroupRows, panel_of(g) * kGroupRows, next);
    }
  }
}

// How the numbers of a panel are multiplied: what of a format is left when it is unpacked.
template <int bits, int group, bool has_offsets>
struct PanelKind {
  static constexpr int kBits = bits;
  static constexpr int kGroup = group;
  static constexpr bool kHasOffsets = has_offsets;
};

template <typename Kind>
struct WholeKind : Kind {
  static constexpr bool kIsWhole = true;
};

template <typename Kind, typename F>
using LikeFormat = std::conditional_t<IsWhole<F>, WholeKind<Kind>, Kind>;

template <typename V, typename F>
using PanelKindOf = LikeFormat<PanelKind<V::kWidthsAlike ? 8
                                         : F::kBits <= 4 ? 4
                                                         : F::kBits,
                                         F::kGroup, F::kHasOffsets>,
                               F>;

// The line of a panel that holds element `index`, or the pair of lines.
template <typename V, typename Kind>
[[gnu::always_inline]] inline const std::byte* PanelLine(const Panel& panel, int64_t index) {
  const int64_t line = V::kPairsLines ? index / 8 * 2 : index / kElementsOfLine<V, Kind>;
  return panel.lines + line * kPanelLineBytes;
}

// The words with element `index` of the vector of rows from `row` on.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints PanelWords(const std::byte* line, int64_t row,
                                                          int64_t index) {
  const typename V::Ints words = V::Load(line + 4 * row);
  if constexpr (V::kPairsLines) {
    const typename V::Ints second = V::Load(line + kPanelLineBytes + 4 * row);
    return V::LineOfPair(words, second, static_cast<int>(index / 4 % 2));
  }
  return words;
}

// Element `index` of every word, a number of the panel. Where the lanes do not multiply bytes as
// the panel has them, it is brought to the upper end of its word; a signed one comes down with its
// sign.
template <typename V, typename Kind>
[[gnu::always_inline]] inline typename V::Floats NumbersAt(typename V::Ints words, uint32_t index,
                                                           typename V::Ints minus_zero) {
  constexpr int kBits = Kind::kBits;
  if constexpr (kIsWidened<V, Kind>) {
    const typename V::Ints up = V::ShiftLeft(words, 16 - 16 * static_cast<int>(index));
    return V::ToFloats(V::template ShiftRightSigned<16>(up));
  } else if constexpr (kBits == 8 && V::kSignedPanels) {
    return V::ToFloats(SignedByteOf<V>(words, static_cast<int>(index)));
  } else if constexpr (!V::kWidthsAlike) {
    const int up = 24 - 8 * static_cast<int>(index);
    return V::ToFloats(V::Add(V::template ShiftRight<24>(V::ShiftLeft(words, up)), minus_zero));
  } else {
    return V::ToFloats(V::template Dot<kBits, 1>(&words, kOneAt[index], minus_zero));
  }
}

// Element `index` of a segment of a panel as weights.
template <typename V, typename Kind>
struct WeightsOfPanel {
  Panel panel;
  int zero;

  // For the vector of rows from `row` on.
  [[gnu::always_inline]] inline typename V::Floats operator()(uint32_t index, int64_t row) const {
    const typename V::Ints words = PanelWords<V>(PanelLine<V, Kind>(panel, index), row, index);
    const typename V::Floats numbers =
        NumbersAt<V, Kind>(words, index % kElementsOfLine<V, Kind>, V::Broadcast(-zero));
    const int64_t at = int64_t{index / Kind::kGroup} * kPanelRows + row;
    Term<V> term{V::LoadFloats(panel.scales + at), V::Zero()};
    if constexpr (Kind::kHasOffsets) term.offset = V::LoadFloats(panel.offsets + at);
    return WeightOf<V, Kind>(term, numbers);
  }
};

// Adds what the outliers of a segment contribute to the sums in `out` of tokens [first, end) and
// kVectors vectors of rows from `row` on; weights(index, row) are those of element `index` of the
// segment. A function of its own, so that its addresses have registers.
template <typename V, int kVectors, typename Weights>
[[gnu::noinline]] void AddSegmentOutliers(int64_t segment_begin, int64_t row, const TokenRows& rows,
                                          int64_t first, int64_t end, float* out,
                                          int64_t out_stride, const Weights& weights) {
  using Floats = typename V::Floats;
  constexpr int kOfLine = 64 / sizeof(Outlier);
  OutlierSpan next = rows.Outliers(first, segment_begin / kSegment);
  for (int64_t t = first; t < end; ++t) {
    const OutlierSpan outliers = next;
    if (t + 1 < end) {
      // Tokens' lists lie too far apart for a CPU to see which comes next.
      next = rows.Outliers(t + 1, segment_begin / kSegment);
      __builtin_prefetch(next.begin);
      __builtin_prefetch(next.begin + kOfLine);
    }
    if (outliers.begin == outliers.end) continue;
    float* of_token = out + t * out_stride + row;
    Floats total[kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kVectors; ++r) total[r] = V::LoadFloats(of_token + r * V::kLanes);
    for (const Outlier* outlier = outliers.begin; outlier != outliers.end; ++outlier) {
      const uint32_t index = static_cast<uint32_t>(outlier->index) % uint32_t{kSegment};
      const Floats value = V::Broadcast(outlier->value);
#pragma GCC unroll 8
      for (int r = 0; r < kVectors; ++r) {
        total[r] = V::MultiplyAdd(weights(index, row + r * V::kLanes), value, total[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kVectors; ++r) V::StoreFloats(total[r], of_token + r * V::kLanes);
  }
}

// Whether sums of products are made smaller by a zero point.
template <typename V, typename Kind>
inline constexpr bool kHasCorrections =
    !Kind::kHasOffsets && !(Kind::kBits == 8 && V::kSignedPanels) && !kCorrectsPairs<V, Kind>;

// What a group's sums of products begin with.
template <typename V, typename Kind>
[[gnu::always_inline]] inline typename V::Ints FirstSum(const TokenRows& rows, int64_t t,
                                                        int64_t group, int shift) {
  if constexpr (!kHasCorrections<V, Kind>) {
    return V::Broadcast(0);
  } else {
    const typename V::Ints correction = V::Broadcast(rows.Correction<Kind::kGroup>(t, group));
    if constexpr (V::kWidthsAlike) return correction;
    return V::ShiftRightSigned(correction, shift);
  }
}

// The sums of a tile as the products of a group are added to them.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void BeginSums(const TokenRows& rows, int64_t group, int shift,
                                             typename V::Ints (&sums)[kVectors][kTokens]) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const auto first = FirstSum<V, Kind>(rows, t, group, shift);
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) sums[r][t] = first;
  }
}

// sums + the products of a group.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddGroupProducts(const std::byte* lines, const TokenRows& rows,
                                                    int64_t group,
                                                    typename V::Ints (&sums)[kVectors][kTokens]) {
  V::template DotTile<Kind::kBits, Kind::kGroup / 4, kVectors, kTokens>(
      lines, kPanelLineBytes, rows.quants + Kind::kGroup * group, rows.quant_stride, sums);
}

// sums + scale(vector of rows) times the products of a group, whose sums of products of pairs meet
// the scale as they are.
template <typename V, typename Kind, int kVectors, int kTokens, typename Scale>
[[gnu::always_inline]] inline void AddScaledHalves(const std::byte* lines, const TokenRows& rows,
                                                   int64_t group, const Scale& scale,
                                                   typename V::Ints (&sums)[kVectors][kTokens]) {
  constexpr int kLines = Kind::kGroup / 4;
  constexpr int kRun = [] {
    if constexpr (kCorrectsPairs<V, Kind>) {
      // Two products of unsigned numbers of 7 bits fit 16 bits, and four of signed ones; of whole
      // sums the wide copy sees to it (FitSumsHalves).
      static_assert(2 * (2 * kPairUnit - 1) * 127 < 1 << 15 && 4 * kPairUnit * 127 < 1 << 15);
      return IsWhole<Kind> ? 4 : 2;
    } else {
      constexpr int kMost = V::template kLinesInHalf<Kind::kBits>;
      return kMost < kLines ? kMost : kLines;
    }
  }();
  V::template AddScaledTile<kRun, kCorrectsPairs<V, Kind>, kLines>(
      lines, kPanelLineBytes, rows.quants + Kind::kGroup * group, rows.quant_stride,
      [&](int t, int run) {
        return V::Broadcast(rows.PairCorrection<4 * kRun>(t, kLines / kRun * group + run));
      },
      scale, sums);
}

// Adds the products of a group, times `scales`, to the whole sums of a tile.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddWholeGroup(const std::byte* lines, const std::byte* scales,
                                                 const TokenRows& rows, int64_t group, int shift,
                                                 typename V::Ints (&whole)[kVectors][kTokens]) {
  const auto scale = [&](int r) { return V::Load(scales + 4 * r * V::kLanes); };
  if constexpr (V::kScalesHalves) {
    AddScaledHalves<V, Kind>(lines, rows, group, scale, whole);
  } else {
    typename V::Ints sums[kVectors][kTokens];
    BeginSums<V, Kind>(rows, group, shift, sums);
    AddGroupProducts<V, Kind>(lines, rows, group, sums);
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      const auto of_rows = scale(r);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        whole[r][t] = V::AddScaled(whole[r][t], sums[r][t], of_rows);
      }
    }
  }
}

// The same of two groups, the first one even, from lines `group_bytes` apart.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddWholePair(const std::byte* lines, int64_t group_bytes,
                                                const std::byte* scales, const TokenRows& rows,
                                                int64_t group, int shift,
                                                typename V::Ints (&whole)[kVectors][kTokens]) {
  typename V::Ints sums[kVectors][kTokens];
  BeginSums<V, Kind>(rows, group, shift, sums);
  AddGroupProducts<V, Kind>(lines, rows, group, sums);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      sums[r][t] = BeginSecond<V, kHasCorrections<V, Kind>>(sums[r][t], rows, t, group / 2);
    }
  }
  AddGroupProducts<V, Kind>(lines + group_bytes, rows, group + 1, sums);
#pragma GCC unroll 4
  for (int r = 0; r < kVectors; ++r) {
    const auto pair = V::Load(scales + 4 * r * V::kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) whole[r][t] = AddPair<V>(whole[r][t], sums[r][t], pair);
  }
}

// Adds the products of a block to the whole sums of a tile.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddWholeBlock(const std::byte* lines, const std::byte* scales,
                                                 const TokenRows& rows, int64_t first_group,
                                                 int shift,
                                                 typename V::Ints (&whole)[kVectors][kTokens]) {
  static_assert(!kIsWidened<V, Kind>);
  constexpr int64_t kGroupBytes = Kind::kGroup / 4 * kPanelLineBytes;
  constexpr int kAtOnce = V::kPairsSums ? 2 : 1;  // groups
  constexpr int kGroups = kWideActivationBlock / Kind::kGroup;
  for (int64_t group = first_group; group < first_group + kGroups; group += kAtOnce) {
    if constexpr (V::kPairsSums) {
      AddWholePair<V, Kind>(lines, kGroupBytes, scales, rows, group, shift, whole);
    } else {
      AddWholeGroup<V, Kind>(lines, scales, rows, group, shift, whole);
    }
    lines += kAtOnce * kGroupBytes;
    scales += 4 * kPanelRows;
  }
}

// The terms of a block of a panel, for the vector of rows from `row` on.
template <typename V, typename Kind>
[[gnu::always_inline]] inline Term<V> BlockTermOfPanel(const BlockTerms& terms, int64_t block,
                                                       int64_t row) {
  const int64_t at = block * kPanelRows + row;
  Term<V> term{V::LoadFloats(terms.scales + at), V::Zero()};
  if constexpr (Kind::kHasOffsets) term.offset = V::LoadFloats(terms.offsets + at);
  return term;
}

// The minima of a block's pair of groups.
template <typename V, typename Kind>
[[gnu::always_inline]] inline typename V::Ints MinimaOfPanel(const BlockTerms& terms, int64_t block,
                                                             int pair, int64_t row) {
  constexpr int64_t kPairs = kPairsOfWide<Kind>;
  return V::Load(terms.minima + 4 * ((block * kPairs + pair) * kPanelRows + row));
}

// What ends a block of a panel, for the vector of rows from `row` on.
template <typename V, typename Kind>
struct BlockEnd {
  static constexpr int kPairs = kPairsOfWide<Kind>;
  Term<V> term;
  typename V::Ints minima[kPairs];

  BlockEnd() = default;
  [[gnu::always_inline]] BlockEnd(const BlockTerms& terms, int64_t block, int64_t row)
      : term(BlockTermOfPanel<V, Kind>(terms, block, row)) {
    if constexpr (!Kind::kHasOffsets) return;
#pragma GCC unroll 8
    for (int pair = 0; pair < kPairs; ++pair) {
      minima[pair] = MinimaOfPanel<V, Kind>(terms, block, pair, row);
    }
  }
};

// The sums of a tile. They lie in memory, which is hidden from the compiler's passes: what is added
// to them comes once in many products, so the registers are left to other sums.
template <typename V, int kVectors, int kTokens>
class TileSums {
 public:
  // Go on from those of rows [0, kVectors * lanes) in `out`, unless they are the first.
  [[gnu::always_inline]] TileSums(const float* out, int64_t out_stride, bool is_first) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const float* of_vector = out + t * out_stride + r * V::kLanes;
        Set(t, r, is_first ? V::Zero() : V::LoadFloats(of_vector));
      }
    }
    asm("" : "+r"(sums_) : : "memory");
  }
  TileSums(const TileSums&) = delete;
  TileSums& operator=(const TileSums&) = delete;

  // Those of a token and a vector of rows.
  [[gnu::always_inline]] typename V::Floats Get(int t, int r) const {
    return V::LoadFloats(sums_ + (t * kVectors + r) * V::kLanes);
  }
  [[gnu::always_inline]] void Set(int t, int r, typename V::Floats sums) const {
    V::StoreFloats(sums, sums_ + (t * kVectors + r) * V::kLanes);
  }

  // Keeps those of tokens from `skip` on.
  [[gnu::always_inline]] void Keep(int skip, float* out, int64_t out_stride) const {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      if (t < skip) continue;
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        V::StoreFloats(Get(t, r), out + t * out_stride + r * V::kLanes);
      }
    }
  }

 private:
  alignas(64) float memory_[kTokens * kVectors * V::kLanes];
  float* sums_ = memory_;
};

// Adds rows [row, row + kVectors * lanes) of a panel times a tile of tokens, in whole numbers.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddWholeBlocks(const PanelSegment& segment, int64_t row,
                                                  const TokenRows& rows,
                                                  const TileSums<V, kVectors, kTokens>& total) {
  constexpr int kGroups = kWideActivationBlock / Kind::kGroup;
  constexpr int64_t kScaleLines = V::kPairsSums ? kGroups / 2 : kGroups;
  const int shift = segment.zero == 0 ? 0 : CorrectionShift(segment.zero);
  const Panel& panel = segment.panel;
  const int64_t first_block = segment.begin / kWideActivationBlock;
  const int64_t blocks = segment.end / kWideActivationBlock - first_block;
  for (int64_t block = 0; block < blocks; ++block) {
    typename V::Ints whole[kVectors][kTokens];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) whole[r][t] = V::Broadcast(0);
    }
    AddWholeBlock<V, Kind, kVectors, kTokens>(
        panel.lines + block * (kWideActivationBlock / 4) * kPanelLineBytes + 4 * row,
        panel.whole_scales + 4 * (block * kScaleLines * kPanelRows + row), rows,
        (first_block + block) * kGroups, shift, whole);
    BlockEnd<V, Kind> ends[kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      ends[r] = BlockEnd<V, Kind>(panel.terms, block, row + r * V::kLanes);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const auto sum =
            AddBlock<V, Kind>(total.Get(t, r), whole[r][t], ends[r].term, ends[r].minima, rows, t,
                              (first_block + block) * (kWideActivationBlock / kStep));
        total.Set(t, r, sum);
      }
    }
  }
}

// Adds rows [row, row + kVectors * lanes) of a panel times a tile of tokens.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::always_inline]] inline void AddSteps(const PanelSegment& segment, int64_t row,
                                            const TokenRows& rows,
                                            const TileSums<V, kVectors, kTokens>& tile) {
  using Floats = typename V::Floats;
  constexpr int kGroup = Kind::kGroup;
  constexpr int kGroups = 32 / kGroup;  // of a step
  constexpr int kLines = kGroup / kElementsOfLine<V, Kind>;
  Floats total[kVectors][kTokens];
  Floats unscaled[kVectors][kTokens];  // of the steps that share the present scale of a token
#pragma GCC unroll 4
  for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      total[r][t] = tile.Get(t, r);
      unscaled[r][t] = V::Zero();
    }
  }
  const int shift = segment.zero == 0 ? 0 : CorrectionShift(segment.zero);
  const std::byte* lines = segment.panel.lines + 4 * row;
  const float* scales = segment.panel.scales + row;
  const float* offsets = segment.panel.offsets + row;
  for (int64_t step = segment.begin / kStep; step < segment.end / kStep; ++step) {
#pragma GCC unroll 2
    for (int i = 0; i < kGroups; ++i) {
      const int64_t group = kGroups * step + i;
      typename V::Ints sums[kVectors][kTokens];
      BeginSums<V, Kind>(rows, group, shift, sums);
      if constexpr (kIsWidened<V, Kind>) {
        V::template DotWidenedTile<kLines, kVectors, kTokens>(
            lines, kPanelLineBytes, segment.widened + (kGroup * group - segment.begin),
            PanelSegment::kWidenedStride, sums);
      } else if constexpr (kCorrectsPairs<V, Kind>) {
        const auto once = [](int) { return V::Broadcast(0x10001); };
        AddScaledHalves<V, Kind>(lines, rows, group, once, sums);
      } else {
        AddGroupProducts<V, Kind>(lines, rows, group, sums);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const Floats scale = V::LoadFloats(scales + r * V::kLanes);
        Floats offset = V::Zero();
        if constexpr (Kind::kHasOffsets) offset = V::LoadFloats(offsets + r * V::kLanes);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          unscaled[r][t] = AddGroup<V, Kind::kHasOffsets>(unscaled[r][t], sums[r][t], scale, offset,
                                                          rows.Sum<kGroup>(t, group));
        }
      }
      lines += kLines * kPanelLineBytes;
      scales += kPanelRows;
      offsets += kPanelRows;
    }
    if (!rows.EndsScale(step)) continue;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Floats scale = V::Broadcast(rows.Scale(t, step));
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        total[r][t] = V::MultiplyAdd(unscaled[r][t], scale, total[r][t]);
        unscaled[r][t] = V::Zero();
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) tile.Set(t, r, total[r][t]);
  }
}

// Rows [row, row + kVectors * lanes) of a panel times a tile of tokens; the sums go on from those
// in `out`, unless the segment is the first. The first `skip` tokens' sums are not kept.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::noinline]] void MultiplyTile(const PanelSegment& of_panel, int64_t row,
                                    const TokenRows& of_tokens, int skip, float* out,
                                    int64_t out_stride) {
  // Copies, which the compiler knows that no store changes.
  const PanelSegment segment = of_panel;
  const TokenRows rows = of_tokens;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    __builtin_prefetch(out + t * out_stride + row, 1);
    __builtin_prefetch(out + t * out_stride + row + kVectors * V::kLanes - 1, 1);
  }
  const TileSums<V, kVectors, kTokens> total(out + row, out_stride, segment.begin == 0);
  if constexpr (IsWhole<Kind>) {
    AddWholeBlocks<V, Kind, kVectors, kTokens>(segment, row, rows, total);
  } else {
    AddSteps<V, Kind, kVectors, kTokens>(segment, row, rows, total);
  }
  total.Keep(skip, out + row, out_stride);
}

// Tokens of a tile.
template <typename V, typename Kind>
inline constexpr int kTokensOfTile = [] {
  if constexpr (IsWhole<Kind>) return V::kWholeTileTokens;
  return V::kTileTokens;
}();

template <typename V, typename Kind>
void MultiplySegment(PanelSegment segment, int64_t n_rows, const Activations& activations,
                     float* out, int64_t out_stride, UnpackedNext next) {
  constexpr int kTokens = kTokensOfTile<V, Kind>;
  constexpr int kVectors = V::kTileVectors;
  constexpr int64_t kStride = PanelSegment::kWidenedStride;
  alignas(64) int16_t widened[kIsWidened<V, Kind> ? kTokens * kStride : 1];
  segment.widened = widened;
  for (int64_t token = 0; token < activations.n_tokens; token += kTokens) {
    // The last tile reaches back over tokens that are done.
    const int64_t last = activations.n_tokens - kTokens;
    const int64_t first = token < last ? token : last;
    const auto skip = static_cast<int>(token - first);
    const TokenRows rows(activations, first);
    if constexpr (kIsWidened<V, Kind>) {
      for (int t = 0; t < kTokens; ++t) {
        V::WidenBytes(rows.quants + t * rows.quant_stride + segment.begin,
                      segment.end - segment.begin, widened + t * kStride);
      }
    }
    float* of_tile = out + first * out_stride;
    int64_t row = 0;
    for (; row + kVectors * V::kLanes <= n_rows; row += kVectors * V::kLanes) {
      MultiplyTile<V, Kind, kVectors, kTokens>(segment, row, rows, skip, of_tile, out_stride);
    }
    if constexpr (kGroupRows % (kVectors * V::kLanes) != 0) {
      for (; row < n_rows; row += V::kLanes) {
        MultiplyTile<V, Kind, 1, kTokens>(segment, row, rows, skip, of_tile, out_stride);
      }
    }
    next.AskUpTo(first + kTokens, activations.n_tokens);
  }
  // Of all tokens together, so that the scales of the segment stay in the nearest cache.
  const auto add_outliers = [&]<int kOfRows>() {
    AddSegmentOutliers<V, kOfRows / V::kLanes>(
        segment.begin, 0, TokenRows(activations, 0), 0, activations.n_tokens, out, out_stride,
        WeightsOfPanel<V, Kind>{segment.panel, segment.zero});
  };
  if (n_rows == kPanelRows) {
    add_outliers.template operator()<kPanelRows>();
  } else {
    add_outliers.template operator()<kGroupRows>();
  }
}

}  // namespace
}  // namespace thaw
