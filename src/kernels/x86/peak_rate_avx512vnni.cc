#include <immintrin.h>

#include "kernels/lines_in_turn.h"
#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/peak_rate.h"

namespace thaw::x86 {

// The sums are variables of their own because compilers keep arrays that an asm statement touches
// in memory.
int32_t RunPeakAvx512Vnni(int64_t rounds) {
  static_assert(kVnniVectorsPerRound == 12);
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(-2);
  __m512i s0 = _mm512_set1_epi32(0);
  __m512i s1 = _mm512_set1_epi32(1);
  __m512i s2 = _mm512_set1_epi32(2);
  __m512i s3 = _mm512_set1_epi32(3);
  __m512i s4 = _mm512_set1_epi32(4);
  __m512i s5 = _mm512_set1_epi32(5);
  __m512i s6 = _mm512_set1_epi32(6);
  __m512i s7 = _mm512_set1_epi32(7);
  __m512i s8 = _mm512_set1_epi32(8);
  __m512i s9 = _mm512_set1_epi32(9);
  __m512i s10 = _mm512_set1_epi32(10);
  __m512i s11 = _mm512_set1_epi32(11);
  for (int64_t round = 0; round < rounds; ++round) {
    s0 = _mm512_dpbusd_epi32(s0, a, b);
    s1 = _mm512_dpbusd_epi32(s1, a, b);
    s2 = _mm512_dpbusd_epi32(s2, a, b);
    s3 = _mm512_dpbusd_epi32(s3, a, b);
    s4 = _mm512_dpbusd_epi32(s4, a, b);
    s5 = _mm512_dpbusd_epi32(s5, a, b);
    s6 = _mm512_dpbusd_epi32(s6, a, b);
    s7 = _mm512_dpbusd_epi32(s7, a, b);
    s8 = _mm512_dpbusd_epi32(s8, a, b);
    s9 = _mm512_dpbusd_epi32(s9, a, b);
    s10 = _mm512_dpbusd_epi32(s10, a, b);
    s11 = _mm512_dpbusd_epi32(s11, a, b);
    // So that no two rounds become one.
    asm volatile(""
                 : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7),
                   "+v"(s8), "+v"(s9), "+v"(s10), "+v"(s11));
  }
  s0 = _mm512_add_epi32(s0, s1);
  s2 = _mm512_add_epi32(s2, s3);
  s4 = _mm512_add_epi32(s4, s5);
  s6 = _mm512_add_epi32(s6, s7);
  s8 = _mm512_add_epi32(s8, s9);
  s10 = _mm512_add_epi32(s10, s11);
  s0 = _mm512_add_epi32(s0, s2);
  s4 = _mm512_add_epi32(s4, s6);
  s8 = _mm512_add_epi32(s8, s10);
  s0 = _mm512_add_epi32(s0, s4);
  s0 = _mm512_add_epi32(s0, s8);
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, s0);
  return lanes[0];
}

uint64_t SumWordsAvx512(const std::byte* p, size_t bytes) {
  __m512i sums[4];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const bool asks_in_turn = kAsksInTurn;
  for (const std::byte* end = p + bytes; p != end; p += kReadRunBytes) {
    if (asks_in_turn) AskInTurn<kReadRunBytes>(p);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(p + 64 * i));
    }
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  uint64_t total = 0;
  for (const uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace thaw::x86
