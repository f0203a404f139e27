// Products of packed rows (tensor/packed_rows.h) with activations, over the vectors V of an
// instruction set (*/lanes_*.h) and the formats of packed_formats.h and grid_formats.h. What V has
// to have is what x86/lanes_avx512.h has; the constants:
//
//   kLanes          rows of a vector: 4, 8 or 16
//   kSignedBytes    weights of 8 bits are multiplied as signed bytes, not as unsigned ones
//   kSignedPanels   those of a panel too
//   kWidthsAlike    numbers of all widths are multiplied in the same way, without overflow
//   kPairsLines     a panel's lines are kept in interleaved pairs (PairLines, LineOfPair)
//   kTileTokens, kTileVectors, kDirectTokens, kMostDirectTokens, kMostPlainTokens   as it says
//                   there
//   AsksAhead()     whether memory is to be asked for the weights of single tokens
//
// A few tokens are multiplied directly: each step of 32 elements is unpacked into registers and
// multiplied with all of them, or with as many as there are registers, group by group, so that the
// weights are read from memory once, in one stream. Many tokens are multiplied through a panel: up
// to two groups of rows are unpacked, kSegment elements at a time, into bytes and float scales that
// stay in a near cache, and tiles of a few tokens run over it.
//
// Either way one (row, token) goes through the same operations in the same order: the integer sums
// of the steps that share a scale of the activations, each times the scale of the weights, then the
// offsets, are added up; that sum times the scale of the activations is added to the whole; and
// after every kSegment elements the outliers among them. That is what row invariance rests on.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/grid_formats.h"
#include "kernels/packed_formats.h"
#include "kernels/panel_matmul.h"
#include "kernels/plain_products.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

inline constexpr int64_t kStep = kActivationStep;  // elements

// Elements of a panel: 64 KiB of bytes for two groups, and 8 to 32 KiB of scales and offsets. Half
// of the smallest L2 cache; each segment costs a load and a store of every sum.
inline constexpr int64_t kSegment = kOutlierSegment;
inline constexpr int64_t kPanelGroups = 2;
inline constexpr int64_t kPanelRows = kPanelGroups * kGroupRows;
inline constexpr int64_t kPanelLineBytes = 4 * kPanelRows;

// Whether memory is asked for ahead of the weights. With several tokens every format needs it:
// their work leaves loads fewer places to run ahead. With one token the blocks that lose the
// hardware's own prefetching need it, and the others where the hardware runs ahead too little.
template <typename V, typename F, int kTokens>
[[gnu::always_inline]] inline bool AsksAhead() {
  if constexpr (F::kPrefetches || kTokens > 1) return true;
  return V::AsksAhead();
}

template <typename F>
inline constexpr int kGroupsOfBlock = F::kBlock / F::kGroup;
template <typename F>
inline constexpr int kStepsOfBlock = F::kBlock / 32;
template <typename F>
inline constexpr int64_t kBlockBytes = F::kLeadBytes + F::kBodyBytes;

// Weights of 8 bits take no zero point where the lanes multiply them as signed numbers.
template <typename V, typename F>
inline constexpr int kZeroOf = F::kBits == 8 && V::kSignedBytes ? 0 : F::kZero;

// The terms of all groups of a block.
template <typename V, typename F>
struct Terms {
  typename V::Floats scale[kGroupsOfBlock<F>];
  typename V::Floats offset[kGroupsOfBlock<F>];

  [[gnu::always_inline]] explicit Terms(const BlockPlace& at) {
#pragma GCC unroll 16
    for (int group = 0; group < kGroupsOfBlock<F>; ++group) {
      const Term<V> term = F::template TermOf<V>(at, group);
      scale[group] = term.scale;
      if constexpr (F::kHasOffsets) offset[group] = term.offset;
    }
  }
};

template <typename F>
concept HasGrid = requires { F::kGrid; };

