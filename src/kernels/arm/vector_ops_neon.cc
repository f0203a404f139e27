// Element-wise kernels in NEON.
#include "kernels/arm/int8_block_neon.h"
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/kernel_table.h"
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

// x / (1 + e^-y)
float32x4_t TimesLogistic(float32x4_t x, float32x4_t y) {
  return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), Exp(vnegq_f32(y))));
}

// As in x86/vector_ops_avx2.cc.
float32x4_t SoftPlus(float32x4_t x) {
  const float32x4_t t = Exp(vnegq_f32(vabsq_f32(x)));
  const float32x4_t s = vdivq_f32(t, vaddq_f32(t, vdupq_n_f32(2.0f)));
  const float32x4_t square = vmulq_f32(s, s);
  float32x4_t p = vdupq_n_f32(2.0f / 13);
  p = vfmaq_f32(vdupq_n_f32(2.0f / 11), p, square);
  p = vfmaq_f32(vdupq_n_f32(2.0f / 9), p, square);
  p = vfmaq_f32(vdupq_n_f32(2.0f / 7), p, square);
  p = vfmaq_f32(vdupq_n_f32(2.0f / 5), p, square);
  p = vfmaq_f32(vdupq_n_f32(2.0f / 3), p, square);
  p = vfmaq_f32(vdupq_n_f32(2.0f), p, square);
  return vfmaq_f32(vmaxq_f32(vdupq_n_f32(0), x), p, s);
}

template <Nonlinearity f>
float32x4_t Apply(const Activation& by, float32x4_t x) {
  if constexpr (f == Nonlinearity::kSilu) {
    return TimesLogistic(x, x);
  } else if constexpr (f == Nonlinearity::kGelu) {
    const float32x4_t cube = vmulq_f32(vmulq_f32(x, x), x);
    const float32x4_t u = vfmaq_f32(x, vdupq_n_f32(0.044715f), cube);
    return TimesLogistic(x, vmulq_n_f32(u, 0x1.988454p+0f));  // 2 sqrt(2 / pi)
  } else if constexpr (f == Nonlinearity::kLogistic) {
    return TimesLogistic(vdupq_n_f32(1.0f), x);
  } else if constexpr (f == Nonlinearity::kExp) {
    return Exp(x);
  } else if constexpr (f == Nonlinearity::kSoftPlus) {
    return SoftPlus(x);
  } else if constexpr (f == Nonlinearity::kClampedSwish) {
    const float32x4_t bounded = vminq_f32(vdupq_n_f32(kSwishBound), x);
    return TimesLogistic(bounded, vmulq_n_f32(bounded, kSwishSlope));
  } else if constexpr (f == Nonlinearity::kBoundedSilu) {
    return vminq_f32(vdupq_n_f32(by.bound), TimesLogistic(x, x));
  } else if constexpr (f == Nonlinearity::kXielu) {
    const float32x4_t beta = vdupq_n_f32(by.beta);
    const float32x4_t above = vmulq_f32(vfmaq_n_f32(beta, x, by.alpha_p), x);
    const float32x4_t power = Exp(vminq_f32(vdupq_n_f32(by.epsilon), x));
    const float32x4_t rest = vsubq_f32(vsubq_f32(power, vdupq_n_f32(1.0f)), x);
    const float32x4_t below = vfmaq_n_f32(vmulq_f32(beta, x), rest, by.alpha_n);
    return vbslq_f32(vcgtq_f32(x, vdupq_n_f32(0)), above, below);
  } else {
    const float32x4_t positive = vmaxq_f32(vdupq_n_f32(0), x);
    return f == Nonlinearity::kRelu ? positive : vmulq_f32(positive, positive);
  }
}

// What f of a gate is multiplied with.
template <Nonlinearity f>
float32x4_t Factor(const Activation& by, float32x4_t up) {
  constexpr bool kClamps = f == Nonlinearity::kClampedSwish;
  if constexpr (!kClamps && f != Nonlinearity::kBoundedSilu) return up;
  const float bound = kClamps ? kSwishBound : by.bound;
  const float32x4_t above = vmaxq_f32(vdupq_n_f32(-bound), up);
  const float32x4_t within = vminq_f32(vdupq_n_f32(bound), above);
  return kClamps ? vaddq_f32(within, vdupq_n_f32(1.0f)) : within;
}

