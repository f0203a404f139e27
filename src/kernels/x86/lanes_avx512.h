// Sixteen rows at a time in AVX-512 with VNNI: the vectors that kernels/packed_products.h is
// written in. For *_avx512.cc files alone; `static`, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Lanes16 {
  using Ints = __m512i;  // 16 numbers of 32 bits, or 64 bytes
  using Floats = __m512;

  static constexpr int kLanes = 16;
  // Dot multiplies weights of 8 bits as unsigned numbers; it never overflows.
  static constexpr bool kSignedBytes = false;
  static constexpr bool kWidthsAlike = true;
  static constexpr bool kPairsLines = false;
  // Tokens and vectors of rows of a tile of a panel: 12 sums of integers and 12 of floats, two
  // vectors of weights and one of activations fill the 32 registers.
  static constexpr int kTileTokens = 6;
  static constexpr int kTileVectors = 2;
  static constexpr int kMostDirectTokens = 8;
  static constexpr int kMostPlainTokens = 6;  // times floats: four sums of each

  THAW_INLINE Ints Load(const std::byte* p) { return _mm512_loadu_si512(p); }
  THAW_INLINE void Store(Ints x, std::byte* p) { _mm512_storeu_si512(p, x); }
  THAW_INLINE Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
  THAW_INLINE void StoreFloats(Floats x, float* p) { _mm512_storeu_ps(p, x); }
  THAW_INLINE Floats LoadHalves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  THAW_INLINE Ints LoadBytesAsWords(const std::byte* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  THAW_INLINE Ints LoadHalvesAsWords(const std::byte* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  THAW_INLINE Ints Broadcast(int32_t x) { return _mm512_set1_epi32(x); }
  THAW_INLINE Ints BroadcastByte(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  THAW_INLINE Floats Broadcast(float x) { return _mm512_set1_ps(x); }
  // The two floats at p, over and over.
  THAW_INLINE Floats BroadcastPair(const float* p) {
    double pair;
    std::memcpy(&pair, p, sizeof(pair));
    return _mm512_castpd_ps(_mm512_set1_pd(pair));
  }

  THAW_INLINE Ints And(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  THAW_INLINE Ints Or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  THAW_INLINE Ints Xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  THAW_INLINE Ints Add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  THAW_INLINE Ints Subtract(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  THAW_INLINE Ints AddBytes(Ints a, Ints b) { return _mm512_add_epi8(a, b); }
  template <int n>
  THAW_INLINE Ints ShiftLeft(Ints x) {
    return _mm512_slli_epi32(x, n);
  }
  template <int n>
  THAW_INLINE Ints ShiftRight(Ints x) {
    return _mm512_srli_epi32(x, n);
  }
  THAW_INLINE Ints ShiftLeft(Ints x, int n) { return _mm512_slli_epi32(x, n); }
  THAW_INLINE Ints ShiftRight(Ints x, int n) { return _mm512_srli_epi32(x, n); }
  template <int n>
  THAW_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm512_srai_epi32(x, n);
  }
  THAW_INLINE Ints ShiftRightSigned(Ints x, int n) {
    return _mm512_sra_epi32(x, _mm_cvtsi32_si128(n));
  }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(x, y), x);
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const __m128i entries = _mm_loadu_si128(static_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), x);
  }

  THAW_INLINE Floats AsFloats(Ints x) { return _mm512_castsi512_ps(x); }
  THAW_INLINE Floats ToFloats(Ints x) { return _mm512_cvtepi32_ps(x); }
  THAW_INLINE Floats Zero() { return _mm512_setzero_ps(); }
  THAW_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  THAW_INLINE Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  THAW_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  THAW_INLINE Floats Negate(Floats x) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
  }
  // [low[0] + low[1], low[2] + low[3], ..., high[14] + high[15]]
  THAW_INLINE Floats AddNeighbours(Floats low, Floats high) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_ps(_mm512_permutex2var_ps(low, even, high),
                         _mm512_permutex2var_ps(low, odd, high));
  }

  // init + the products of four bytes each of w[0..n) with the bytes of 4 n activations.
  template <int kBits, int n>
  THAW_INLINE Ints Dot(const Ints* w, const int8_t* a, Ints init) {
    Ints sum = init;
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) {
      int32_t four;
      std::memcpy(&four, a + 4 * j, sizeof(four));
      sum = _mm512_dpbusd_epi32(sum, w[j], _mm512_set1_epi32(four));
    }
    return sum;
  }

  // The same for kVectors vectors of rows and kTokens tokens. `w` holds line after line, `a` the
  // activations of token after token, token_bytes apart.
  template <int kBits, int n, int kVectors, int kTokens>
  THAW_INLINE void DotTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                           int64_t token_bytes, Ints (&sums)[kVectors][kTokens]) {
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) {
      Ints line[kVectors];
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) line[r] = Load(w + j * line_bytes + r * 64);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        int32_t four;
        std::memcpy(&four, a + t * token_bytes + 4 * j, sizeof(four));
        const Ints broadcast = _mm512_set1_epi32(four);
#pragma GCC unroll 2
        for (int r = 0; r < kVectors; ++r) {
          sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], line[r], broadcast);
        }
      }
    }
  }
};

}  // namespace
}  // namespace thaw