// What is looked up for n pairs of points, from `pair` on: 8 / kPairs lines of each.
template <typename V, typename F, int n>
[[gnu::always_inline]] inline void LookUpPairs(const BlockPlace& at, int chunk, int phase, int pair,
                                               typename V::Ints (&lines)[8 / F::kPairs * n]) {
  typename V::Ints points[n];
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) points[i] = F::template PointsOf<V>(at, chunk, phase, pair + i);
  if constexpr (F::kPairs == 2) {
    const auto* grid = reinterpret_cast<const GridPoint8*>(&F::kGrid);
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) V::LookUpOctets(grid, points[i], lines + 4 * i);
  } else {
    V::LookUpHalves(F::kGrid, points);
#pragma GCC unroll 8
    for (int i = 0; i < 2 * n; ++i) lines[i] = ElementsOfCodes<V>(points[i / 2], i % 2);
  }
}

// One line of a step, and all eight.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints LoadLine(const BlockPlace& at, int chunk, int phase,
                                                        int j) {
  if constexpr (HasGrid<F>) {
    constexpr int kLines = 8 / F::kPairs;
    typename V::Ints lines[kLines];
    LookUpPairs<V, F, 1>(at, chunk, phase, j / kLines, lines);
    return F::template LineOf<V>(at, chunk, phase, lines[j % kLines], j);
  } else {
    return F::template LineOf<V>(at, chunk, phase, j);
  }
}

template <typename V, typename F>
[[gnu::always_inline]] inline void LoadWeights(const BlockPlace& at, int chunk, int phase,
                                               typename V::Ints (&w)[8]) {
  if constexpr (HasGrid<F>) {
    LookUpPairs<V, F, F::kPairs>(at, chunk, phase, 0, w);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = F::template LineOf<V>(at, chunk, phase, w[j], j);
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = F::template LineOf<V>(at, chunk, phase, j);
  }
}

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

