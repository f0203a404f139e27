// Vectors of 4 floats (kernels/vector_math.h) for the *_neon.cc files alone.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thaw::neon {
namespace {

struct Vectors {
  using Type = float32x4_t;
  static constexpr int64_t kLanes = 4;

  static Type Zero() { return vdupq_n_f32(0); }
  static Type Set(float x) { return vdupq_n_f32(x); }
  static Type Load(const float* from) { return vld1q_f32(from); }
  static void Store(float* to, Type v) { vst1q_f32(to, v); }

  static Type LoadFirst(const float* from, int64_t n) {
    float buffer[4] = {};
    std::memcpy(buffer, from, static_cast<size_t>(n) * 4);
    return vld1q_f32(buffer);
  }
  static void StoreFirst(float* to, Type v, int64_t n) {
    float buffer[4];
    vst1q_f32(buffer, v);
    std::memcpy(to, buffer, static_cast<size_t>(n) * 4);
  }
  static Type KeepFirst(int64_t n, Type v, Type other) {
    const int32x4_t lane = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(lane, vdupq_n_s32(static_cast<int32_t>(n < 4 ? n : 4))), v, other);
  }

  static Type Add(Type a, Type b) { return vaddq_f32(a, b); }
  static Type Sub(Type a, Type b) { return vsubq_f32(a, b); }
  static Type Mul(Type a, Type b) { return vmulq_f32(a, b); }
  static Type Div(Type a, Type b) { return vdivq_f32(a, b); }
  static Type Negate(Type v) { return vnegq_f32(v); }
  static Type Abs(Type v) { return vabsq_f32(v); }
  static Type Round(Type v) { return vrndnq_f32(v); }
  static Type Fma(Type a, Type b, Type c) { return vfmaq_f32(c, a, b); }
  static Type Fms(Type a, Type b, Type c) { return vfmaq_f32(vnegq_f32(c), a, b); }
  static Type Fnma(Type a, Type b, Type c) { return vfmsq_f32(c, a, b); }
  static Type Min(Type a, Type b) { return vminq_f32(a, b); }
  static Type Max(Type a, Type b) { return vmaxq_f32(a, b); }
  static Type WherePositive(Type x, Type a, Type b) {
    return vbslq_f32(vcgtq_f32(x, vdupq_n_f32(0)), a, b);
  }
  static Type Scale(Type x, Type n) {
    const int32x4_t exponent = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x), exponent));
  }

  static float SumOfLanes(Type v) {
    const float32x2_t sum = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(sum, 0) + vget_lane_f32(sum, 1);
  }
  static float LargestLane(Type v) { return vmaxvq_f32(v); }
  static float SquareRoot(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

  static void LoadPairs(const float* from, Type& first, Type& second) {
    const float32x4x2_t pairs = vld2q_f32(from);
    first = pairs.val[0];
    second = pairs.val[1];
  }
  static void StorePairs(float* to, Type first, Type second) {
    vst2q_f32(to, float32x4x2_t{{first, second}});
  }

  static Type LoadF16(const std::byte* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(Load16(from)));
  }
  static Type LoadBF16(const std::byte* from) {
    return vreinterpretq_f32_u32(vshll_n_u16(Load16(from), 16));
  }
  static void StoreF16(std::byte* to, Type v) {
    vst1_u8(reinterpret_cast<uint8_t*>(to), vreinterpret_u8_f16(vcvt_f16_f32(v)));
  }

 private:
  static uint16x4_t Load16(const std::byte* from) {
    return vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from)));
  }
};

}  // namespace
}  // namespace thaw::neon
