// Eight rows at a time in AVX2: the vectors that kernels/packed_products.h is written in. For
// *_avx2.cc files alone; `static`, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/table_words.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Lanes8 {
  using Ints = __m256i;  // 8 numbers of 32 bits, or 32 bytes
  using Floats = __m256;

  static constexpr int kLanes = 8;
  static constexpr bool kSignedBytes = true;
  static constexpr bool kSignedPanels = true;
  static constexpr bool kWidensBytes = true;
  static constexpr bool kWidthsAlike = false;
  static constexpr bool kTakesLinesInTurn = false;
  static constexpr bool kHalvesLines = false;
  static constexpr bool kTakesHighNibbles = false;
  static constexpr bool kPairsLines = false;
  static constexpr bool kPairsSums = false;
  static constexpr bool kScalesHalves = true;
  static constexpr bool kScalesWords = false;
  // Eight sums of integers, two vectors of weights, one of activations and what is in flight fill
  // the 16 registers; the sums of floats lie in memory.
  static constexpr int kTileTokens = 4;
  static constexpr int kWholeTileTokens = 4;
  static constexpr int kTileVectors = 2;
  static constexpr int kDirectTokens = 4;
  static constexpr int kMostBatches = 4;
  static constexpr int kMostPlainTokens = 3;  // times floats: four sums of each
  static constexpr int64_t kAheadBytes = 6 << 10;
  static constexpr int64_t kAheadBytesIntoL2 = 3 << 10;
  static constexpr int kMostTokensInOrder = 1;
  THAW_INLINE bool AsksAhead() { return x86::kAsksAhead; }
  THAW_INLINE bool AsksInTurn() { return x86::kAsksInTurn; }
  THAW_INLINE bool AsksAheadIntoL2() { return x86::kAsksAheadIntoL2; }

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
  // Of the lower halves of words.
  THAW_INLINE Floats HalvesOfWords(Ints x) {
    const __m256i halves = _mm256_packus_epi32(x, x);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0xd8)));
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

  // A pair of numbers of bfloat16 in every pair of lanes.
  THAW_INLINE Floats RoundedPair(const uint16_t* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof(pair));
    const __m256i to_upper = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 0, 1, -1, -1, 2, 3));
    return AsFloats(_mm256_shuffle_epi8(Broadcast(pair), to_upper));
  }
  // Those of the words of `first`, then those of `second`.
  THAW_INLINE Ints UpperHalves(Ints first, Ints second) {
    const __m256i halves =
        _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16));
    return _mm256_permute4x64_epi64(halves, 0xd8);
  }

  THAW_INLINE Ints And(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  THAW_INLINE Ints Or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  THAW_INLINE Ints Xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
  THAW_INLINE Ints Add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  THAW_INLINE Ints AddBytes(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
  THAW_INLINE Ints SubtractBytes(Ints a, Ints b) { return _mm256_sub_epi8(a, b); }
  // Rounded up.
  THAW_INLINE Ints AverageBytes(Ints a, Ints b) { return _mm256_avg_epu8(a, b); }
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
  // By the number at n, which every word takes from memory.
  THAW_INLINE Ints ShiftRightLoaded(Ints x, const int32_t* n) {
    return _mm256_srlv_epi32(x, _mm256_set1_epi32(*n));
  }
  template <int n>
  THAW_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm256_srai_epi32(x, n);
  }
  THAW_INLINE Ints ShiftRightSigned(Ints x, int n) {
    return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n));
  }
  // Of halves of words.
  template <int n>
  THAW_INLINE Ints ShiftRightSignedHalves(Ints x) {
    return _mm256_srai_epi16(x, n);
  }
  THAW_INLINE Ints MultiplyHalves(Ints a, Ints b) { return _mm256_mullo_epi16(a, b); }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return _mm256_andnot_si256(_mm256_cmpeq_epi32(x, y), x);
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const __m128i entries = _mm_loadu_si128(static_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), x);
  }
  // Byte i of every word is byte (pattern >> 8 i) % 256 of it, or 0 where that is 0x80.
  THAW_INLINE Ints ShuffleBytes(Ints x, int32_t pattern) {
    const __m256i words = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c,  //
                                            0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(x, _mm256_add_epi8(words, _mm256_set1_epi32(pattern)));
  }
  // Bytes of `yes` where the one bit of the pattern is set in `bits`, and of `no` elsewhere.
  THAW_INLINE Ints Select(Ints bits, Ints pattern, Ints yes, Ints no) {
    const Ints is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bits, pattern), pattern);
    return _mm256_blendv_epi8(no, yes, is_set);
  }
  // The octets that index(row, 0) names as lines [0] and [1], four bytes of each row, and those of
  // index(row, 1) as [2] and [3].
  template <typename Indices>
  THAW_INLINE void LookUpBy(const GridPoint8* points, const Indices& index, Ints* lines) {
    for (int i = 0; i < 2; ++i) {
      Ints octets[2];
      LookUpOctets(points, index, i, octets);
      SplitOctets(octets[0], octets[1], lines + 2 * i);
    }
  }
  // The quads as [0] and [1].
  template <typename Indices>
  THAW_INLINE void LookUpBy(const GridPoint4* points, const Indices& index, Ints* lines) {
    LookUpQuads(points, index, lines);
  }
  // The lower halves of words as index(row, 0), the upper as index(row, 1).
  THAW_INLINE VectorIndices IndicesOf(Ints x) { return VectorIndices(x); }
  // Eight bytes of rows 0, 1, 4, 5 and of rows 2, 3, 6, 7 to two lines.
  THAW_INLINE void SplitOctets(Ints even, Ints odd, Ints* lines) {
    const __m256 a = _mm256_castsi256_ps(even);
    const __m256 b = _mm256_castsi256_ps(odd);
    lines[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    lines[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
  }

  // Eight elements of every row in two vectors, where magnitudes are multiplied as they come and
  // the activations take the signs: octets of rows 0, 1, 4, 5 and of rows 2, 3, 6, 7,
  struct OctetVectors {
    template <typename Indices>
    THAW_INLINE void LookUp(const GridPoint8* points, const Indices& of_two, int octet,
                            Ints (&of_rows)[2]) {
      LookUpOctets(points, of_two, octet, of_rows);
    }
    THAW_INLINE Ints Activations(const int8_t* a, int /*i*/) {
      int64_t eight;
      std::memcpy(&eight, a, sizeof(eight));
      return _mm256_set1_epi64x(eight);
    }
    THAW_INLINE Ints Signs(Ints words, int byte, int i) {
      const __m256i of_rows = _mm256_setr_epi32(0, 0, 0x04040404, 0x04040404,  //
                                                0, 0, 0x04040404, 0x04040404);
      return SignsOfBits(
          _mm256_shuffle_epi8(words, _mm256_add_epi8(of_rows, BroadcastByte(8 * i + byte))),
          0x8040201008040201);
    }
    THAW_INLINE Ints Sum(Ints even, Ints odd) {
      Ints halves[2];
      SplitOctets(even, odd, halves);
      return Lanes8::Add(halves[0], halves[1]);
    }
  };
  // or two quads of all rows.
  struct QuadVectors {
    template <typename Indices>
    THAW_INLINE void LookUp(const GridPoint4* points, const Indices& of_two, int /*octet*/,
                            Ints (&of_rows)[2]) {
      LookUpQuads(points, of_two, of_rows);
    }
    THAW_INLINE Ints Activations(const int8_t* a, int i) { return BroadcastFour(a + 4 * i); }
    THAW_INLINE Ints Signs(Ints words, int byte, int i) {
      return SignsOfBits(ShuffleBytes(words, 0x01010101 * byte),
                         i == 0 ? 0x0804020108040201 : 0x8040201080402010);
    }
    THAW_INLINE Ints Sum(Ints first, Ints second) { return Lanes8::Add(first, second); }
  };
  template <typename F>
  using OctetVectorsOf = std::conditional_t<F::kPairs == 2, OctetVectors, QuadVectors>;

  // Bytes below 0 where the one bit of the pattern is set in `bits`, and above 0 elsewhere.
  THAW_INLINE Ints SignsOfBits(Ints bits, uint64_t pattern) {
    // Carries that bit into the upper one, or sets a lower one.
    uint64_t raise = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      const uint64_t bit = pattern >> shift & 0xff;
      raise |= (bit == 0x80 ? 1 : 0x80 - bit) << shift;
    }
    return AddBytes(And(bits, _mm256_set1_epi64x(static_cast<int64_t>(pattern))),
                    _mm256_set1_epi64x(static_cast<int64_t>(raise)));
  }
  // -x where `signs` is below 0.
  THAW_INLINE Ints WithSignsOf(Ints x, Ints signs) { return _mm256_sign_epi8(x, signs); }

  // sum + the products of four bytes each of w[0] and w[1], below 64, with a[0] and a[1].
  THAW_INLINE Ints AddTwoProducts(Ints sum, const Ints (&w)[2], const Ints (&a)[2]) {
    Ints halves = _mm256_maddubs_epi16(w[0], a[0]);
    AddHalves(halves, _mm256_maddubs_epi16(w[1], a[1]));
    return AddPairs(sum, halves);
  }

  THAW_INLINE Floats AsFloats(Ints x) { return _mm256_castsi256_ps(x); }
  THAW_INLINE Ints AsInts(Floats x) { return _mm256_castps_si256(x); }
  THAW_INLINE Floats ToFloats(Ints x) { return _mm256_cvtepi32_ps(x); }
  THAW_INLINE Floats Zero() { return _mm256_setzero_ps(); }
  THAW_INLINE Floats Add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  THAW_INLINE Floats Subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  THAW_INLINE Floats Multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  THAW_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  THAW_INLINE Floats Negate(Floats x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }
  // [low[0] + low[1], low[2] + low[3], ..., high[6] + high[7]]
  THAW_INLINE Floats AddNeighbours(Floats low, Floats high) {
    const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(low, high));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xd8));
  }

  THAW_INLINE Ints BroadcastFour(const int8_t* a) {
    int32_t four;
    std::memcpy(&four, a, sizeof(four));
    return _mm256_set1_epi32(four);
  }

  // A chain of sums stays one: GCC 12 made a tree of it, for which it kept the products of a whole
  // step in memory.
  THAW_INLINE void AddHalves(Ints& sum, Ints halves) {
    sum = _mm256_add_epi16(sum, halves);
    asm("" : "+x"(sum));
  }

  // sum + the sums of neighbouring halves.
  THAW_INLINE Ints AddPairs(Ints sum, Ints halves) {
    return AddHalfProducts(sum, halves, _mm256_set1_epi16(1));
  }

  // sum + the products of both halves of the words.
  THAW_INLINE Ints AddHalfProducts(Ints sum, Ints a, Ints b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
  // sum + x * scale, both of which fit 16 bits, the scale with an upper half of 0.
  THAW_INLINE Ints AddScaled(Ints sum, Ints x, Ints scale) {
    return AddHalfProducts(sum, x, scale);
  }

  // Lines whose sums of two products fit 16 bits together: 2 * (2^bits - 1) * 127 each; of signed
  // bytes 2 * 128 * 127.
  template <int kBits>
  static constexpr int kLinesInHalf = kBits <= 4   ? 8
                                      : kBits == 5 ? 4
                                      : kBits == 6 ? 2
                                                   : 1;

  // init + the products of four bytes each of w[0..n) with the bytes of 4 n activations.
  template <int kBits, int n>
  THAW_INLINE Ints Dot(const Ints* w, const int8_t* a, Ints init) {
    return AddScaledDot<kBits, n>(init, w, a, _mm256_set1_epi16(1));
  }

  // sum + scale times those products, `scale` in both halves: the sums of two products meet it as
  // they are.
  template <int kBits, int n>
  THAW_INLINE Ints AddScaledDot(Ints sum, const Ints* w, const int8_t* a, Ints scale) {
    constexpr int kRun = kLinesInHalf<kBits> < n ? kLinesInHalf<kBits> : n;
#pragma GCC unroll 8
    for (int first = 0; first < n; first += kRun) {
      sum = AddHalfProducts(sum, DotRun<kBits, kRun>(w + first, a + 4 * first), scale);
    }
    return sum;
  }

  // Sums of two products of every line, as many lines as they fit 16 bits for.
  template <int kBits, int n>
  THAW_INLINE Ints DotRun(const Ints* w, const int8_t* a) {
    Ints halves = Multiply<kBits>(w[0], BroadcastFour(a));
#pragma GCC unroll 8
    for (int j = 1; j < n; ++j) AddHalves(halves, Multiply<kBits>(w[j], BroadcastFour(a + 4 * j)));
    return halves;
  }

  // Sums of two products. Weights of 8 bits are signed.
  template <int kBits>
  THAW_INLINE Ints Multiply(Ints w, Ints a) {
    if constexpr (kBits < 8) {
      return _mm256_maddubs_epi16(w, a);
    } else {
      return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    }
  }

  // Calls act(r, t, j, line, activations) for line j of n, every vector r of rows and every token
  // t. `w` holds line after line, `a` the activations of token after token, token_bytes apart: four
  // bytes meet each word of a line.
  template <int n, int kVectors, int kTokens, typename Act>
  THAW_INLINE void ForEachOfTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                                 int64_t token_bytes, const Act& act) {
#pragma GCC unroll 16
    for (int j = 0; j < n; ++j) {
      Ints line[kVectors];
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) line[r] = Load(w + j * line_bytes + r * 32);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const Ints broadcast = BroadcastFour(a + t * token_bytes + 4 * j);
#pragma GCC unroll 2
        for (int r = 0; r < kVectors; ++r) act(r, t, j, line[r], broadcast);
      }
    }
  }

  // Sums of two products of n lines of bytes. If kGoesOn they are added to `halves`.
  template <bool kGoesOn, int n, int kVectors, int kTokens>
  THAW_INLINE void HalvesOfTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                                int64_t token_bytes, Ints (&halves)[kVectors][kTokens]) {
    ForEachOfTile<n, kVectors, kTokens>(
        w, line_bytes, a, token_bytes, [&](int r, int t, int j, Ints line, Ints activations) {
          const Ints products = _mm256_maddubs_epi16(line, activations);
          if (kGoesOn || j != 0) {
            AddHalves(halves[r][t], products);
          } else {
            halves[r][t] = products;
          }
        });
  }

  // sums + scale(vector of rows) times the products of the four bytes of n lines. The sums of two
  // products of kRun lines meet the scale as they are; if kBegins they go on from
  // begin(token, run).
  template <int kRun, bool kBegins, int n, int kVectors, int kTokens, typename Begin,
            typename Scale>
  THAW_INLINE void AddScaledTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                                 int64_t token_bytes, const Begin& begin, const Scale& scale,
                                 Ints (&sums)[kVectors][kTokens]) {
#pragma GCC unroll 8
    for (int first = 0; first < n; first += kRun) {
      Ints halves[kVectors][kTokens];
      if constexpr (kBegins) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const Ints of_token = begin(t, first / kRun);
#pragma GCC unroll 2
          for (int r = 0; r < kVectors; ++r) halves[r][t] = of_token;
        }
      }
      HalvesOfTile<kBegins, kRun>(w + first * line_bytes, line_bytes, a + 4 * first, token_bytes,
                                  halves);