// The zero point of a panel's numbers. Where the lanes multiply unsigned bytes all are given that
// of the corrections, so that they need no shift; where they multiply any signed ones it is taken
// off, and there are no corrections.
template <typename V, typename F>
inline constexpr int kPanelZeroOf = [] {
  const bool is_signed = V::kSignedPanels && (F::kBits == 8 || V::kWidthsAlike);
  if (F::kZero == 0 || is_signed) return 0;
  return V::kWidthsAlike ? kCorrectionUnit : F::kZero;
}();

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
  const int32_t* corrections;
  const int32_t* step_corrections;
  const Outlier* outliers;
  const int32_t* outlier_ends;
  int64_t k;

  TokenRows(const Activations& a, int64_t token)
      : quants(a.quants + token * a.k),
        scales(a.scales + token * ActivationBlocks(a.k)),
        sums(a.sums + token * (a.k / 16)),
        step_sums(a.step_sums + token * (a.k / 32)),
        corrections(a.corrections + token * (a.k / 16)),
        step_corrections(a.step_corrections + token * (a.k / 32)),
        outliers(a.outliers + token * MaxOutliers(a.k)),
        outlier_ends(a.outlier_ends + token * OutlierSegments(a.k)),
        k(a.k) {}

  // Of a group of 32 or 16 elements.
  template <int kGroup>
  float Sum(int64_t t, int64_t group) const {
    return (kGroup == 32 ? step_sums : sums)[t * (k / kGroup) + group];
  }
  template <int kGroup>
  int32_t Correction(int64_t t, int64_t group) const {
    return (kGroup == 32 ? step_corrections : corrections)[t * (k / kGroup) + group];
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
// of those that share a scale of the activations. `group`: its number in the row.
template <typename V, int kGroup, bool kHasOffsets>
[[gnu::always_inline]] inline typename V::Floats AddGroup(
    typename V::Floats unscaled, typename V::Ints sum, typename V::Floats scale,
    typename V::Floats offset, const TokenRows& rows, int64_t t, int64_t group) {
  unscaled = V::MultiplyAdd(V::ToFloats(sum), scale, unscaled);
  if constexpr (!kHasOffsets) return unscaled;
  return V::MultiplyAdd(offset, V::Broadcast(rows.Sum<kGroup>(t, group)), unscaled);
}

// ------------------------------------------------------------------------------------ directly

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

// The sums of some tokens and a vector of rows.
template <typename V, int kTokens>
struct DirectSums {
  typename V::Floats total[kTokens];
  typename V::Floats unscaled[kTokens];  // of the steps that share the present scale
};

// Adds the products of step `phase` of a chunk to the sums of kTokens tokens.
template <typename V, typename F, int kTokens, int phase>
[[gnu::always_inline]] inline void MultiplyStep(const BlockPlace& place, int chunk,
                                                const Terms<V, F>& terms, const TokenRows& rows,
                                                int64_t first_step,
                                                DirectSums<V, kTokens>& of_tokens) {
  using Ints = typename V::Ints;
  constexpr int kZero = kZeroOf<V, F>;
  const int step_of_block = chunk * F::kPhases + phase;
  const int64_t step = first_step + step_of_block;
  constexpr int kGroups = 32 / F::kGroup;
  const int group = step_of_block * kGroups;
  // A share of the block's lines with every step: evenly spread, no burst fills the queue.
  constexpr int64_t kLines = (kGroupRows * kBlockBytes<F> / kStepsOfBlock<F> + 63) / 64;
  if (AsksAhead<V, F, kTokens>()) {
    // Where a vector holds but a part of the rows, each part asks for its share.
    const std::byte* ahead = place.body + kPrefetchBytes + step_of_block * kLines * 64;
    constexpr int64_t kParts = kGroupRows / V::kLanes;
    const int64_t part = place.lane / V::kLanes;
#pragma GCC unroll 16
    for (int64_t line = 0; line < kLines; line += kParts) {
      if (line + part < kLines) __builtin_prefetch(ahead + 64 * (line + part), 0, 2);
    }
  }
  Ints w[8];
  LoadWeights<V, F>(place, chunk, phase, w);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const int8_t* a = rows.quants + t * rows.k + kStep * step;
#pragma GCC unroll 2
    for (int i = 0; i < kGroups; ++i) {
      Ints init = V::Broadcast(0);
      if constexpr (kZero != 0) {
        init = V::template ShiftRightSigned<CorrectionShift(kZero)>(
            V::Broadcast(rows.Correction<F::kGroup>(t, kGroups * step + i)));
      }
      constexpr int kLinesOfGroup = F::kGroup / 4;
      const Ints sum =
          V::template Dot<F::kBits, kLinesOfGroup>(w + kLinesOfGroup * i, a + F::kGroup * i, init);
      of_tokens.unscaled[t] = AddGroup<V, F::kGroup, F::kHasOffsets>(
          of_tokens.unscaled[t], sum, terms.scale[group + i], terms.offset[group + i], rows, t,
          kGroups * step + i);
    }
  }
  // Known to the compiler where a block of weights has whole scales of activations.
  constexpr bool kHasWholeScales = kStepsOfBlock<F> % kStepsOfScale == 0;
  if (kHasWholeScales ? (step_of_block + 1) % kStepsOfScale != 0 : !rows.EndsScale(step)) return;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    of_tokens.total[t] = V::MultiplyAdd(of_tokens.unscaled[t], V::Broadcast(rows.Scale(t, step)),
                                        of_tokens.total[t]);
    of_tokens.unscaled[t] = V::Zero();
  }
}

// A product with kOneAt[i] picks byte i of every word.
inline constexpr int8_t kOneAt[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};

