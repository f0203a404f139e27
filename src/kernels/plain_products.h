// Products of packed rows of plain numbers (F32, F16, BF16) with activations as they are, over the
// vectors V of an instruction set; what V has to have is said in packed_products.h.
//
// Every vector of rows has four sums for each token, so that a single token has as many chains: of
// every fourth element, or of the evens and odds of every second line of halves. A few tokens are
// multiplied with the rows as they lie. For many, rows of halves are widened first, a part of a
// group at a time, into floats that stay in a near cache: each is widened once for a block of
// tokens and not once for a tile of them. Sums rest in memory between the parts. Rows of floats are
// taken in parts too where tiles take one of the sums after another (kTakesFloatsByLines). Either
// way the same operations follow each other in the same order, which row invariance rests on.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lines_in_turn.h"
#include "kernels/packed_formats.h"
#include "kernels/panel_matmul.h"

namespace thaw {
namespace {

enum class Plain {
  kF32,
  kF16,
  kBF16,
  kWidened,  // halves of either kind as floats, in their order
};

inline constexpr int kPlainSums = 4;

// Elements of a row that are widened at a time, and the tokens that they are multiplied with: 64
// KiB of floats and 30 KiB of sums.
inline constexpr int64_t kWidenedElements = 1024;
inline constexpr int64_t kWidenedTokens = 120;
inline constexpr int64_t kWidenedBytes = kWidenedElements * kGroupRows * int64_t{sizeof(float)};
inline constexpr int64_t kPlainSumsBytes = kPlainSums * kGroupRows * int64_t{sizeof(float)};
static_assert(kWidenedBytes + kWidenedTokens * kPlainSumsBytes <= kPackedScratchBytes);

// Fewer tokens than this are not worth the widening.
inline constexpr int64_t kFewestWidenedTokens = 18;

// Elements [begin, end) of the rows of a group. `sums` is where those of the tokens rest before and
// after; unused where this is the whole row.
struct PartOfRows {
  const std::byte* lines;
  int64_t begin;
  int64_t end;
  int64_t k;
  float* sums;  // [token, vector of rows, kPlainSums, lane]