#pragma GCC unroll 2
      for (int r = 0; r < kVectors; ++r) {
        const Ints of_rows = scale(r);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          sums[r][t] = AddHalfProducts(sums[r][t], halves[r][t], of_rows);
        }
      }
    }
  }

  // Dot for a tile.
  template <int kBits, int n, int kVectors, int kTokens>
  THAW_INLINE void DotTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                           int64_t token_bytes, Ints (&sums)[kVectors][kTokens]) {
    static_assert(kBits < 8);
    constexpr int kRun = kLinesInHalf<kBits> < n ? kLinesInHalf<kBits> : n;
    AddScaledTile<kRun, false, n>(
        w, line_bytes, a, token_bytes, [](int, int) {}, [](int) { return _mm256_set1_epi16(1); },
        sums);
  }

  // A line of signed bytes as two lines of numbers of 16 bits: bytes 0 and 1 of every word, and
  // bytes 2 and 3.
  THAW_INLINE void WidenLine(Ints x, Ints (&lines)[2]) {
    const Ints low = ShuffleBytes(x, static_cast<int32_t>(0x01800080));
    const Ints high = ShuffleBytes(x, static_cast<int32_t>(0x03800280));
    lines[0] = ShiftRightSignedHalves<8>(low);
    lines[1] = ShiftRightSignedHalves<8>(high);
  }

  // n bytes, a multiple of 32, as numbers of 16 bits.
  THAW_INLINE void WidenBytes(const int8_t* from, int64_t n, int16_t* to) {
    for (int64_t i = 0; i < n; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepi8_epi16(bytes));
    }
  }

  // DotTile of numbers of 16 bits, two of each row in a line, with activations of 16 bits, `stride`
  // numbers from token to token: products of two fit 32 bits as they come, where sums of two
  // products of bytes do not fit 16.
  template <int n, int kVectors, int kTokens>
  THAW_INLINE void DotWidenedTile(const std::byte* w, int64_t line_bytes, const int16_t* a,
                                  int64_t stride, Ints (&sums)[kVectors][kTokens]) {
    ForEachOfTile<n, kVectors, kTokens>(
        w, line_bytes, reinterpret_cast<const int8_t*>(a), 2 * stride,
        [&](int r, int t, int /*j*/, Ints line, Ints activations) {
          sums[r][t] = AddHalfProducts(sums[r][t], line, activations);
          // As in AddHalves.
          asm("" : "+x"(sums[r][t]));
        });
  }
};

}  // namespace
}  // namespace thaw