// The weights of element `index` of a block, for all rows of a vector. Unsigned, so that divisions
// by powers of two are shifts.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Floats WeightsAt(const BlockPlace& place,
                                                           uint32_t index) {
  const uint32_t step = index / 32;
  const typename V::Ints line =
      LoadLine<V, F>(place, static_cast<int>(step / F::kPhases),
                     static_cast<int>(step % F::kPhases), static_cast<int>(index % 32 / 4));
  const typename V::Ints numbers =
      V::template Dot<F::kBits, 1>(&line, kOneAt[index % 4], V::Broadcast(-kZeroOf<V, F>));
  const Term<V> term = F::template TermOf<V>(place, static_cast<int>(index / F::kGroup));
  typename V::Floats weights = V::Multiply(term.scale, V::ToFloats(numbers));
  if constexpr (F::kHasOffsets) weights = V::Add(weights, term.offset);
  return weights;
}

// Where a block lies in a group of rows.
template <typename F>
[[gnu::always_inline]] inline BlockPlace PlaceInGroup(const std::byte* group, int64_t k,
                                                      int64_t block, int lane) {
  const int64_t blocks = k / F::kBlock;
  const int64_t first = block / F::kUnitBlocks * F::kUnitBlocks;
  const int64_t of_unit = blocks - first < F::kUnitBlocks ? blocks - first : F::kUnitBlocks;
  return PlaceOf<F>(group + kGroupRows * kBlockBytes<F> * first, of_unit, block - first, lane);
}

// Adds what outliers contribute to one token.
template <typename V, typename F>
[[gnu::noinline]] typename V::Floats AddOutliers(const std::byte* group, int64_t k, int lane,
                                                 OutlierSpan outliers, typename V::Floats total) {
  for (const Outlier* outlier = outliers.begin; outlier != outliers.end; ++outlier) {
    const auto index = static_cast<uint32_t>(outlier->index);
    const typename V::Floats weights =
        WeightsAt<V, F>(PlaceInGroup<F>(group, k, index / F::kBlock, lane), index % F::kBlock);
    total = V::MultiplyAdd(weights, V::Broadcast(outlier->value), total);
  }
  return total;
}