template <Nonlinearity f>
void ActivateBy(const Activation& by, const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const float32x4_t x = Apply<f>(by, vld1q_f32(gate + i));
    vst1q_f32(out + i, up == nullptr ? x : vmulq_f32(x, Factor<f>(by, vld1q_f32(up + i))));
  }
  if (i == n) return;
  const float32x4_t x = Apply<f>(by, LoadFirst(gate + i, n - i));
  StoreFirst(out + i, up == nullptr ? x : vmulq_f32(x, Factor<f>(by, LoadFirst(up + i, n - i))),
             n - i);
}

// The sum of (x[i] - center)^2, or of x[i], in eight vectors, so that the latency of fma is hidden,
// and 32 short chains of rounding.
template <bool kSquares>
float SumAround(const float* x, int64_t n, float center) {
  const float32x4_t centers = vdupq_n_f32(center);
  float32x4_t sums[8];
  for (float32x4_t& sum : sums) sum = vdupq_n_f32(0);
  const auto add = [](float32x4_t v, float32x4_t& sum) {
    sum = kSquares ? vfmaq_f32(sum, v, v) : vaddq_f32(sum, v);
  };
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) add(vsubq_f32(vld1q_f32(x + i + 4 * j), centers), sums[j]);
  }
  for (; i + 4 <= n; i += 4) add(vsubq_f32(vld1q_f32(x + i), centers), sums[0]);
  if (i < n) {
    const float32x4_t rest = vsubq_f32(LoadFirst(x + i, n - i), centers);
    const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(rest), FirstLanes(n - i));
    add(vreinterpretq_f32_u32(bits), sums[0]);
  }
  for (int width = 4; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) sums[j] = vaddq_f32(sums[j], sums[j + width]);
  }
  return SumOfLanes(sums[0]);
}

float ReciprocalRoot(float x) { return 1.0f / vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

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

// `n` columns of a state, the first at `first`: whole vectors, or the rest of one alone.
template <int kVectors, bool kHasProbe, bool kFadesEach>
void StepColumns(const StateStep& s, int64_t first, int64_t n) {
  const auto load = [&](const float* from) { return n < 4 ? LoadFirst(from, n) : vld1q_f32(from); };
  const auto store = [&](float* to, float32x4_t v) {
    if (n < 4) {
      StoreFirst(to, v, n);
    } else {
      vst1q_f32(to, v);
    }
  };
  float32x4_t probed[kVectors];
  float32x4_t read[kVectors];
  float32x4_t value[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    probed[i] = vdupq_n_f32(0);
    read[i] = vdupq_n_f32(0);
    value[i] = load(s.value + first + 4 * i);
  }
  if constexpr (kHasProbe) {
    for (int64_t k = 0; k < s.keys; ++k) {
      const float* before = s.before + k * s.stride + first;
      for (int i = 0; i < kVectors; ++i) {
        probed[i] = vfmaq_n_f32(probed[i], load(before + 4 * i), s.probe[k]);
      }
    }
  }
  for (int64_t k = 0; k < s.keys; ++k) {
    const float* before = s.before + k * s.stride + first;
    float* after = s.after + k * s.stride + first;
    for (int i = 0; i < kVectors; ++i) {
      const float32x4_t decay =
          kFadesEach ? load(s.decay + k * s.decay_stride + first + 4 * i) : vdupq_n_f32(s.decay[k]);
      float32x4_t x = vfmaq_f32(vmulq_n_f32(value[i], s.key[k]), decay, load(before + 4 * i));
      if (kHasProbe) x = vfmaq_n_f32(x, probed[i], s.correction[k]);
      store(after + 4 * i, x);
      read[i] = vfmaq_n_f32(read[i], x, s.query[k]);
    }
  }
  for (int i = 0; i < kVectors; ++i) store(s.out + first + 4 * i, read[i]);
}

template <bool kHasProbe, bool kFadesEach>
void StepBy(const StateStep& s) {
  int64_t first = 0;
  for (; first + 16 <= s.values; first += 16) {
    StepColumns<4, kHasProbe, kFadesEach>(s, first, 16);
  }
  for (; first < s.values; first += 4) {
    StepColumns<1, kHasProbe, kFadesEach>(s, first, s.values - first);
  }
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  const float mean = SumAround<true>(x, n, 0) / static_cast<float>(n);
  const float scale = ReciprocalRoot(mean + epsilon);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), scale), vld1q_f32(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out) {
  const float mean = SumAround<false>(x, n, 0) / static_cast<float>(n);
  const float scale = ReciprocalRoot(SumAround<true>(x, n, mean) / static_cast<float>(n) + epsilon);
  const auto norm = [&](float32x4_t v, float32x4_t w, float32x4_t b) {
    return vfmaq_f32(b, vmulq_n_f32(vsubq_f32(v, vdupq_n_f32(mean)), scale), w);
  };
  const float32x4_t one = vdupq_n_f32(1);
  const float32x4_t zero = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    vst1q_f32(out + i, norm(vld1q_f32(x + i), weight ? vld1q_f32(weight + i) : one,
                            bias ? vld1q_f32(bias + i) : zero));
  }
  if (i == n) return;
  const int64_t rest = n - i;
  StoreFirst(out + i,
             norm(LoadFirst(x + i, rest), weight ? LoadFirst(weight + i, rest) : one,
                  bias ? LoadFirst(bias + i, rest) : zero),
             rest);
}

