// The Blocks of kernels/quantize_tokens.h in NEON, for the *_neon.cc files alone.
#pragma once

#include <arm_neon.h>

#include <bit>
#include <cstdint>

#include "kernels/activations.h"

namespace thaw::neon {
namespace {

struct Blocks {
  struct Step {
    float32x4_t v[8];
  };

  static Step Load(const float* values) {
    Step step;
    for (int i = 0; i < 8; ++i) step.v[i] = vld1q_f32(values + 4 * i);
    return step;
  }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    uint32x4_t largest = vdupq_n_u32(0);
    for (const Step& step : steps) {
      for (const float32x4_t values : step.v) {
        largest = vmaxq_u32(largest, vreinterpretq_u32_f32(vabsq_f32(values)));
      }
    }
    return std::bit_cast<float>(vmaxvq_u32(largest));
  }

  static uint32_t SquaresAbove(const Step& step, float limit) {
    uint32_t above = 0;
    for (int i = 0; i < 8; ++i) {
      const uint32x4_t is_above = vcgtq_f32(vmulq_f32(step.v[i], step.v[i]), vdupq_n_f32(limit));
      above |= vaddvq_u32(vandq_u32(is_above, BitsOfLanes())) << (4 * i);
    }
    return above;
  }

  static Step ZeroWhere(Step step, uint32_t bits) {
    for (int i = 0; i < 8; ++i) {
      const uint32x4_t is_set = vtstq_u32(vdupq_n_u32(bits >> (4 * i)), BitsOfLanes());
      const uint32x4_t kept = vbicq_u32(vreinterpretq_u32_f32(step.v[i]), is_set);
      step.v[i] = vreinterpretq_f32_u32(kept);
    }
    return step;
  }

  template <int n>
  static void Quantize(const Step (&steps)[n], float factor, int8_t* quants,
                       int32_t (&sums)[2 * n]) {
    for (int half = 0; half < 2 * n; ++half) {
      int32x4_t q[4];
      for (int i = 0; i < 4; ++i) {
        q[i] = vcvtnq_s32_f32(vmulq_n_f32(steps[half / 2].v[half % 2 * 4 + i], factor));
      }
      sums[half] = vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
      const int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
      const int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
      vst1q_s8(quants + kActivationSum * half, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    }
  }

  static void CorrectPairs(const int8_t* quants, int16_t* of_eights, int16_t* of_sixteens) {
    const auto add_neighbours = [](int16x8_t a, int16x8_t b) {
      const uint32x4_t first = vreinterpretq_u32_s16(a);
      const uint32x4_t second = vreinterpretq_u32_s16(b);
      return vaddq_s16(vreinterpretq_s16_u32(vuzp1q_u32(first, second)),
                       vreinterpretq_s16_u32(vuzp2q_u32(first, second)));
    };
    const int16x8_t sums =
        add_neighbours(vpaddlq_s8(vld1q_s8(quants)), vpaddlq_s8(vld1q_s8(quants + 16)));
    const int16x8_t eights = vmulq_n_s16(sums, -kPairUnit);
    vst1q_s16(of_eights, eights);
    if (of_sixteens != nullptr) vst1_s16(of_sixteens, vget_low_s16(add_neighbours(eights, eights)));
  }

  static int32_t MostOfSums(const int8_t* quants, int64_t n) {
    int32_t most = 0;
    for (int64_t i = 0; i < n; i += kActivationSum) {
      const int32_t sum = vaddlvq_u8(vreinterpretq_u8_s8(vabsq_s8(vld1q_s8(quants + i))));
      most = sum > most ? sum : most;
    }
    return most;
  }

 private:
  static uint32x4_t BitsOfLanes() {
    const uint32_t bits[4] = {1, 2, 4, 8};
    return vld1q_u32(bits);
  }
};

}  // namespace
}  // namespace thaw::neon