template <typename V, typename F, int kTokens>
[[gnu::always_inline]] inline void MultiplyBlock(const BlockPlace& place, const TokenRows& rows,
                                                 int64_t first_step, DirectSums<V, kTokens>& sums) {
  const Terms<V, F> terms(place);
  // Kept rolled, by a bound that the compiler cannot see: code that reads many places at once
  // defeats the hardware's prefetching.
  int chunks = F::kChunks;
  if constexpr (F::kChunks > 1) asm("" : "+r"(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    MultiplyStep<V, F, kTokens, 0>(place, chunk, terms, rows, first_step, sums);
    if constexpr (F::kPhases > 1) {
      MultiplyStep<V, F, kTokens, 1>(place, chunk, terms, rows, first_step, sums);
    }
    if constexpr (F::kPhases > 2) {
      MultiplyStep<V, F, kTokens, 2>(place, chunk, terms, rows, first_step, sums);
      MultiplyStep<V, F, kTokens, 3>(place, chunk, terms, rows, first_step, sums);
    }
    if constexpr (F::kPhases > 4) {
      MultiplyStep<V, F, kTokens, 4>(place, chunk, terms, rows, first_step, sums);
      MultiplyStep<V, F, kTokens, 5>(place, chunk, terms, rows, first_step, sums);
      MultiplyStep<V, F, kTokens, 6>(place, chunk, terms, rows, first_step, sums);
      MultiplyStep<V, F, kTokens, 7>(place, chunk, terms, rows, first_step, sums);
    }
  }
}

// One group of rows times kTokens tokens; out[t * out_stride + row]. Where a vector holds but a
// part of the rows, the parts take turns block by block: one after the other they would leave
// memory idle while the second is read from a cache.
template <typename V, typename F, int kTokens>
[[gnu::noinline]] void MultiplyGroup(const std::byte* group, const TokenRows& rows, float* out,
                                     int64_t out_stride) {
  constexpr int kParts = kGroupRows / V::kLanes;
  const int64_t k = rows.k;
  const int64_t blocks = k / F::kBlock;
  DirectSums<V, kTokens> sums[kParts];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      sums[part].total[t] = V::Zero();
      sums[part].unscaled[t] = V::Zero();
    }
  }
  const std::byte* unit = group;
  for (int64_t block = 0; block < blocks; block += F::kUnitBlocks) {
    const int64_t of_unit = blocks - block < F::kUnitBlocks ? blocks - block : F::kUnitBlocks;
    for (int64_t i = 0; i < of_unit; ++i) {
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        MultiplyBlock<V, F, kTokens>(PlaceOf<F>(unit, of_unit, i, part * V::kLanes), rows,
                                     (block + i) * kStepsOfBlock<F>, sums[part]);
      }
      const int64_t end = (block + i + 1) * F::kBlock;
      if (end % kSegment != 0 && end != k) continue;
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const OutlierSpan outliers = rows.Outliers(t, (end - 1) / kSegment);
        if (outliers.begin == outliers.end) continue;
#pragma GCC unroll 4
        for (int part = 0; part < kParts; ++part) {
          sums[part].total[t] =
              AddOutliers<V, F>(group, k, part * V::kLanes, outliers, sums[part].total[t]);
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

// ------------------------------------------------------------------------------------ by panels

// Two groups of rows (or one), unpacked: the memory of a panel.
struct Panel {
  std::byte* lines;  // [kSegment / 4, kPanelRows, 4]
  float* scales;     // [kSegment / 16, kPanelRows]; [kSegment / 32, ...] where 32 share a scale
  float* offsets;    // the same

  explicit Panel(std::byte* scratch)
      : lines(scratch),
        scales(reinterpret_cast<float*>(scratch + kPanelRows * kSegment)),
        offsets(scales + kPanelRows * (kSegment / 16)) {}
};

inline constexpr int64_t kPanelBytes =
    kPanelRows * (kSegment + 2 * (kSegment / 16) * int64_t{sizeof(float)});

static_assert(kPanelBytes <= kPackedScratchBytes);

// `kPanelZero`: what the panel's numbers are too large by; with 0 they are signed bytes.
template <typename V, typename F, int kPanelZero, int phase>
[[gnu::always_inline]] inline void UnpackStep(const BlockPlace& place, int chunk,
                                              std::byte* lines) {
  typename V::Ints w[8];
  LoadWeights<V, F>(place, chunk, phase, w);
  constexpr int kRaise = kPanelZero - kZeroOf<V, F>;
  if constexpr (kRaise != 0) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w[j] = V::AddBytes(w[j], V::BroadcastByte(kRaise));
  }
  if constexpr (V::kPairsLines) {
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) V::PairLines(w[j], w[j + 1]);
  }
  std::byte* to = lines + (chunk * F::kPhases + phase) * 8 * kPanelLineBytes;
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) V::Store(w[j], to + j * kPanelLineBytes);
}

// Elements [begin, end) of a group as rows [row, row + 16) of a panel.
template <typename V, typename F, int kPanelZero>
[[gnu::noinline]] void FillPanel(const std::byte* group, int64_t k, int64_t begin, int64_t end,
                                 int64_t row, const Panel& panel) {
  for (int lane = 0; lane < kGroupRows; lane += V::kLanes) {
    std::byte* lines = panel.lines + 4 * (row + lane);
    float* scales = panel.scales + row + lane;
    float* offsets = panel.offsets + row + lane;
    for (int64_t block = begin / F::kBlock; block < end / F::kBlock; ++block) {
      const BlockPlace place = PlaceInGroup<F>(group, k, block, lane);
      const Terms<V, F> terms(place);
      for (int i = 0; i < kGroupsOfBlock<F>; ++i, scales += kPanelRows, offsets += kPanelRows) {
        V::StoreFloats(terms.scale[i], scales);
        if constexpr (F::kHasOffsets) V::StoreFloats(terms.offset[i], offsets);
      }
      for (int chunk = 0; chunk < F::kChunks; ++chunk) {
        UnpackStep<V, F, kPanelZero, 0>(place, chunk, lines);
        if constexpr (F::kPhases > 1) UnpackStep<V, F, kPanelZero, 1>(place, chunk, lines);
        if constexpr (F::kPhases > 2) {
          UnpackStep<V, F, kPanelZero, 2>(place, chunk, lines);
          UnpackStep<V, F, kPanelZero, 3>(place, chunk, lines);
        }
        if constexpr (F::kPhases > 4) {
          UnpackStep<V, F, kPanelZero, 4>(place, chunk, lines);
          UnpackStep<V, F, kPanelZero, 5>(place, chunk, lines);
          UnpackStep<V, F, kPanelZero, 6>(place, chunk, lines);
          UnpackStep<V, F, kPanelZero, 7>(place, chunk, lines);
        }
      }
      lines += kStepsOfBlock<F> * 8 * kPanelLineBytes;
    }
  }
}