void Activate(const Activation& by, const float* gate, const float* up, int64_t n, float* out) {
  switch (by.f) {
    case Nonlinearity::kSilu:
      return ActivateBy<Nonlinearity::kSilu>(by, gate, up, n, out);
    case Nonlinearity::kGelu:
      return ActivateBy<Nonlinearity::kGelu>(by, gate, up, n, out);
    case Nonlinearity::kReluSquared:
      return ActivateBy<Nonlinearity::kReluSquared>(by, gate, up, n, out);
    case Nonlinearity::kRelu:
      return ActivateBy<Nonlinearity::kRelu>(by, gate, up, n, out);
    case Nonlinearity::kClampedSwish:
      return ActivateBy<Nonlinearity::kClampedSwish>(by, gate, up, n, out);
    case Nonlinearity::kLogistic:
      return ActivateBy<Nonlinearity::kLogistic>(by, gate, up, n, out);
    case Nonlinearity::kExp:
      return ActivateBy<Nonlinearity::kExp>(by, gate, up, n, out);
    case Nonlinearity::kSoftPlus:
      return ActivateBy<Nonlinearity::kSoftPlus>(by, gate, up, n, out);
    case Nonlinearity::kBoundedSilu:
      return ActivateBy<Nonlinearity::kBoundedSilu>(by, gate, up, n, out);
    case Nonlinearity::kXielu:
      return ActivateBy<Nonlinearity::kXielu>(by, gate, up, n, out);
  }
}

void SoftCap(float* x, int64_t n, float cap) {
  // tanh(y) = (1 - e^-2y) / (1 + e^-2y); beyond the range of Exp it is 1 or -1 all the same.
  const float32x4_t one = vdupq_n_f32(1.0f);
  const auto capped = [&](float32x4_t v) {
    const float32x4_t e = Exp(vmulq_n_f32(v, -2.0f / cap));
    return vmulq_n_f32(vdivq_f32(vsubq_f32(one, e), vaddq_f32(one, e)), cap);
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(x + i, capped(vld1q_f32(x + i)));
  if (i == n) return;
  StoreFirst(x + i, capped(LoadFirst(x + i, n - i)), n - i);
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

void StepState(const StateStep& s) {
  const bool fades_each = s.decay_stride != 0;
  if (s.probe != nullptr) return fades_each ? StepBy<true, true>(s) : StepBy<true, false>(s);
  return fades_each ? StepBy<false, true>(s) : StepBy<false, false>(s);
}

}  // namespace thaw::neon
