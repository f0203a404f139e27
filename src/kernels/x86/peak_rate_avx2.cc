#include <immintrin.h>

#include "kernels/lines_in_turn.h"
#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/peak_rate.h"

namespace thaw::x86 {
namespace {

inline __m256i AddProducts(__m256i sum, __m256i& a, __m256i b, __m256i ones) {
  asm volatile("" : "+x"(a));  // as if it were another one, so that each product is made
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
}

}  // namespace

// The sums are variables of their own because compilers keep arrays that an asm statement touches
// in memory.
int32_t RunPeakAvx2(int64_t rounds) {
  static_assert(kAvx2VectorsPerRound == 8);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-2);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i s0 = _mm256_set1_epi32(0);
  __m256i s1 = _mm256_set1_epi32(1);
  __m256i s2 = _mm256_set1_epi32(2);
  __m256i s3 = _mm256_set1_epi32(3);
  __m256i s4 = _mm256_set1_epi32(4);
  __m256i s5 = _mm256_set1_epi32(5);
  __m256i s6 = _mm256_set1_epi32(6);
  __m256i s7 = _mm256_set1_epi32(7);
  for (int64_t round = 0; round < rounds; ++round) {
    s0 = AddProducts(s0, a, b, ones);
    s1 = AddProducts(s1, a, b, ones);
    s2 = AddProducts(s2, a, b, ones);
    s3 = AddProducts(s3, a, b, ones);
    s4 = AddProducts(s4, a, b, ones);
    s5 = AddProducts(s5, a, b, ones);
    s6 = AddProducts(s6, a, b, ones);
    s7 = AddProducts(s7, a, b, ones);
    // So that no two rounds become one.
    asm volatile(""
                 : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3), "+x"(s4), "+x"(s5), "+x"(s6), "+x"(s7));
  }
  s0 = _mm256_add_epi32(s0, s1);
  s2 = _mm256_add_epi32(s2, s3);
  s4 = _mm256_add_epi32(s4, s5);
  s6 = _mm256_add_epi32(s6, s7);
  s0 = _mm256_add_epi32(s0, s2);
  s4 = _mm256_add_epi32(s4, s6);
  s0 = _mm256_add_epi32(s0, s4);
  return _mm_cvtsi128_si32(_mm256_castsi256_si128(s0));
}

uint64_t SumWordsAvx2(const std::byte* p, size_t bytes) {
  __m256i sums[8] = {};
  const bool asks_in_turn = kAsksInTurn;
  for (const std::byte* end = p + bytes; p != end; p += kReadRunBytes) {
    if (asks_in_turn) AskInTurn<kReadRunBytes>(p);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const auto* words = reinterpret_cast<const __m256i*>(p + 32 * i);
      sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(words));
    }
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm256_add_epi64(sums[0], sums[i]);
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace thaw::x86