// The part of a panel that a tile runs over.
struct PanelSegment {
  Panel panel;
  int64_t begin;  // elements of the row
  int64_t end;
  int zero;  // what the panel's numbers are too large by
};

// Unpacks groups of rows, two at a time and a segment after another, and hands each to
// multiply(segment, first row, number of rows).
template <typename V, typename F, int kPanelZero, typename Multiply>
[[gnu::always_inline]] inline void ForEachSegment(const std::byte* groups, int64_t n_groups,
                                                  int64_t k, std::byte* scratch,
                                                  const Multiply& multiply) {
  const int64_t group_bytes = kGroupRows * (k / F::kBlock) * kBlockBytes<F>;
  const Panel panel(scratch);
  for (int64_t g = 0; g < n_groups; g += kPanelGroups) {
    const int64_t of_panel = n_groups - g < kPanelGroups ? n_groups - g : kPanelGroups;
    for (int64_t begin = 0; begin < k; begin += kSegment) {
      const int64_t end = k - begin < kSegment ? k : begin + kSegment;
      for (int64_t i = 0; i < of_panel; ++i) {
        FillPanel<V, F, kPanelZero>(groups + (g + i) * group_bytes, k, begin, end, i * kGroupRows,
                                    panel);
      }
      multiply(PanelSegment{panel, begin, end, kPanelZero}, g * kGroupRows, of_panel * kGroupRows);
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

template <typename V, typename F>
using PanelKindOf = PanelKind<V::kWidthsAlike ? 8
                              : F::kBits <= 4 ? 4
                                              : F::kBits,
                              F::kGroup, F::kHasOffsets>;

// The line of a panel that holds element `index`, or the pair of lines.
template <typename V>
[[gnu::always_inline]] inline const std::byte* PanelLine(const Panel& panel, int64_t index) {
  return panel.lines + (V::kPairsLines ? index / 8 * 2 : index / 4) * kPanelLineBytes;
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

// Byte `index` of every word, a number of the panel. Where the lanes do not multiply bytes as the
// panel has them, it is brought to the upper end of its word; a signed one comes down with its
// sign.
template <typename V, int kBits>
[[gnu::always_inline]] inline typename V::Floats NumbersAt(typename V::Ints words, uint32_t index,
                                                           typename V::Ints minus_zero) {
  const int up = 24 - 8 * static_cast<int>(index);
  if constexpr (kBits == 8 && V::kSignedPanels) {
    return V::ToFloats(V::template ShiftRightSigned<24>(V::ShiftLeft(words, up)));
  } else if constexpr (!V::kWidthsAlike) {
    return V::ToFloats(V::Add(V::template ShiftRight<24>(V::ShiftLeft(words, up)), minus_zero));
  } else {
    return V::ToFloats(V::template Dot<kBits, 1>(&words, kOneAt[index], minus_zero));
  }
}

// Adds what the outliers of a segment contribute to the sums of token t and rows from `row` on.
template <typename V, typename Kind, int kVectors>
[[gnu::always_inline]] inline void AddPanelOutliers(const PanelSegment& segment, int64_t row,
                                                    const TokenRows& rows, int64_t t,
                                                    typename V::Floats (&total)[kVectors]) {
  using Floats = typename V::Floats;
  const OutlierSpan outliers = rows.Outliers(t, segment.begin / kSegment);
  const typename V::Ints minus_zero = V::Broadcast(-segment.zero);
  for (const Outlier* outlier = outliers.begin; outlier != outliers.end; ++outlier) {
    const auto index = static_cast<uint32_t>(outlier->index - segment.begin);
    const std::byte* line = PanelLine<V>(segment.panel, index);
    const int64_t group = index / Kind::kGroup * kPanelRows;
    const Floats value = V::Broadcast(outlier->value);
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      const int64_t at = row + r * V::kLanes;
      const Floats numbers =
          NumbersAt<V, Kind::kBits>(PanelWords<V>(line, at, index), index % 4, minus_zero);
      Floats weights = V::Multiply(V::LoadFloats(segment.panel.scales + group + at), numbers);
      if constexpr (Kind::kHasOffsets) {
        weights = V::Add(weights, V::LoadFloats(segment.panel.offsets + group + at));
      }
      total[r] = V::MultiplyAdd(weights, value, total[r]);
    }
  }
}

// Rows [row, row + kVectors * lanes) of a panel times a tile of tokens; the sums go on from those
// in `out`, unless the segment is the first. The first `skip` tokens' sums are not kept.
template <typename V, typename Kind, int kVectors, int kTokens>
[[gnu::noinline]] void MultiplyTile(const PanelSegment& segment, int64_t row, const TokenRows& rows,
                                    int skip, float* out, int64_t out_stride) {
  using Ints = typename V::Ints;
  using Floats = typename V::Floats;
  constexpr int kGroup = Kind::kGroup;
  constexpr int kGroups = 32 / kGroup;  // of a step
  Floats total[kTokens][kVectors];
  Floats unscaled[kVectors][kTokens];  // of the steps that share the present scale of a token
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    float* of_token = out + t * out_stride + row;
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      total[t][r] =
          segment.begin == 0 || t < skip ? V::Zero() : V::LoadFloats(of_token + r * V::kLanes);
      unscaled[r][t] = V::Zero();
    }
    __builtin_prefetch(of_token, 1);
    __builtin_prefetch(of_token + kVectors * V::kLanes - 1, 1);
  }
  [[maybe_unused]] const int shift = segment.zero == 0 ? 0 : CorrectionShift(segment.zero);
  const std::byte* lines = segment.panel.lines + 4 * row;
  const float* scales = segment.panel.scales + row;
  const float* offsets = segment.panel.offsets + row;
  for (int64_t step = segment.begin / kStep; step < segment.end / kStep; ++step) {
#pragma GCC unroll 2
    for (int i = 0; i < kGroups; ++i) {
      const int64_t group = kGroups * step + i;
      Ints sums[kVectors][kTokens];
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        Ints init = V::Broadcast(0);
        if constexpr (!Kind::kHasOffsets && !(Kind::kBits == 8 && V::kSignedPanels)) {
          init = V::Broadcast(rows.Correction<kGroup>(t, group));
          if constexpr (!V::kWidthsAlike) init = V::ShiftRightSigned(init, shift);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r) sums[r][t] = init;
      }
      V::template DotTile<Kind::kBits, kGroup / 4, kVectors, kTokens>(
          lines, kPanelLineBytes, rows.quants + kGroup * group, rows.k, sums);
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const Floats scale = V::LoadFloats(scales + r * V::kLanes);
        Floats offset = V::Zero();
        if constexpr (Kind::kHasOffsets) offset = V::LoadFloats(offsets + r * V::kLanes);
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          unscaled[r][t] = AddGroup<V, kGroup, Kind::kHasOffsets>(unscaled[r][t], sums[r][t], scale,
                                                                  offset, rows, t, group);
        }
      }
      lines += kGroup / 4 * kPanelLineBytes;
      scales += kPanelRows;
      offsets += kPanelRows;
    }
    if (!rows.EndsScale(step)) continue;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Floats scale = V::Broadcast(rows.Scale(t, step));
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        total[t][r] = V::MultiplyAdd(unscaled[r][t], scale, total[t][r]);
        unscaled[r][t] = V::Zero();
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    if (t < skip) continue;
    AddPanelOutliers<V, Kind, kVectors>(segment, row, rows, t, total[t]);
    float* of_token = out + t * out_stride + row;
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) V::StoreFloats(total[t][r], of_token + r * V::kLanes);
  }
}

