// Products of packed rows of F16 with activations, both as integers of 16 bits, by instructions
// that add up two products at once (docs/decisions/0023), over the vectors V of an instruction set:
// those of packed_products.h with
//   MaxHalves(a, b)         the larger ones, of unsigned halves of words
//   RepeatLower(x), RepeatUpper(x)   [x0, x0, x1, x1, ...] of either half of the lanes
//   ShortsOf(a, f, b, g)    a f and b g, rounded to the nearest, ties to even, as halves of words:
//                           those of a, then those of b; within +-2^15 less one
// A vector holds a group of rows.
//
// The 64 weights of a row that lie next to each other, and as many activations, share a scale. That
// of the activations comes with them; that of the weights is the power of two that makes the
// largest one less than 2^14, found anew wherever they are read, so that memory holds the file's
// halves and nothing beside them. The sum of 64 products is exact. Times both scales it is added to
// what the blocks before came to, in their order: that is what row invariance rests on.
//
// A few tokens are multiplied with a group as it lies, whose integers never leave the registers.
// For many, two groups, a segment at a time, are made a panel that stays in a near cache.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/activations.h"
#include "kernels/lines_in_turn.h"
#include "kernels/packed_formats.h"
#include "kernels/panel_matmul.h"
#include "kernels/panel_products.h"

namespace thaw {
namespace {

inline constexpr int64_t kShortBlock = kActivationBlock;  // elements of a row with one scale
inline constexpr int64_t kShortLines = kShortBlock / 2;   // of packed rows, two elements each
inline constexpr int64_t kShortBytes = kShortLines * kLineBytes;  // of a block of a group

// Of a tile; with two groups its sums, of integers and of floats, fill 24 registers of 32.
inline constexpr int kShortTileTokens = 6;

// Up to so many tokens are multiplied with groups as they lie.
inline constexpr int kDirectShortTokens = 8;

// More tokens than this ask for weights whatever the CPU, so far ahead and into L2: they take so
// long that it does not look far enough ahead by itself (0023).
inline constexpr int kShortTokensUnasked = 1;
inline constexpr int64_t kShortAheadBytes = 12 << 10;

// Elements of a row that are in a panel at a time.
inline constexpr int64_t kShortSegment = 1024;

// Two groups of rows (or one) as shorts.
struct ShortPanel {
  std::byte* lines;  // [kShortSegment / 2, kPanelRows, 2]
  float* scales;     // [kShortSegment / kShortBlock, kPanelRows]

  static constexpr int64_t kLinesBytes = kShortSegment / 2 * kPanelLineBytes;
  static constexpr int64_t kBytes =
      kLinesBytes + kShortSegment / kShortBlock * kPanelRows * int64_t{sizeof(float)};

  explicit ShortPanel(std::byte* scratch)
      : lines(scratch), scales(reinterpret_cast<float*>(scratch + kLinesBytes)) {}
};
static_assert(ShortPanel::kBytes <= kPackedScratchBytes);

// The larger ones of `largest` and of the magnitudes of a line, as bits of halves.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints LargerHalves(typename V::Ints largest,
                                                            const std::byte* line) {
  return V::MaxHalves(largest, V::And(V::Load(line), V::Broadcast(0x7fff7fff)));
}

// How the halves of a block of a group become shorts and back.
template <typename V>
struct ShortScales {
  static_assert(V::kLanes == kGroupRows);

  typename V::Floats lower;  // what the first eight rows are multiplied with, each twice
  typename V::Floats upper;  // likewise the others
  typename V::Floats scale;  // what a short is worth

  // By the magnitudes of the largest numbers, two of each row. One of float16 with exponent e, at
  // least 1, is less than 2^(e - 14).
  [[gnu::always_inline]] inline explicit ShortScales(typename V::Ints largest) {
    constexpr int kFloatBias = 127;
    constexpr int kMantissaBits = 23;
    constexpr int kShortBits = 14;
    const auto of_rows = V::MaxHalves(largest, V::template ShiftRight<16>(largest));
    const auto exponent = V::MaxHalves(
        V::template ShiftRight<10>(V::And(of_rows, V::Broadcast(0x7c00))), V::Broadcast(1));
    const auto power = [](typename V::Ints biased) {
      return V::AsFloats(V::template ShiftLeft<kMantissaBits>(biased));
    };
    scale = power(V::Add(exponent, V::Broadcast(kFloatBias - 14 - kShortBits)));
    const auto factor = power(V::Subtract(V::Broadcast(kFloatBias + 14 + kShortBits), exponent));
    lower = V::RepeatLower(factor);
    upper = V::RepeatUpper(factor);
  }

  // Of the lines of a block.
  [[gnu::always_inline]] static inline ShortScales Of(const std::byte* lines) {
    auto largest = V::Broadcast(0);
#pragma GCC unroll 16
    for (int64_t line = 0; line < kShortLines; ++line) {
      largest = LargerHalves<V>(largest, lines + line * kLineBytes);
    }
    return ShortScales(largest);
  }

