// Sixteen rows at a time in AVX-512 with VNNI: the vectors that kernels/packed_products.h is
// written in. For *_avx512.cc files alone; `static`, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/table_words.h"
#include "kernels/x86/vnni_lanes.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Vectors16 {
  using Ints = __m512i;  // 16 numbers of 32 bits, or 64 bytes
  using Floats = __m512;

  static constexpr int kLanes = 16;
  static constexpr bool kHalvesLines = true;
  static constexpr bool kPairsLines = false;
  static constexpr bool kPairsSums = true;
  static constexpr bool kScalesHalves = false;
  static constexpr bool kScalesWords = false;
  // Tokens and vectors of rows of a tile of a panel: 10 sums of integers and 20 of floats and two
  // vectors of weights fill the 32 registers. With 12 sums of each kind a third of them lies in
  // memory, which is slower by a fourteenth. In whole numbers there are 12 sums of a group and 12
  // of a block, and only those of a row lie in memory.
  static constexpr int kTileTokens = 5;
  static constexpr int kWholeTileTokens = 6;
  static constexpr int kTileVectors = 2;
  // Tokens that are multiplied directly at once, and such batches at the most (Zen 4).
  static constexpr int kDirectTokens = 8;
  static constexpr int kMostBatches = 4;
  static constexpr int kMostPlainTokens = 6;  // times floats: four sums of each
  static constexpr int64_t kAheadBytes = 6 << 10;
  static constexpr int64_t kAheadBytesIntoL2 = kAheadBytes;
  static constexpr int kMostTokensInOrder = kDirectTokens;
  THAW_INLINE bool AsksAhead() { return x86::kAsksAhead; }
  THAW_INLINE bool AsksInTurn() { return x86::kAsksInTurn; }
  static constexpr bool AsksAheadIntoL2() { return false; }

  THAW_INLINE Ints Load(const std::byte* p) { return _mm512_loadu_si512(p); }
  THAW_INLINE void Store(Ints x, std::byte* p) { _mm512_storeu_si512(p, x); }
  THAW_INLINE Floats LoadFloats(const float* p) { return _mm512_loadu_ps(p); }
  THAW_INLINE void StoreFloats(Floats x, float* p) { _mm512_storeu_ps(p, x); }
  THAW_INLINE Floats LoadHalves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // Of the lower halves of words.
  THAW_INLINE Floats HalvesOfWords(Ints x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
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

  // A pair of numbers of bfloat16 in every pair of lanes.
  THAW_INLINE Floats RoundedPair(const uint16_t* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof(pair));
    const __m512i to_upper = _mm512_broadcast_i32x4(
        _mm_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 0, 1, -1, -1, 2, 3));
    return AsFloats(_mm512_shuffle_epi8(Broadcast(pair), to_upper));
  }
  // Those of the words of `first`, then those of `second`.
  THAW_INLINE Ints UpperHalves(Ints first, Ints second) {
    const __m512i shifted = _mm512_srli_epi32(first, 16);
    const __m512i halves = _mm512_packus_epi32(shifted, _mm512_srli_epi32(second, 16));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), halves);
  }

  THAW_INLINE Ints And(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  THAW_INLINE Ints Or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  THAW_INLINE Ints Xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  THAW_INLINE Ints Add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  THAW_INLINE Ints Subtract(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  THAW_INLINE Ints AddBytes(Ints a, Ints b) { return _mm512_add_epi8(a, b); }
  THAW_INLINE Ints SubtractBytes(Ints a, Ints b) { return _mm512_sub_epi8(a, b); }
  // Rounded up.
  THAW_INLINE Ints AverageBytes(Ints a, Ints b) { return _mm512_avg_epu8(a, b); }
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
  // By the number at n, which every word takes from memory.
  THAW_INLINE Ints ShiftRightLoaded(Ints x, const int32_t* n) {
    return _mm512_srlv_epi32(x, _mm512_set1_epi32(*n));
  }
  template <int n>
  THAW_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm512_srai_epi32(x, n);
  }
  THAW_INLINE Ints ShiftRightSigned(Ints x, int n) {
    return _mm512_sra_epi32(x, _mm_cvtsi32_si128(n));
  }
  // Of halves of words.
  template <int n>
  THAW_INLINE Ints ShiftRightSignedHalves(Ints x) {
    return _mm512_srai_epi16(x, n);
  }
  // The lower halves of the words of `low` and the upper ones of `high`.
  THAW_INLINE Ints LowerHalvesOf(Ints low, Ints high) {
    return _mm512_mask_mov_epi16(high, 0x55555555, low);
  }
  THAW_INLINE Ints MultiplyHalves(Ints a, Ints b) { return _mm512_mullo_epi16(a, b); }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(x, y), x);
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const __m128i entries = _mm_loadu_si128(static_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), x);
  }
  // Byte i of every word is byte (pattern >> 8 i) % 256 of it, or 0 where that is 0x80.
  THAW_INLINE Ints ShuffleBytes(Ints x, int32_t pattern) {
    const __m512i words = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(x, _mm512_add_epi8(words, _mm512_set1_epi32(pattern)));
  }
  // Bytes of `yes` where the one bit of the pattern is set in `bits`, and of `no` elsewhere.
  THAW_INLINE Ints Select(Ints bits, Ints pattern, Ints yes, Ints no) {
    return _mm512_mask_mov_epi8(no, _mm512_test_epi8_mask(bits, pattern), yes);
  }
  // Numbers of 16 bits to the entries of a table that they name.
  template <size_t kEntries, int n>
  THAW_INLINE void LookUpHalves(const std::array<uint16_t, kEntries>& table, Ints (&x)[n]) {
    const auto* entries = reinterpret_cast<const uint16_t*>(&table);
    // 64 entries at a time; what is found elsewhere stays, whether it was found already or not.
    Ints parts[n];
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) parts[i] = _mm512_srli_epi16(x[i], 6);
#pragma GCC unroll 8
    for (size_t part = 0; part < kEntries / 64; ++part) {
      const Ints low = _mm512_loadu_si512(entries + 64 * part);
      const Ints high = _mm512_loadu_si512(entries + 64 * part + 32);
      const Ints number = _mm512_set1_epi16(static_cast<int16_t>(part));
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) {
        x[i] = _mm512_mask2_permutex2var_epi16(low, x[i], _mm512_cmpeq_epi16_mask(parts[i], number),
                                               high);
      }
    }
  }
  // The octets that index(row, 0) names as lines [0] and [1], four bytes of each row, and those of
  // index(row, 1) as [2] and [3].
  template <typename Indices>
  THAW_INLINE void LookUpBy(const GridPoint8* points, const Indices& index, Ints* lines) {
    const auto further = [&](int row, int i) { return index(row + 8, i); };
    for (int i = 0; i < 2; ++i) {
      __m256i low[2];
      __m256i high[2];
      LookUpOctets(points, index, i, low);
      LookUpOctets(points, further, i, high);
      SplitOctets(Join(low[0], high[0]), Join(low[1], high[1]), lines + 2 * i);
    }
  }
  // The lower halves of words as index(row, 0), the upper as index(row, 1).
  struct RowIndices {
    VectorIndices low;
    VectorIndices high;

    [[gnu::always_inline]] uint64_t operator()(int row, int i) const {
      return row < 8 ? low(row, i) : high(row - 8, i);
    }
  };
  THAW_INLINE RowIndices IndicesOf(Ints x) {
    return {VectorIndices(_mm512_castsi512_si256(x)),
            VectorIndices(_mm512_extracti64x4_epi64(x, 1))};
  }
  THAW_INLINE Ints Join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  // Eight bytes of rows 0, 1, 4, 5, ... and of rows 2, 3, 6, 7, ... to two lines.
  THAW_INLINE void SplitOctets(Ints even, Ints odd, Ints* lines) {
    const __m512 a = _mm512_castsi512_ps(even);
    const __m512 b = _mm512_castsi512_ps(odd);
    lines[0] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88));
    lines[1] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
  }

  THAW_INLINE Floats AsFloats(Ints x) { return _mm512_castsi512_ps(x); }
  THAW_INLINE Ints AsInts(Floats x) { return _mm512_castps_si512(x); }
  THAW_INLINE Floats ToFloats(Ints x) { return _mm512_cvtepi32_ps(x); }
  THAW_INLINE Floats Zero() { return _mm512_setzero_ps(); }
  THAW_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  THAW_INLINE Floats Subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
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

  THAW_INLINE Ints BroadcastFour(const int8_t* a) {
    int32_t four;
    std::memcpy(&four, a, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  THAW_INLINE Ints AddFour(Ints sum, Ints w, Ints a) { return _mm512_dpbusd_epi32(sum, w, a); }
  // In one instruction, of which GCC 12 makes two.
  THAW_INLINE Ints AddFourOf(Ints sum, Ints w, const int8_t* a) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(a)));
    return sum;
  }
  // The larger ones, of unsigned halves of words.
  THAW_INLINE Ints MaxHalves(Ints a, Ints b) { return _mm512_max_epu16(a, b); }
  // [x0, x0, x1, x1, ...] of the first and of the last lanes.
  THAW_INLINE Floats RepeatLower(Floats x) {
    const Ints lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(lanes, x);
  }
  THAW_INLINE Floats RepeatUpper(Floats x) {
    const Ints lanes =
        _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
    return _mm512_permutexvar_ps(lanes, x);
  }
  // a f and b g rounded to halves of words, within +-(2^15 - 1): added to 3 x 2^22, whose last bit
  // is 1, they are its lower half.
  THAW_INLINE Ints ShortsOf(Floats a, Floats f, Floats b, Floats g) {
    const Floats units = _mm512_set1_ps(0x1.8p23f);
    const Ints even =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_epi16(AsInts(MultiplyAdd(a, f, units)), even,
                                     AsInts(MultiplyAdd(b, g, units)));
  }
  // sum + the products of both halves of the words.
  THAW_INLINE Ints AddHalfProducts(Ints sum, Ints a, Ints b) {
    return _mm512_dpwssd_epi32(sum, a, b);
  }
};

using Lanes16 = VnniLanes<Vectors16>;

}  // namespace
}  // namespace thaw
