// Element-wise kernels in NEON.
#include "kernels/arm/int8_block_neon.h"
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/quantize_tokens.h"

namespace thaw::neon {
namespace {

// As in portable/quantize.cc.
struct Blocks {
  using Step = FloatBlock;

  static Step Load(const float* values) { return LoadBlock(values); }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    return neon::LargestMagnitude(steps, n);
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
    for (int i = 0; i < n; ++i) {
      const IntegerBlock q = RoundProducts(steps[i], factor);
      for (int half = 0; half < 2; ++half) {
        const int32x4_t* v = q.v + 4 * half;
        sums[2 * i + half] = vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3])));
      }
      StoreBytes(q, quants + kActivationStep * i);
    }
  }

 private:
  static uint32x4_t BitsOfLanes() {
    const uint32_t bits[4] = {1, 2, 4, 8};
    return vld1q_u32(bits);
  }
};

float32x4_t SiluTimes(float32x4_t gate, float32x4_t up) {
  const float32x4_t denominator = vaddq_f32(vdupq_n_f32(1.0f), Exp(vnegq_f32(gate)));
  return vmulq_f32(vdivq_f32(gate, denominator), up);
}

// Pairs (first, second) turned: first c - second s, second c + first s.
float32x4x2_t Turn(float32x4_t first, float32x4_t second, float32x4_t c, float32x4_t s) {
  return {{vfmaq_f32(vnegq_f32(vmulq_f32(second, s)), first, c),
           vfmaq_f32(vmulq_f32(first, s), second, c)}};
}

void RopeAdjacent(float* x, const float* cosines, const float* sines, int64_t pairs) {
  int64_t pair = 0;
  for (; pair + 4 <= pairs; pair += 4) {
    const float32x4x2_t xy = vld2q_f32(x + 2 * pair);
    const float32x4x2_t turned =
        Turn(xy.val[0], xy.val[1], vld1q_f32(cosines + pair), vld1q_f32(sines + pair));
    vst2q_f32(x + 2 * pair, turned);
  }
  if (pair == pairs) return;
  const int64_t rest = pairs - pair;
  float buffer[8] = {};
  std::memcpy(buffer, x + 2 * pair, static_cast<size_t>(rest) * 8);
  const float32x4x2_t xy = vld2q_f32(buffer);
  const float32x4x2_t turned =
      Turn(xy.val[0], xy.val[1], LoadFirst(cosines + pair, rest), LoadFirst(sines + pair, rest));
  vst2q_f32(buffer, turned);
  std::memcpy(x + 2 * pair, buffer, static_cast<size_t>(rest) * 8);
}

void RopeHalves(float* x, const float* cosines, const float* sines, int64_t pairs) {
  float* y = x + pairs;
  int64_t pair = 0;
  for (; pair + 4 <= pairs; pair += 4) {
    const float32x4x2_t turned = Turn(vld1q_f32(x + pair), vld1q_f32(y + pair),
                                      vld1q_f32(cosines + pair), vld1q_f32(sines + pair));
    vst1q_f32(x + pair, turned.val[0]);
    vst1q_f32(y + pair, turned.val[1]);
  }
  if (pair == pairs) return;
  const int64_t rest = pairs - pair;
  const float32x4x2_t turned = Turn(LoadFirst(x + pair, rest), LoadFirst(y + pair, rest),
                                    LoadFirst(cosines + pair, rest), LoadFirst(sines + pair, rest));
  StoreFirst(x + pair, turned.val[0], rest);
  StoreFirst(y + pair, turned.val[1], rest);
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  // Eight sums, so that the latency of fma is hidden, and 32 short chains of rounding.
  float32x4_t squares[8];
  for (float32x4_t& sum : squares) sum = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const float32x4_t v = vld1q_f32(x + i + 4 * j);
      squares[j] = vfmaq_f32(squares[j], v, v);
    }
  }
  for (; i + 4 <= n; i += 4) {
    const float32x4_t v = vld1q_f32(x + i);
    squares[0] = vfmaq_f32(squares[0], v, v);
  }
  if (i < n) {
    const float32x4_t v = LoadFirst(x + i, n - i);
    squares[0] = vfmaq_f32(squares[0], v, v);
  }
  for (int width = 4; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) squares[j] = vaddq_f32(squares[j], squares[j + width]);
  }
  const float mean = SumOfLanes(squares[0]) / static_cast<float>(n);
  const float root = vget_lane_f32(vsqrt_f32(vdup_n_f32(mean + epsilon)), 0);
  const float scale = 1.0f / root;
  for (i = 0; i + 4 <= n; i += 4) {
    vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), scale), vld1q_f32(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void SiluMultiply(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    vst1q_f32(out + i, SiluTimes(vld1q_f32(gate + i), vld1q_f32(up + i)));
  }
  if (i == n) return;
  StoreFirst(out + i, SiluTimes(LoadFirst(gate + i, n - i), LoadFirst(up + i, n - i)), n - i);
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(out + i, vaddq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
  for (; i < n; ++i) out[i] = a[i] + b[i];
}

void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing) {
  const int64_t pairs = rope_dim / 2;
  for (int64_t head = 0; head < n_heads; ++head) {
    float* x = heads + head * head_stride;
    if (pairing == RopePairing::kAdjacent) {
      RopeAdjacent(x, cos_sin, cos_sin + pairs, pairs);
    } else {
      RopeHalves(x, cos_sin, cos_sin + pairs, pairs);
    }
  }
}

}  // namespace thaw::neon