  // A line of the block.
  [[gnu::always_inline]] inline typename V::Ints Shorts(const std::byte* line) const {
    return V::ShortsOf(V::LoadHalves(line), lower, V::LoadHalves(line + kLineBytes / 2), upper);
  }
};

// The activations of a token as words of two shorts, and their scales.
struct ShortRows {
  const int16_t* shorts;
  const float* scales;
  int64_t stride;        // from one token to the next
  int64_t scale_stride;  // likewise

  ShortRows(const Activations& a, int64_t token, int64_t begin)
      : shorts(a.shorts + token * RoundedStride(a.k) + begin),
        scales(a.scales + token * ActivationBlocks(a.k) + begin / kShortBlock),
        stride(RoundedStride(a.k)),
        scale_stride(ActivationBlocks(a.k)) {}

  template <typename V>
  [[gnu::always_inline]] inline typename V::Ints Pair(int t, int64_t i) const {
    int32_t pair;
    __builtin_memcpy(&pair, shorts + t * stride + i, sizeof(pair));
    return V::Broadcast(pair);
  }
};

// total + sum times both scales.
template <typename V>
[[gnu::always_inline]] inline typename V::Floats AddShortBlock(typename V::Floats total,
                                                               typename V::Ints sum,
                                                               typename V::Floats of_weights,
                                                               float of_activations) {
  const auto scale = V::Multiply(of_weights, V::Broadcast(of_activations));
  return V::MultiplyAdd(V::ToFloats(sum), scale, total);
}

// Asks for some lines.
template <int64_t n, int kCacheHint>
[[gnu::always_inline]] inline void AskForLines(const std::byte* first) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) __builtin_prefetch(first + i * kLineBytes, 0, kCacheHint);
}

// A group as it lies times kTokens tokens. The scales of a block are found while the one before it
// is multiplied, so that memory is read line by line and nothing waits for them.
template <typename V, int kTokens>
[[gnu::noinline]] void MultiplyShortGroup(const std::byte* group, int64_t k, const ShortRows& a,
                                          float* out, int64_t out_stride) {
  typename V::Floats totals[kTokens];
  for (auto& total : totals) total = V::Zero();
  const bool asks_in_turn = V::AsksInTurn();
  const bool asks_ahead = V::AsksAhead();
  auto scales = ShortScales<V>::Of(group);
  for (int64_t i = 0; i < k; i += kShortBlock) {
    const std::byte* lines = group + i / kShortBlock * kShortBytes;
    const std::byte* next = i + kShortBlock < k ? lines + kShortBytes : lines;
    auto largest = V::Broadcast(0);
    typename V::Ints sums[kTokens];
    for (auto& sum : sums) sum = V::Broadcast(0);
    const auto multiply = [&](int64_t line) {
      largest = LargerHalves<V>(largest, next + line * kLineBytes);
      const auto w = scales.Shorts(lines + line * kLineBytes);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        sums[t] = V::AddHalfProducts(sums[t], w, a.template Pair<V>(t, i + 2 * line));
      }
    };
    constexpr int64_t kRound = 4;  // lines
#pragma GCC unroll 4
    for (int64_t line = 0; line < kShortLines; line += kRound) {
      const std::byte* round = lines + line * kLineBytes;
      if (asks_in_turn) {
        AskInTurn<kRound * kLineBytes>(round);
      } else if (asks_ahead) {
        AskForLines<kRound, kIntoL1>(round + V::kAheadBytes);
      } else if (kTokens > kShortTokensUnasked) {
        AskForLines<kRound, kIntoL2>(round + kShortAheadBytes);
      }
#pragma GCC unroll 4
      for (int64_t j = 0; j < kRound; ++j) multiply(line + j);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      totals[t] = AddShortBlock<V>(totals[t], sums[t], scales.scale,
                                   a.scales[t * a.scale_stride + i / kShortBlock]);
    }
    scales = ShortScales<V>(largest);
  }
  for (int t = 0; t < kTokens; ++t) V::StoreFloats(totals[t], out + t * out_stride);
}

// Blocks of a group as rows [row, row + 16) of a panel.
template <typename V>
[[gnu::noinline]] void FillShortPanel(const std::byte* group, int64_t n_blocks, int64_t row,
                                      const ShortPanel& panel) {
  for (int64_t block = 0; block < n_blocks; ++block) {
    const std::byte* lines = group + block * kShortBytes;
    std::byte* to = panel.lines + block * kShortLines * kPanelLineBytes + 4 * row;
    const auto scales = ShortScales<V>::Of(lines);
    V::StoreFloats(scales.scale, panel.scales + block * kPanelRows + row);
#pragma GCC unroll 16
    for (int64_t line = 0; line < kShortLines; ++line) {
      V::Store(scales.Shorts(lines + line * kLineBytes), to + line * kPanelLineBytes);
    }
  }
}

