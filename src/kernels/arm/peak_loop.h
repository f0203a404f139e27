// The loop of arm/peak_rate.h around one instruction: step(sum, a, b), sum + products of a and b.
// In an anonymous namespace, for the reason given in kernels/packed_formats.h.
#pragma once

#include <arm_neon.h>

#include "kernels/arm/peak_rate.h"

namespace thaw::arm {
namespace {

// The sums are variables of their own because compilers keep arrays that an asm statement touches
// in memory.
template <typename Step>
[[gnu::always_inline]] inline int32_t RunPeak(int64_t rounds, Step step) {
  static_assert(kVectorsPerRound == 16);
  const int8x16_t a = vdupq_n_s8(3);
  const int8x16_t b = vdupq_n_s8(-2);
  int32x4_t s0 = vdupq_n_s32(0);
  int32x4_t s1 = vdupq_n_s32(1);
  int32x4_t s2 = vdupq_n_s32(2);
  int32x4_t s3 = vdupq_n_s32(3);
  int32x4_t s4 = vdupq_n_s32(4);
  int32x4_t s5 = vdupq_n_s32(5);
  int32x4_t s6 = vdupq_n_s32(6);
  int32x4_t s7 = vdupq_n_s32(7);
  int32x4_t s8 = vdupq_n_s32(8);
  int32x4_t s9 = vdupq_n_s32(9);
  int32x4_t s10 = vdupq_n_s32(10);
  int32x4_t s11 = vdupq_n_s32(11);
  int32x4_t s12 = vdupq_n_s32(12);
  int32x4_t s13 = vdupq_n_s32(13);
  int32x4_t s14 = vdupq_n_s32(14);
  int32x4_t s15 = vdupq_n_s32(15);
  for (int64_t round = 0; round < rounds; ++round) {
    s0 = step(s0, a, b);
    s1 = step(s1, a, b);
    s2 = step(s2, a, b);
    s3 = step(s3, a, b);
    s4 = step(s4, a, b);
    s5 = step(s5, a, b);
    s6 = step(s6, a, b);
    s7 = step(s7, a, b);
    s8 = step(s8, a, b);
    s9 = step(s9, a, b);
    s10 = step(s10, a, b);
    s11 = step(s11, a, b);
    s12 = step(s12, a, b);
    s13 = step(s13, a, b);
    s14 = step(s14, a, b);
    s15 = step(s15, a, b);
    // So that no two rounds become one.
    asm volatile(""
                 : "+w"(s0), "+w"(s1), "+w"(s2), "+w"(s3), "+w"(s4), "+w"(s5), "+w"(s6), "+w"(s7));
    asm volatile(""
                 : "+w"(s8), "+w"(s9), "+w"(s10), "+w"(s11), "+w"(s12), "+w"(s13), "+w"(s14),
                   "+w"(s15));
  }
  s0 = vaddq_s32(s0, s1);
  s2 = vaddq_s32(s2, s3);
  s4 = vaddq_s32(s4, s5);
  s6 = vaddq_s32(s6, s7);
  s8 = vaddq_s32(s8, s9);
  s10 = vaddq_s32(s10, s11);
  s12 = vaddq_s32(s12, s13);
  s14 = vaddq_s32(s14, s15);
  s0 = vaddq_s32(s0, s2);
  s4 = vaddq_s32(s4, s6);
  s8 = vaddq_s32(s8, s10);
  s12 = vaddq_s32(s12, s14);
  s0 = vaddq_s32(s0, s4);
  s8 = vaddq_s32(s8, s12);
  s0 = vaddq_s32(s0, s8);
  return vgetq_lane_s32(s0, 0);
}

}  // namespace
}  // namespace thaw::arm