template <typename V, typename Kind>
void MultiplySegment(const PanelSegment& segment, int64_t n_rows, const Activations& activations,
                     float* out, int64_t out_stride) {
  constexpr int kTokens = V::kTileTokens;
  constexpr int kVectors = V::kTileVectors;
  static_assert(kTokens <= V::kMostDirectTokens + 1);  // fewer than a tile do not come here
  for (int64_t token = 0; token < activations.n_tokens; token += kTokens) {
    // The last tile reaches back over tokens that are done.
    const int64_t last = activations.n_tokens - kTokens;
    const int64_t first = token < last ? token : last;
    const auto skip = static_cast<int>(token - first);
    const TokenRows rows(activations, first);
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
  }
}

// ------------------------------------------------------------------------------------ all types

template <typename V, typename F>
void MultiplyDirectly(const std::byte* group, const Activations& activations, float* out,
                      int64_t out_stride) {
  int64_t token = 0;
  const auto multiply = [&]<int kTokens>() {
    for (; token + kTokens <= activations.n_tokens; token += kTokens) {
      MultiplyGroup<V, F, kTokens>(group, TokenRows(activations, token), out + token * out_stride,
                                   out_stride);
    }
  };
  if constexpr (V::kDirectTokens >= 8) multiply.template operator()<8>();
  multiply.template operator()<4>();
  multiply.template operator()<2>();
  multiply.template operator()<1>();
}