// Elements [begin, end) of a panel's first kGroups groups times kTokens tokens.
template <typename V, int kGroups, int kTokens>
[[gnu::noinline]] void MultiplyShortTile(const ShortPanel& panel, int64_t begin, int64_t end,
                                         const ShortRows& a, float* out, int64_t out_stride) {
  typename V::Floats totals[kGroups][kTokens];
  const auto at = [&](int g, int t) { return out + t * out_stride + g * kGroupRows; };
  for (int g = 0; g < kGroups; ++g) {
    for (int t = 0; t < kTokens; ++t) {
      totals[g][t] = begin == 0 ? V::Zero() : V::LoadFloats(at(g, t));
    }
  }
  const std::byte* line = panel.lines;
  const float* of_weights = panel.scales;
  const int64_t blocks = (end - begin) / kShortBlock;
  for (int64_t block = 0; block < blocks; ++block, of_weights += kPanelRows) {
    typename V::Ints sums[kGroups][kTokens];
    for (auto& of_group : sums) {
      for (auto& sum : of_group) sum = V::Broadcast(0);
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kShortBlock; i += 2, line += kPanelLineBytes) {
      typename V::Ints w[kGroups];
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) w[g] = V::Load(line + g * kLineBytes);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        const auto pair = a.template Pair<V>(t, block * kShortBlock + i);
#pragma GCC unroll 2
        for (int g = 0; g < kGroups; ++g) {
          sums[g][t] = V::AddHalfProducts(sums[g][t], w[g], pair);
        }
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      const auto scales = V::LoadFloats(of_weights + g * kGroupRows);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        totals[g][t] = AddShortBlock<V>(totals[g][t], sums[g][t], scales,
                                        a.scales[t * a.scale_stride + block]);
      }
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    for (int t = 0; t < kTokens; ++t) V::StoreFloats(totals[g][t], at(g, t));
  }
}

// A segment of a panel's first n_rows rows, a group or two, times all tokens.
template <typename V>
void MultiplyShortSegment(const ShortPanel& panel, int64_t begin, int64_t end, int64_t n_rows,
                          const Activations& a, float* out, int64_t out_stride, UnpackedNext next) {
  int64_t token = 0;
  const auto multiply = [&]<int kLess>() {
    constexpr int kTokens = kShortTileTokens - kLess;
    constexpr auto kPair = MultiplyShortTile<V, kPanelGroups, kTokens>;
    constexpr auto kOne = MultiplyShortTile<V, 1, kTokens>;
    for (; token + kTokens <= a.n_tokens; token += kTokens) {
      const auto tile = n_rows == kPanelRows ? kPair : kOne;
      tile(panel, begin, end, ShortRows(a, token, begin), out + token * out_stride, out_stride);
      next.AskUpTo(token + kTokens, a.n_tokens);
    }
  };
  ForEachOf(std::make_integer_sequence<int, kShortTileTokens>(), multiply);
}

// Whether V has what F16 is multiplied as shorts with.
template <typename V>
inline constexpr bool MultipliesShorts =
    requires(typename V::Floats x) { V::ShortsOf(x, x, x, x); };

// Whole groups of packed rows of F16 times the copy of shorts.
template <typename V>
void MultiplyShortGroups(const std::byte* groups, int64_t n_groups, const Activations& a,
                         float* out, int64_t out_stride, std::byte* scratch) {
  const int64_t k = a.k;
  const int64_t blocks = k / kShortBlock;
  const int64_t group_bytes = blocks * kShortBytes;
  if (a.n_tokens <= kDirectShortTokens) {
    const auto multiply = [&]<int kLess>() {
      constexpr int kTokens = kDirectShortTokens - kLess;
      if (a.n_tokens != kTokens) return;
      for (int64_t g = 0; g < n_groups; ++g) {
        MultiplyShortGroup<V, kTokens>(groups + g * group_bytes, k, ShortRows(a, 0, 0),
                                       out + g * kGroupRows, out_stride);
      }
    };
    return ForEachOf(std::make_integer_sequence<int, kDirectShortTokens>(), multiply);
  }
  constexpr SegmentedGroups kBy = {kShortBlock, kShortBytes, kShortSegment};
  const ShortPanel panel(scratch);
  ForEachSegment<kBy>(
      groups, n_groups, k,
      [&](const std::byte* group, int64_t begin, int64_t end, int64_t row) {
        FillShortPanel<V>(group + begin / kShortBlock * kShortBytes, (end - begin) / kShortBlock,
                          row, panel);
      },
      [&](int64_t begin, int64_t end, int64_t first_row, int64_t n_rows, UnpackedNext next) {
        MultiplyShortSegment<V>(panel, begin, end, n_rows, a, out + first_row, out_stride, next);
      });
}

}  // namespace
}  // namespace thaw
