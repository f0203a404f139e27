// Products of packed rows of BF16 with activations rounded to bfloat16, by instructions that add up
// two products at once, over the vectors V of an instruction set: those of packed_products.h with
//   AddPair(sum, w, pair)   sum + both products of words of two numbers with the two at `pair`
//
// A line of packed rows holds two numbers of each, as such an instruction takes them. Every row has
// two sums for each token, of the even and the odd lines of kRoundedElements numbers; those
// together are added to what the numbers before came to, which is `out`. A few tokens are
// multiplied with one group after another, in the order of memory. Many are multiplied with two
// groups at once, a block of tokens and of numbers at a time that stays in a near cache. Either way
// the same operations follow each other in the same order, which row invariance rests on.
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

// Numbers of a row that are added up before they meet the rest, and the tokens that are multiplied
// with so many at a time: 480 KiB of activations, of which a tile has 12 and two groups 64.
inline constexpr int64_t kRoundedElements = 1024;
inline constexpr int64_t kRoundedTokens = 240;

// Up to so many tokens are multiplied with one group after another.
inline constexpr int64_t kRoundedTokensInOrder = 2;

// Of a tile; with two groups its sums fill 24 registers of 32.
inline constexpr int kRoundedTileTokens = 6;

// `count` numbers of a group's rows from `begin` on.
struct RoundedPart {
  const std::byte* lines;
  int64_t begin;
  int64_t count;
};

// kGroups groups, group_bytes apart, times kTokens tokens.
template <typename V, int kGroups, int kTokens>
[[gnu::noinline]] void MultiplyRoundedTile(const RoundedPart& part, int64_t group_bytes,
                                           const uint16_t* tokens, int64_t stride, float* out,
                                           int64_t out_stride) {
  using Floats = typename V::Floats;
  constexpr int kVectors = kGroups * kGroupRows / V::kLanes;
  constexpr int kOfGroup = kGroupRows / V::kLanes;
  Floats sums[kTokens][kVectors][2];
  for (auto& of_token : sums) {
    for (auto& of_rows : of_token) of_rows[0] = of_rows[1] = V::Zero();
  }
  const std::byte* line = part.lines;
  const uint16_t* x = tokens + part.begin;
  const auto multiply = [&](int parity) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto w = V::Load(line + v / kOfGroup * group_bytes + v % kOfGroup * 4 * V::kLanes);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        sums[t][v][parity] = V::AddPair(sums[t][v][parity], w, x + t * stride);
      }
    }
    line += kLineBytes;
    x += 2;
  };
  static_assert(kActivationStep % 4 == 0 && kRoundedElements % kActivationStep == 0);
  const bool asks_ahead = kGroups == 1 && V::AsksAhead();
  for (int64_t left = part.count; left > 0; left -= 4) {
    if (asks_ahead) {
      __builtin_prefetch(line + V::kAheadBytes, 0, kIntoL1);
      __builtin_prefetch(line + V::kAheadBytes + kLineBytes, 0, kIntoL1);
    }
    multiply(0);
    multiply(1);
  }
#pragma GCC unroll 6
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* to = out + t * out_stride + v * V::kLanes;
      const Floats sum = V::Add(sums[t][v][0], sums[t][v][1]);
      V::StoreFloats(part.begin == 0 ? sum : V::Add(V::LoadFloats(to), sum), to);
    }
  }
}

// Tokens [first, first + count) in tiles, the rest in one.
template <typename V, int kGroups>
void MultiplyRoundedTokens(const RoundedPart& part, int64_t group_bytes, const Activations& a,
                           int64_t first, int64_t count, float* out, int64_t out_stride) {
  const int64_t stride = RoundedStride(a.k);
  int64_t token = first;
  const auto multiply = [&]<int kLess>() {
    constexpr int kTokens = kRoundedTileTokens - kLess;
    for (; token + kTokens <= first + count; token += kTokens) {
      MultiplyRoundedTile<V, kGroups, kTokens>(part, group_bytes, a.rounded + token * stride,
                                               stride, out + token * out_stride, out_stride);
    }
  };
  ForEachOf(std::make_integer_sequence<int, kRoundedTileTokens>(), multiply);
}

// Whole groups of packed rows. IsMultipliedRounded must hold.
template <typename V>
void MultiplyRoundedGroups(const std::byte* groups, int64_t n_groups, const Activations& a,
                           float* out, int64_t out_stride) {
  const int64_t group_bytes = kGroupRows * a.k * int64_t{sizeof(uint16_t)};
  const auto part_of = [&](int64_t group, int64_t begin) {
    const int64_t left = a.k - begin;
    return RoundedPart{groups + group * group_bytes + begin / 2 * kLineBytes, begin,
                       left < kRoundedElements ? left : kRoundedElements};
  };
  if (a.n_tokens <= kRoundedTokensInOrder) {
    for (int64_t group = 0; group < n_groups; ++group) {
      for (int64_t begin = 0; begin < a.k; begin += kRoundedElements) {
        MultiplyRoundedTokens<V, 1>(part_of(group, begin), group_bytes, a, 0, a.n_tokens,
                                    out + group * kGroupRows, out_stride);
      }
    }
    return;
  }
  for (int64_t token = 0; token < a.n_tokens; token += kRoundedTokens) {
    const int64_t left = a.n_tokens - token;
    const int64_t n_tokens = left < kRoundedTokens ? left : kRoundedTokens;
    for (int64_t begin = 0; begin < a.k; begin += kRoundedElements) {
      int64_t group = 0;
      for (; group + 2 <= n_groups; group += 2) {
        MultiplyRoundedTokens<V, 2>(part_of(group, begin), group_bytes, a, token, n_tokens,
                                    out + group * kGroupRows, out_stride);
      }
      if (group == n_groups) continue;
      MultiplyRoundedTokens<V, 1>(part_of(group, begin), group_bytes, a, token, n_tokens,
                                  out + group * kGroupRows, out_stride);
    }
  }
}

// Whether MultiplyRoundedGroups multiplies these activations with weights of this type.
inline bool IsMultipliedRounded(ElementType type, const Activations& a) {
  return type == ElementType::kBF16 && a.rounded != nullptr;
}

}  // namespace
}  // namespace thaw
