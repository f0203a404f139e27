// Products of bytes where instructions add four of them to a word (VNNI), over the vectors V of an
// instruction set (lanes_*.h). V::AddFour(sum, w, a) is sum + the products of four bytes each, of
// unsigned w with signed a; V::BroadcastFour(a) the same four activations for every row, and
// V::AddFourOf(sum, w, a) sum + the products with those. For files of such sets alone; `static`,
// for the reason given in vector_avx2.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw {
namespace {

template <typename V>
struct VnniLanes : V {
  using Ints = typename V::Ints;

  // Weights of 8 bits are multiplied as unsigned numbers; no sum overflows.
  static constexpr bool kSignedBytes = false;
  static constexpr bool kSignedPanels = false;
  static constexpr bool kWidensBytes = false;
  static constexpr bool kWidthsAlike = true;
  static constexpr bool kTakesLinesInTurn = true;
  static constexpr bool kTakesHighNibbles = true;

  // init + the products of four bytes each of w[0..n) with the bytes of 4 n activations.
  template <int kBits, int n>
  [[gnu::always_inline]] static inline Ints Dot(const Ints* w, const int8_t* a, Ints init) {
    Ints sum = init;
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) sum = V::AddFourOf(sum, w[j], a + 4 * j);
    return sum;
  }

  // The same for kVectors vectors of rows and kTokens tokens. `w` holds line after line, `a` the
  // activations of token after token, token_bytes apart.
  template <int kBits, int n, int kVectors, int kTokens>
  [[gnu::always_inline]] static inline void DotTile(const std::byte* w, int64_t line_bytes,
                                                    const int8_t* a, int64_t token_bytes,
                                                    Ints (&sums)[kVectors][kTokens]) {
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) {
      Ints line[kVectors];
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) {
        line[r] = V::Load(w + j * line_bytes + r * 4 * V::kLanes);
      }
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        const Ints broadcast = V::BroadcastFour(a + t * token_bytes + 4 * j);
#pragma GCC unroll 2
        for (int r = 0; r < kVectors; ++r) {
          sums[r][t] = V::AddFour(sums[r][t], line[r], broadcast);
        }
      }
    }
  }
};

}  // namespace
}  // namespace thaw
