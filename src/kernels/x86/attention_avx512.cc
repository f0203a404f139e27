// Attention over a KV cache in AVX-512. See avx512.h for what may be called here.
#include "kernels/attention_tile.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/vector_avx512.h"

namespace thaw::avx512 {
namespace {

struct AttentionVectors : Vectors {
  // 8 x 1 scores: one conversion for all rows of a group of 8, and enough chains to hide the
  // latency of an fma. 4 x 4 sums: whole rows of values in the order of memory; 8 x 2, which take
  // every other cache line first, came at three quarters of the rate.
  static constexpr int kKeyRows = 8;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;
  // 6 x 4 sums, 4 vectors of the panel and a factor: 29 of 32 registers, 24 fma for 10 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 4;

  static constexpr int kPairRows = 6;
  static constexpr int kPairVectors = 4;

  using Ints = __m512i;
  static __m512i ZeroInts() { return _mm512_setzero_si512(); }
  static __m512i LoadInts(const int16_t* from) { return _mm512_loadu_si512(from); }
  static void StoreInts(int16_t* to, __m512i v) { _mm512_storeu_si512(to, v); }
  static __m512i WidenPairs(const std::byte* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static __m512i SetPair(const int16_t* from) {
    int32_t pair;
    __builtin_memcpy(&pair, from, sizeof(pair));
    return _mm512_set1_epi32(pair);
  }
  static __m512i AddProducts(__m512i sum, __m512i a, __m512i b) {
    sum = _mm512_dpwssd_epi32(sum, a, b);
    // Or GCC 12 copies sums, and keeps some in memory.
    asm("" : "+v"(sum));
    return sum;
  }
  // As integers: a NaN is above all others.
  static __m512 MaxOrNan(__m512 a, __m512 b) {
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static float LargestOrNan(__m512 v) {
    return __builtin_bit_cast(float, _mm512_reduce_max_epu32(_mm512_castps_si512(v)));
  }
  static __m512 ToFloats(__m512i v) { return _mm512_cvtepi32_ps(v); }
  static void StoreShorts(int16_t* to, __m512 a, __m512 b) {
    const __m256i first = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a));
    const __m256i second = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), first);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kLanes), second);
  }

  static constexpr bool kMultipliesHalves = true;
  static __m512i LargerMagnitudes(__m512i most, const std::byte* from) {
    return LargerMagnitudes(most, _mm512_loadu_si512(from));
  }
  static __m512i LargerMagnitudesOfFirst(__m512i most, const std::byte* from, int64_t n) {
    return LargerMagnitudes(most, _mm512_maskz_loadu_epi16((__mmask32{1} << n) - 1, from));
  }
  static __m512i LargestByLane(__m512i most) {
    return _mm512_cvtepu16_epi32(
        _mm256_max_epu16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1)));
  }
  static __m512i LargestOfEach(const __m512i (&rows)[16]) {
    // Of four rows a dword in each quarter of a vector; then the quarters.
    __m512i fours[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i* r = rows + 4 * i;
      const __m512i ab =
          _mm512_max_epu16(_mm512_unpacklo_epi32(r[0], r[1]), _mm512_unpackhi_epi32(r[0], r[1]));
      const __m512i cd =
          _mm512_max_epu16(_mm512_unpacklo_epi32(r[2], r[3]), _mm512_unpackhi_epi32(r[2], r[3]));
      fours[i] = _mm512_max_epu16(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    }
    const __m512i low = LargerQuarters<0x44, 0xee>(fours[0], fours[1]);
    const __m512i high = LargerQuarters<0x44, 0xee>(fours[2], fours[3]);
    const __m512i pairs = LargerQuarters<0x88, 0xdd>(low, high);
    return _mm512_max_epi32(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff)),
                            _mm512_srli_epi32(pairs, 16));
  }
  static __m512 PowerToAdd(__m512i magnitudes) {
    const __m512i bits = _mm512_add_epi32(Exponents(magnitudes), _mm512_set1_epi32(121 << 23));
    return _mm512_castsi512_ps(_mm512_or_si512(bits, _mm512_set1_epi32(1 << 22)));
  }
  static __m512 PowerOf(__m512i magnitudes) {
    const __m512i bits = _mm512_add_epi32(Exponents(magnitudes), _mm512_set1_epi32(98 << 23));
    const __mmask16 is_finite = _mm512_cmplt_epi32_mask(magnitudes, _mm512_set1_epi32(0x7c00));
    return _mm512_castsi512_ps(
        _mm512_mask_blend_epi32(is_finite, _mm512_set1_epi32(0x7fc00000), bits));
  }
  static __m512i FixedPairs(const std::byte* a, __m512 add_a, const std::byte* b, __m512 add_b) {
    const __m512i first = _mm512_castps_si512(_mm512_add_ps(LoadF16(a), add_a));
    const __m512i second = _mm512_castps_si512(_mm512_add_ps(LoadF16(b), add_b));
    return _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16));
  }

  static int64_t AheadBytes(int64_t /*block_bytes*/) { return attention_tile::kLeadBytes; }
  // Of memory that is read for the powers of float16 before it is multiplied, the next block.
  static void PrefetchBlock(const std::byte* at) { asm volatile("prefetcht1 %0" ::"m"(*at)); }
  // GCC 12 leaves _mm_prefetch out of loops over integers.
  static void Prefetch(const std::byte* at) { asm volatile("prefetcht0 %0" ::"m"(*at)); }

 private:
  static __m512i LargerMagnitudes(__m512i most, __m512i halves) {
    return _mm512_max_epu16(most, _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
  }
  template <int kFirst, int kSecond>
  static __m512i LargerQuarters(__m512i a, __m512i b) {
    return _mm512_max_epu16(_mm512_shuffle_i32x4(a, b, kFirst),
                            _mm512_shuffle_i32x4(a, b, kSecond));
  }
  // In place of a float's; that of numbers below the smallest normal one is 1.
  static __m512i Exponents(__m512i magnitudes) {
    const __m512i exponents = _mm512_srli_epi32(magnitudes, 10);
    return _mm512_slli_epi32(_mm512_max_epi32(exponents, _mm512_set1_epi32(1)), 23);
  }
};

}  // namespace

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx512
