// The lanes of arm/lanes_dotprod.h with the matrix products of int8 (I8MM) in panels: smmla
// multiplies two rows of eight numbers with two tokens, twice what a dot product does.
//
// Its operand holds two rows of eight, which the words of two lines are when they are interleaved;
// a panel is kept so. A single token is multiplied as without I8MM: it would leave half of every
// product unused. The sums are of integers, so that both give the same bits. For *_i8mm.cc files
// alone.
#pragma once

#include "kernels/arm/lanes_dotprod.h"

namespace thaw {
namespace {

struct LanesI8mm : Lanes4 {
  static constexpr bool kPairsLines = true;
  // 8 sums of integers and 8 of floats, the activations of two pairs of tokens and what is in
  // flight fit the 32 registers: 22 loads for 32 products. With 6 tokens GCC 12 kept 25 values in
  // memory.
  static constexpr int kTileTokens = 4;
  static constexpr int kWholeTileTokens = 4;
  static constexpr int kTileVectors = 2;

  // Two lines of four rows to the first two rows of both, and the other two.
  THAW_INLINE void PairLines(Ints& first, Ints& second) {
    const Ints low = vzip1q_s32(first, second);
    second = vzip2q_s32(first, second);
    first = low;
  }
  // Line `index`, 0 or 1, of a pair.
  THAW_INLINE Ints LineOfPair(Ints low, Ints high, int index) {
    return index == 0 ? vuzp1q_s32(low, high) : vuzp2q_s32(low, high);
  }

  template <int kBits, int n, int kVectors, int kTokens>
  THAW_INLINE void DotTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                           int64_t token_bytes, Ints (&sums)[kVectors][kTokens]) {
    static_assert(n % 4 == 0 && kTokens % 2 == 0);
    // Of rows 2 half, 2 half + 1 of a vector and a pair of tokens: row by row.
    Ints products[kVectors][2][kTokens / 2];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens / 2; ++t) products[r][half][t] = vdupq_n_s32(0);
      }
    }
#pragma GCC unroll 2
    for (int j = 0; j < n; j += 4) {
      // Eight numbers of both tokens of a pair: the first eight of sixteen, and the second.
      int8x16_t tokens[2][kTokens / 2];
#pragma GCC unroll 4
      for (int t = 0; t < kTokens / 2; ++t) {
        const int8_t* at = a + 2 * t * token_bytes + 4 * j;
        const int64x2_t first = vreinterpretq_s64_s8(vld1q_s8(at));
        const int64x2_t second = vreinterpretq_s64_s8(vld1q_s8(at + token_bytes));
        tokens[0][t] = vreinterpretq_s8_s64(vzip1q_s64(first, second));
        tokens[1][t] = vreinterpretq_s8_s64(vzip2q_s64(first, second));
      }
#pragma GCC unroll 2
      for (int pair = 0; pair < 2; ++pair) {
        const std::byte* lines = w + (j + 2 * pair) * line_bytes;
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 2
          for (int half = 0; half < 2; ++half) {
            const int8x16_t rows = vreinterpretq_s8_s32(Load(lines + half * line_bytes + 16 * r));
#pragma GCC unroll 4
            for (int t = 0; t < kTokens / 2; ++t) {
              products[r][half][t] = vmmlaq_s32(products[r][half][t], rows, tokens[pair][t]);
            }
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens / 2; ++t) {
        const Ints low = products[r][0][t];
        const Ints high = products[r][1][t];
        sums[r][2 * t] = vaddq_s32(sums[r][2 * t], vuzp1q_s32(low, high));
        sums[r][2 * t + 1] = vaddq_s32(sums[r][2 * t + 1], vuzp2q_s32(low, high));
      }
    }
  }
};

}  // namespace
}  // namespace thaw