  bool IsFirst() const { return begin == 0; }
  bool IsLast() const { return end == k; }
};

template <Plain type>
inline constexpr int64_t kPlainLineBytes = kLineBytes * (type == Plain::kWidened ? 2 : 1);

// A vector of weights; of the halves, elements 2 i and 2 i + 1 of a row stand side by side.
template <typename V, Plain type>
[[gnu::always_inline]] inline typename V::Floats LoadPlain(const std::byte* p) {
  if constexpr (type == Plain::kF16) {
    return V::LoadHalves(p);
  } else if constexpr (type == Plain::kBF16) {
    return V::AsFloats(V::template ShiftLeft<16>(V::LoadHalvesAsWords(p)));
  } else {
    return V::AsFloats(V::Load(p));
  }
}

// Lines after which the sums take their turns again.
template <Plain type>
inline constexpr int kLinesOfRound = type == Plain::kF32 ? 4 : 2;

// Rows [lane, lane + kParts * V::kLanes) of a group times kTokens tokens: of every round kLines
// lines from `first` on, with the sums that are theirs. Who takes the last lines of the last part
// adds up all sums.
template <typename V, Plain type, int kTokens, int kParts, int kLines = kLinesOfRound<type>>
[[gnu::noinline]] void MultiplyPlainRows(const PartOfRows& rows, int lane, int first,
                                         const float* values, float* out, int64_t out_stride) {
  using Floats = typename V::Floats;
  constexpr bool kIsF32 = type == Plain::kF32;
  constexpr int kRound = kLinesOfRound<type>;
  constexpr int kElements = kIsF32 ? 1 : 2;  // of a line
  constexpr int kSumsOfLine = kPlainSums / kRound;
  constexpr int kSums = kLines * kSumsOfLine;
  constexpr int64_t kLine = kPlainLineBytes<type>;
  constexpr int64_t kVectorBytes = kLine / kGroupRows * V::kLanes / kElements;
  const int64_t k = rows.k;
  const int64_t lines = (rows.end - rows.begin) / kElements;
  const std::byte* p = rows.lines + kLine / kGroupRows * lane;
  const auto rest_of = [&](int part, int t, int v) {
    return rows.sums + t * kPlainSums * kGroupRows + (lane + part * V::kLanes) * kPlainSums +
           v * V::kLanes;
  };
  const int first_sum = first * kSumsOfLine;
  Floats total[kParts][kTokens][kSums];
  for (int part = 0; part < kParts; ++part) {
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kSums; ++v) {
        total[part][t][v] =
            rows.IsFirst() ? V::Zero() : V::LoadFloats(rest_of(part, t, first_sum + v));
      }
    }
  }
  values += rows.begin;
  // The line at `at`, the one of the round with the sums from v on.
  const auto multiply = [&](const std::byte* at, int64_t line, int v) {
    Floats w[kParts][kSumsOfLine];
    for (int part = 0; part < kParts; ++part) {
      for (int i = 0; i < kSumsOfLine; ++i) {
        w[part][i] =
            LoadPlain<V, type>(at + part * (kLine / kGroupRows) * V::kLanes + i * kVectorBytes);
      }
    }
#pragma GCC unroll 6
    for (int t = 0; t < kTokens; ++t) {
      const float* x = values + t * k + kElements * line;
      const Floats a = kIsF32 ? V::Broadcast(*x) : V::BroadcastPair(x);
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 2
        for (int i = 0; i < kSumsOfLine; ++i) {
          total[part][t][v + i] = V::MultiplyAdd(w[part][i], a, total[part][t][v + i]);
        }
      }
    }
  };
  int64_t line = 0;
  const bool asks_ahead = V::AsksAhead();
  // Not of what many tokens meet part by part, out of a cache, as widened rows and F32 do.
  constexpr bool kAsksInTurn = type == Plain::kF16 || type == Plain::kBF16;
  for (; line + kRound <= lines; line += kRound, p += kRound * kLine) {
    if (kAsksInTurn && kLines == kRound && V::AsksInTurn()) {
      AskInTurn<kRound * kLine>(p);
    } else if (kLines == kRound && asks_ahead) {
#pragma GCC unroll 4
      for (int i = 0; i < kRound; ++i) {
        __builtin_prefetch(p + V::kAheadBytes + i * kLine, 0, kIntoL1);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      multiply(p + (first + i) * kLine, line + first + i, i * kSumsOfLine);
    }
  }
  for (int i = 0; i < kLines && line + first + i < lines; ++i) {
    multiply(p + (first + i) * kLine, line + first + i, i * kSumsOfLine);
  }
  const bool ends = rows.IsLast() && first + kLines == kRound;
  for (int part = 0; part < kParts; ++part) {
    for (int t = 0; t < kTokens; ++t) {
      if (kLines < kRound || !ends) {
        for (int v = 0; v < kSums; ++v) {
          V::StoreFloats(total[part][t][v], rest_of(part, t, first_sum + v));
        }
      }
      if (!ends) continue;
      Floats of_token[kPlainSums];
      for (int v = 0; v < kPlainSums; ++v) {
        if constexpr (kLines == kRound) {
          of_token[v] = total[part][t][v];
        } else {
          of_token[v] = V::LoadFloats(rest_of(part, t, v));
        }
      }
      const Floats even = V::Add(of_token[0], of_token[2]);
      const Floats odd = V::Add(of_token[1], of_token[3]);
      V::StoreFloats(kIsF32 ? V::Add(even, odd) : V::AddNeighbours(even, odd),
                     out + t * out_stride + lane + part * V::kLanes);
    }
  }
}

// Whether a tile of many tokens takes the lines of a round of floats one after another: where
// registers are few, loads of four elements of three tokens would keep the products waiting.
template <typename V, Plain type>
inline constexpr bool kTakesFloatsByLines = type == Plain::kF32 && V::kMostPlainTokens < 6;

// A single token with all rows at once, in one stream; several with as many as there are registers,
// more than V::kMostPlainTokens with the lines of a round one after another.
template <typename V, Plain type, int kTokens>
void MultiplyPlainTile(const PartOfRows& rows, const float* values, float* out,
                       int64_t out_stride) {
  if constexpr (kTokens > V::kMostPlainTokens) {
    static_assert(kTakesFloatsByLines<V, type>);
    constexpr int kParts = 2;
    for (int lane = 0; lane < kGroupRows; lane += kParts * V::kLanes) {
      for (int line = 0; line < kLinesOfRound<type>; ++line) {
        MultiplyPlainRows<V, type, kTokens, kParts, 1>(rows, lane, line, values, out, out_stride);
      }
    }
  } else {
    constexpr int kParts = kTokens == 1 ? kGroupRows / V::kLanes : 1;
    for (int lane = 0; lane < kGroupRows; lane += kParts * V::kLanes) {
      MultiplyPlainRows<V, type, kTokens, kParts>(rows, lane, 0, values, out, out_stride);
    }
  }
}