template <typename V, typename F>
void MultiplyGroups(const std::byte* groups, int64_t n_groups, const Activations& activations,
                    float* out, int64_t out_stride, std::byte* scratch) {
  const int64_t k = activations.k;
  if (activations.n_tokens <= V::kMostDirectTokens) {
    const int64_t group_bytes = kGroupRows * (k / F::kBlock) * kBlockBytes<F>;
    for (int64_t g = 0; g < n_groups; ++g) {
      MultiplyDirectly<V, F>(groups + g * group_bytes, activations, out + g * kGroupRows,
                             out_stride);
    }
    return;
  }
  ForEachSegment<V, F, kPanelZeroOf<V, F>>(
      groups, n_groups, k, scratch,
      [&](const PanelSegment& segment, int64_t first_row, int64_t n_rows) {
        MultiplySegment<V, PanelKindOf<V, F>>(segment, n_rows, activations, out + first_row,
                                              out_stride);
      });
}

// Whole groups of packed rows of any packable type.
template <typename V>
void MultiplyPackedGroups(ElementType type, const std::byte* groups, int64_t n_groups,
                          const Activations& a, float* out, int64_t out_stride,
                          std::byte* scratch) {
  switch (type) {
    case ElementType::kF32:
      return MultiplyPlainGroups<V, Plain::kF32>(groups, n_groups, a, out, out_stride, scratch);
    case ElementType::kF16:
      return MultiplyPlainGroups<V, Plain::kF16>(groups, n_groups, a, out, out_stride, scratch);
    case ElementType::kBF16:
      return MultiplyPlainGroups<V, Plain::kBF16>(groups, n_groups, a, out, out_stride, scratch);
    default:
      return VisitFormat(type, [&]<typename F>() {
        MultiplyGroups<V, F>(groups, n_groups, a, out, out_stride, scratch);
      });
  }
}

}  // namespace
}  // namespace thaw
