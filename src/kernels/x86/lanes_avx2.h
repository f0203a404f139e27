// Eight rows at a time in AVX2: the vectors that kernels/packed_products.h is written in. For
// *_avx2.cc files alone; `static`, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Lanes8 {
  using Ints = __m256i;  // 8 numbers of 32 bits, or 32 bytes
  using Floats = __m256;

  static constexpr int kLanes = 8;
  // Sums of two products must fit 16 bits, which those of unsigned bytes do not.
  static constexpr bool kSignedBytes = true;
  static constexpr bool kWidthsAlike = false;
  static constexpr bool kPairsLines = false;
  // Six sums of 16-bit integers, two vectors of weights, one of activations and what is in flight
  // fill the 16 registers; the sums of floats lie in memory.
  static constexpr int kTileTokens = 3;
  static constexpr int kTileVectors = 2;
  static constexpr int kMostDirectTokens = 4;
  static constexpr int kMostPlainTokens = 2;  // times floats: four sums of each

  THAW_INLINE Ints Load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  THAW_INLINE void Store(Ints x, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
  }
  THAW_INLINE Floats LoadFloats(const float* p) { return _mm256_loadu_ps(p); }
  THAW_INLINE void StoreFloats(Floats x, float* p) { _mm256_storeu_ps(p, x); }
  THAW_INLINE Floats LoadHalves(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  THAW_INLINE Ints LoadBytesAsWords(const std::byte* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  THAW_INLINE Ints LoadHalvesAsWords(const std::byte* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }

  THAW_INLINE Ints Broadcast(int32_t x) { return _mm256_set1_epi32(x); }
  THAW_INLINE Ints BroadcastByte(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  THAW_INLINE Floats Broadcast(float x) { return _mm256_set1_ps(x); }
  // The two floats at p, over and over.
  THAW_INLINE Floats BroadcastPair(const float* p) {
    double pair;
    std::memcpy(&pair, p, sizeof(pair));
    return _mm256_castpd_ps(_mm256_set1_pd(pair));
  }

  THAW_INLINE Ints And(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  THAW_INLINE Ints Or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  THAW_INLINE Ints Xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
  THAW_INLINE Ints Add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  THAW_INLINE Ints AddBytes(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
  THAW_INLINE Ints Subtract(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
  template <int n>
  THAW_INLINE Ints ShiftLeft(Ints x) {
    return _mm256_slli_epi32(x, n);
  }
  template <int n>
  THAW_INLINE Ints ShiftRight(Ints x) {
    return _mm256_srli_epi32(x, n);
  }
  THAW_INLINE Ints ShiftLeft(Ints x, int n) { return _mm256_slli_epi32(x, n); }
  THAW_INLINE Ints ShiftRight(Ints x, int n) { return _mm256_srli_epi32(x, n); }
  template <int n>
  THAW_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm256_srai_epi32(x, n);
  }
  THAW_INLINE Ints ShiftRightSigned(Ints x, int n) {
    return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n));
  }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return _mm256_andnot_si256(_mm256_cmpeq_epi32(x, y), x);
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const __m128i entries = _mm_loadu_si128(static_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), x);
  }

  THAW_INLINE Floats AsFloats(Ints x) { return _mm256_castsi256_ps(x); }
  THAW_INLINE Floats ToFloats(Ints x) { return _mm256_cvtepi32_ps(x); }
  THAW_INLINE Floats Zero() { return _mm256_setzero_ps(); }
  THAW_INLINE Floats Add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  THAW_INLINE Floats Multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  THAW_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  THAW_INLINE Floats Negate(Floats x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }
  // [low[0] + low[1], low[2] + low[3], ..., high[6] + high[7]]
  THAW_INLINE Floats AddNeighbours(Floats low, Floats high) {
    const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(low, high));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xd8));
  }

  // Lines whose sums of two products fit 16 bits together: 2 * (2^bits - 1) * 127 each; of signed
  // bytes 2 * 128 * 127.
  template <int kBits>
  static constexpr int kLinesInHalf = kBits <= 4   ? 8
                                      : kBits == 5 ? 4
                                      : kBits == 6 ? 2
                                                   : 1;

  template <int kBits>
  THAW_INLINE Ints Pairs(Ints w, Ints a) {
    if constexpr (kBits < 8) {
      return _mm256_maddubs_epi16(w, a);
    } else {
      return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    }
  }

  THAW_INLINE Ints BroadcastFour(const int8_t* a) {
    int32_t four;
    std::memcpy(&four, a, sizeof(four));
    return _mm256_set1_epi32(four);
  }

  THAW_INLINE Ints AddPairs(Ints sum, Ints pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  // init + the products of four bytes each of w[0..n) with the bytes of 4 n activations.
  template <int kBits, int n>
  THAW_INLINE Ints Dot(const Ints* w, const int8_t* a, Ints init) {
    constexpr int kRun = kLinesInHalf<kBits> < n ? kLinesInHalf<kBits> : n;
    Ints sum = init;
#pragma GCC unroll 8
    for (int first = 0; first < n; first += kRun) {
      Ints pairs = Pairs<kBits>(w[first], BroadcastFour(a + 4 * first));
#pragma GCC unroll 8
      for (int j = first + 1; j < first + kRun; ++j) {
        pairs = _mm256_add_epi16(pairs, Pairs<kBits>(w[j], BroadcastFour(a + 4 * j)));
      }
      sum = AddPairs(sum, pairs);
    }
    return sum;
  }

  // The same for kVectors vectors of rows and kTokens tokens. `w` holds line after line, `a` the
  // activations of token after token, token_bytes apart.
  template <int kBits, int n, int kVectors, int kTokens>
  THAW_INLINE void DotTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                           int64_t token_bytes, Ints (&sums)[kVectors][kTokens]) {
    constexpr int kRun = kLinesInHalf<kBits> < n ? kLinesInHalf<kBits> : n;
#pragma GCC unroll 8
    for (int first = 0; first < n; first += kRun) {
      Ints pairs[kVectors][kTokens];
#pragma GCC unroll 8
      for (int j = first; j < first + kRun; ++j) {
        Ints line[kVectors];
#pragma GCC unroll 2
        for (int r = 0; r < kVectors; ++r) line[r] = Load(w + j * line_bytes + r * 32);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const Ints broadcast = BroadcastFour(a + t * token_bytes + 4 * j);
#pragma GCC unroll 2
          for (int r = 0; r < kVectors; ++r) {
            const Ints products = Pairs<kBits>(line[r], broadcast);
            pairs[r][t] = j == first ? products : _mm256_add_epi16(pairs[r][t], products);
          }
        }
      }
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) sums[r][t] = AddPairs(sums[r][t], pairs[r][t]);
      }
    }
  }
};

}  // namespace
}  // namespace thaw