// Tile after tile of n_tokens tokens; `values` and `out` are of the first.
template <typename V, Plain type>
void MultiplyPlainTiles(PartOfRows rows, int64_t n_tokens, const float* values, float* out,
                        int64_t out_stride) {
  int64_t left = n_tokens;
  const auto multiply = [&]<int kTokens>() {
    MultiplyPlainTile<V, type, kTokens>(rows, values, out, out_stride);
    left -= kTokens;
    values += kTokens * rows.k;
    out += kTokens * out_stride;
    rows.sums += kTokens * kPlainSums * kGroupRows;
  };
  if constexpr (V::kMostPlainTokens == 6) {
    // Eight are two times four.
    while (left >= 6 && left != 8) multiply.template operator()<6>();
    while (left >= 4) multiply.template operator()<4>();
  } else {
    if constexpr (kTakesFloatsByLines<V, type>) {
      while (rows.sums != nullptr && left >= 6) multiply.template operator()<6>();
    }
    // Four are two times two.
    while (left >= 3 && left != 4) multiply.template operator()<3>();
  }
  while (left >= 2) multiply.template operator()<2>();
  while (left >= 1) multiply.template operator()<1>();
}

// Halves as floats, in their order.
template <typename V, Plain type>
[[gnu::noinline]] void Widen(const std::byte* halves, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += V::kLanes) {
    V::StoreFloats(LoadPlain<V, type>(halves + 2 * i), out + i);
  }
}

// Part after part of the rows, each with a block of tokens.
template <typename V, Plain type>
void MultiplyPartsOfGroup(const std::byte* group, const Activations& a, float* out,
                          int64_t out_stride, std::byte* scratch) {
  auto* floats = reinterpret_cast<float*>(scratch);
  PartOfRows part = {
      .lines = scratch,
      .begin = 0,
      .end = 0,
      .k = a.k,
      .sums = reinterpret_cast<float*>(scratch + kWidenedBytes),
  };
  for (int64_t token = 0; token < a.n_tokens; token += kWidenedTokens) {
    const int64_t left = a.n_tokens - token;
    const int64_t n_tokens = left < kWidenedTokens ? left : kWidenedTokens;
    for (part.begin = 0; part.begin < a.k; part.begin = part.end) {
      part.end = a.k - part.begin < kWidenedElements ? a.k : part.begin + kWidenedElements;
      const float* values = a.values + token * a.k;
      float* of_tokens = out + token * out_stride;
      if constexpr (type == Plain::kF32) {
        part.lines = group + 4 * kGroupRows * part.begin;
        MultiplyPlainTiles<V, type>(part, n_tokens, values, of_tokens, out_stride);
      } else {
        Widen<V, type>(group + 2 * kGroupRows * part.begin, kGroupRows * (part.end - part.begin),
                       floats);
        MultiplyPlainTiles<V, Plain::kWidened>(part, n_tokens, values, of_tokens, out_stride);
      }
    }
  }
}

// Whole groups of packed rows of a plain type.
template <typename V, Plain type>
void MultiplyPlainGroups(const std::byte* groups, int64_t n_groups, const Activations& a,
                         float* out, int64_t out_stride, std::byte* scratch) {
  const int64_t group_bytes = kGroupRows * a.k * (type == Plain::kF32 ? 4 : 2);
  for (int64_t g = 0; g < n_groups; ++g, groups += group_bytes, out += kGroupRows) {
    if constexpr (type != Plain::kF32 || kTakesFloatsByLines<V, type>) {
      if (a.n_tokens >= kFewestWidenedTokens) {
        MultiplyPartsOfGroup<V, type>(groups, a, out, out_stride, scratch);
        continue;
      }
    }
    MultiplyPlainTiles<V, type>({groups, 0, a.k, a.k, nullptr}, a.n_tokens, a.values, out,
                                out_stride);
  }
}

}  // namespace
}  // namespace thaw
