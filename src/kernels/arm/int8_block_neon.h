// Steps of turning a block of 32 floats into int8 with one scale, the same bits as those of
// kernels/portable/int8_block.h, for the *_neon.cc files alone.
#pragma once

#include "kernels/arm/vector_neon.h"

namespace thaw::neon {

constexpr float kLargestFinite = 0x1.fffffep127f;

struct FloatBlock {
  float32x4_t v[8];
};

struct IntegerBlock {
  int32x4_t v[8];
};

inline FloatBlock LoadBlock(const float* values) {
  FloatBlock block;
  for (int i = 0; i < 8; ++i) block.v[i] = vld1q_f32(values + 4 * i);
  return block;
}

// Of n blocks. By the order of the bits, as integers: a NaN beats everything.
inline float LargestMagnitude(const FloatBlock* blocks, int n) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (int i = 0; i < n; ++i) {
    for (const float32x4_t values : blocks[i].v) {
      largest = vmaxq_u32(largest, vreinterpretq_u32_f32(vabsq_f32(values)));
    }
  }
  const uint32_t bits = vmaxvq_u32(largest);
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof(magnitude));
  return magnitude;
}

// The block times `factor`, rounded half to even.
inline IntegerBlock RoundProducts(const FloatBlock& block, float factor) {
  IntegerBlock rounded;
  for (int i = 0; i < 8; ++i) rounded.v[i] = vcvtnq_s32_f32(vmulq_n_f32(block.v[i], factor));
  return rounded;
}

// 32 integers within +-127, in order.
inline void StoreBytes(const IntegerBlock& q, int8_t* out) {
  for (int i = 0; i < 8; i += 4) {
    const int16x8_t low = vcombine_s16(vmovn_s32(q.v[i]), vmovn_s32(q.v[i + 1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(q.v[i + 2]), vmovn_s32(q.v[i + 3]));
    vst1q_s8(out + 4 * i, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
}

}  // namespace thaw::neon
