#include <immintrin.h>

#include "kernels/x86/peak_rate.h"

namespace thaw::x86 {

// The sums are variables of their own because compilers keep arrays that an asm statement touches
// in memory.
int32_t RunPeakAvxVnni(int64_t rounds) {
  static_assert(kVnniVectorsPerRound == 12);
  const __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-2);
  __m256i s0 = _mm256_set1_epi32(0);
  __m256i s1 = _mm256_set1_epi32(1);
  __m256i s2 = _mm256_set1_epi32(2);
  __m256i s3 = _mm256_set1_epi32(3);
  __m256i s4 = _mm256_set1_epi32(4);
  __m256i s5 = _mm256_set1_epi32(5);
  __m256i s6 = _mm256_set1_epi32(6);
  __m256i s7 = _mm256_set1_epi32(7);
  __m256i s8 = _mm256_set1_epi32(8);
  __m256i s9 = _mm256_set1_epi32(9);
  __m256i s10 = _mm256_set1_epi32(10);
  __m256i s11 = _mm256_set1_epi32(11);
  for (int64_t round = 0; round < rounds; ++round) {
    s0 = _mm256_dpbusd_avx_epi32(s0, a, b);
    s1 = _mm256_dpbusd_avx_epi32(s1, a, b);
    s2 = _mm256_dpbusd_avx_epi32(s2, a, b);
    s3 = _mm256_dpbusd_avx_epi32(s3, a, b);
    s4 = _mm256_dpbusd_avx_epi32(s4, a, b);
    s5 = _mm256_dpbusd_avx_epi32(s5, a, b);
    s6 = _mm256_dpbusd_avx_epi32(s6, a, b);
    s7 = _mm256_dpbusd_avx_epi32(s7, a, b);
    s8 = _mm256_dpbusd_avx_epi32(s8, a, b);
    s9 = _mm256_dpbusd_avx_epi32(s9, a, b);
    s10 = _mm256_dpbusd_avx_epi32(s10, a, b);
    s11 = _mm256_dpbusd_avx_epi32(s11, a, b);
    // So that no two rounds become one.
    asm volatile(""
                 : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3), "+x"(s4), "+x"(s5), "+x"(s6), "+x"(s7),
                   "+x"(s8), "+x"(s9), "+x"(s10), "+x"(s11));
  }
  s0 = _mm256_add_epi32(s0, s1);
  s2 = _mm256_add_epi32(s2, s3);
  s4 = _mm256_add_epi32(s4, s5);
  s6 = _mm256_add_epi32(s6, s7);
  s8 = _mm256_add_epi32(s8, s9);
  s10 = _mm256_add_epi32(s10, s11);
  s0 = _mm256_add_epi32(s0, s2);
  s4 = _mm256_add_epi32(s4, s6);
  s8 = _mm256_add_epi32(s8, s10);
  s0 = _mm256_add_epi32(s0, s4);
  s0 = _mm256_add_epi32(s0, s8);
  return _mm_cvtsi128_si32(_mm256_castsi256_si128(s0));
}

}  // namespace thaw::x86
