// Small helpers on 4-float vectors for the *_neon.cc files alone.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thaw::neon {

// Lane i all ones where i < n.
inline uint32x4_t FirstLanes(int64_t n) {
  const int32x4_t lane = {0, 1, 2, 3};
  return vcltq_s32(lane, vdupq_n_s32(static_cast<int32_t>(n < 4 ? n : 4)));
}

// The first n < 4 floats at p, the other lanes 0; nothing behind them is read.
inline float32x4_t LoadFirst(const float* p, int64_t n) {
  float buffer[4] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * 4);
  return vld1q_f32(buffer);
}

// Writes the first n < 4 lanes to p, and nothing behind them.
inline void StoreFirst(float* p, float32x4_t v, int64_t n) {
  float buffer[4];
  vst1q_f32(buffer, v);
  std::memcpy(p, buffer, static_cast<size_t>(n) * 4);
}

// Four numbers of 16 bits.
inline uint16x4_t Load16(const std::byte* p) {
  return vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p)));
}

// The same of which only the first n < 4 are read; the others are 0.
inline uint16x4_t LoadFirst16(const std::byte* p, int64_t n) {
  std::byte buffer[8] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * 2);
  return Load16(buffer);
}

inline float32x4_t WidenF16(uint16x4_t halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

inline float32x4_t WidenBF16(uint16x4_t halves) {
  return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

// The sum of the four lanes, always in this order: halves, then neighbours.
inline float SumOfLanes(float32x4_t v) {
  const float32x2_t sum = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(sum, 0) + vget_lane_f32(sum, 1);
}

// p times 2^n, n whole numbers, where the product is a normal number.
inline float32x4_t Scale(float32x4_t p, float32x4_t n) {
  const int32x4_t exponent = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
}

// e^x, with the error, the ends and the derivation of Exp in x86/vector_avx2.h.
inline float32x4_t Exp(float32x4_t x) {
  x = vminq_f32(vdupq_n_f32(88.0f), vmaxq_f32(vdupq_n_f32(-87.0f), x));
  const float32x4_t n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(0x1.715476p+0f)));
  float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e4p-1f));
  r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
  float32x4_t p = vdupq_n_f32(1.0f / 5040);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 720), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 120), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 24), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 6), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 2), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  return Scale(p, n);
}

// 2^x for x <= 0, likewise as Exp2 there.
inline float32x4_t Exp2(float32x4_t x) {
  x = vmaxq_f32(vdupq_n_f32(-126.0f), x);
  const float32x4_t n = vrndnq_f32(x);
  const float32x4_t r = vsubq_f32(x, n);
  float32x4_t p = vdupq_n_f32(0x1.ffcbfcp-17f);
  p = vfmaq_f32(vdupq_n_f32(0x1.430912p-13f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.5d87fep-10f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.3b2ab6p-7f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.c6b08ep-5f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.ebfbep-3f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.62e43p-1f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  return Scale(p, n);
}

}  // namespace thaw::neon
