// Element-wise kernels in AVX2. See avx2.h for what may be called here.
#include "kernels/kernel_table.h"
#include "kernels/quantize_tokens.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// As in portable/quantize.cc.
struct Blocks {
  using Step = FloatBlock;

  static Step Load(const float* values) { return LoadBlock(values); }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    return avx2::LargestMagnitude(steps, n);
  }

  static uint32_t SquaresAbove(const Step& step, float limit) {
    uint32_t above = 0;
    for (int i = 0; i < 4; ++i) {
      const __m256 squares = _mm256_mul_ps(step.v[i], step.v[i]);
      const __m256 is_above = _mm256_cmp_ps(squares, _mm256_set1_ps(limit), _CMP_GT_OQ);
      above |= static_cast<uint32_t>(_mm256_movemask_ps(is_above)) << (8 * i);
    }
    return above;
  }

  static Step ZeroWhere(Step step, uint32_t bits) {
    const __m256i of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 4; ++i) {
      const __m256i of_vector = _mm256_set1_epi32(static_cast<int32_t>(bits >> (8 * i)));
      const __m256i is_set = _mm256_cmpeq_epi32(_mm256_and_si256(of_vector, of_lane), of_lane);
      step.v[i] = _mm256_andnot_ps(_mm256_castsi256_ps(is_set), step.v[i]);
    }
    return step;
  }

  template <int n>
  static void Quantize(const Step (&steps)[n], float factor, int8_t* quants,
                       int32_t (&sums)[2 * n]) {
    __m256i fours[2] = {};  // sums of four quants: the first half's in the lower lanes
    for (int i = 0; i < n; ++i) {
      const __m256i packed = PackToBytes(RoundProducts(steps[i], factor));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants + 32 * i), packed);
      const __m256i twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1), packed);
      fours[i] = _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
    }
    const __m256i eights = _mm256_hadd_epi32(fours[0], fours[1]);
    const __m256i halves = _mm256_hadd_epi32(eights, eights);
    const __m128i of_blocks =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    if constexpr (n == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), of_blocks);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), of_blocks);
    }
  }

  static int32_t MostOfSums(const int8_t* quants, int64_t n) {
    __m256i most = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 32) {
      const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(quants + i));
      const __m256i eights = _mm256_sad_epu8(_mm256_abs_epi8(q), _mm256_setzero_si256());
      const __m256i swapped = _mm256_shuffle_epi32(eights, 0x4e);
      most = _mm256_max_epi32(most, _mm256_add_epi32(eights, swapped));
    }
    const __m128i of_both =
        _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    return _mm_cvtsi128_si32(of_both);
  }
};

// x / (1 + e^-y)
__m256 TimesLogistic(__m256 x, __m256 y) {
  const __m256 negated = _mm256_xor_ps(y, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), Exp(negated)));
}

// max(x, 0) + ln(1 + t), t = e^-|x|. ln(1 + t) = 2 artanh(s), s = t / (2 + t): with s at most 1/3
// the series to s^13 leaves 3^-14 / 15 = 1.4e-8 of it.
__m256 SoftPlus(__m256 x) {
  const __m256 t = Exp(_mm256_or_ps(x, _mm256_set1_ps(-0.0f)));
  const __m256 s = _mm256_div_ps(t, _mm256_add_ps(t, _mm256_set1_ps(2.0f)));
  const __m256 square = _mm256_mul_ps(s, s);
  __m256 p = _mm256_set1_ps(2.0f / 13);
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 11));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 9));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 7));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 5));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 3));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f));
  return _mm256_fmadd_ps(p, s, _mm256_max_ps(_mm256_setzero_ps(), x));
}

template <Nonlinearity f>
__m256 Apply(const Activation& by, __m256 x) {
  if constexpr (f == Nonlinearity::kSilu) {
    return TimesLogistic(x, x);
  } else if constexpr (f == Nonlinearity::kLogistic) {
    return TimesLogistic(_mm256_set1_ps(1.0f), x);
  } else if constexpr (f == Nonlinearity::kExp) {
    return Exp(x);
  } else if constexpr (f == Nonlinearity::kSoftPlus) {
    return SoftPlus(x);
  } else if constexpr (f == Nonlinearity::kGelu) {
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
    const __m256 u = _mm256_fmadd_ps(_mm256_set1_ps(0.044715f), cube, x);
    return TimesLogistic(x, _mm256_mul_ps(_mm256_set1_ps(0x1.988454p+0f), u));  // 2 sqrt(2 / pi)
  } else if constexpr (f == Nonlinearity::kClampedSwish) {
    const __m256 bounded = _mm256_min_ps(_mm256_set1_ps(kSwishBound), x);
    return TimesLogistic(bounded, _mm256_mul_ps(_mm256_set1_ps(kSwishSlope), bounded));
  } else if constexpr (f == Nonlinearity::kBoundedSilu) {
    return _mm256_min_ps(_mm256_set1_ps(by.bound), TimesLogistic(x, x));
  } else if constexpr (f == Nonlinearity::kXielu) {
    const __m256 beta = _mm256_set1_ps(by.beta);
    const __m256 above = _mm256_mul_ps(_mm256_fmadd_ps(_mm256_set1_ps(by.alpha_p), x, beta), x);
    const __m256 power = Exp(_mm256_min_ps(_mm256_set1_ps(by.epsilon), x));
    const __m256 rest = _mm256_sub_ps(_mm256_sub_ps(power, _mm256_set1_ps(1.0f)), x);
    const __m256 below = _mm256_fmadd_ps(_mm256_set1_ps(by.alpha_n), rest, _mm256_mul_ps(beta, x));
    return _mm256_blendv_ps(below, above, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
  } else {
    const __m256 positive = _mm256_max_ps(_mm256_setzero_ps(), x);
    return f == Nonlinearity::kRelu ? positive : _mm256_mul_ps(positive, positive);
  }
}

// What f of a gate is multiplied with.
template <Nonlinearity f>
__m256 Factor(const Activation& by, __m256 up) {
  constexpr bool kClamps = f == Nonlinearity::kClampedSwish;
  if constexpr (!kClamps && f != Nonlinearity::kBoundedSilu) return up;
  const __m256 bound = _mm256_set1_ps(kClamps ? kSwishBound : by.bound);
  const __m256 above = _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), bound), up);
  const __m256 within = _mm256_min_ps(bound, above);
  return kClamps ? _mm256_add_ps(within, _mm256_set1_ps(1.0f)) : within;
}

template <Nonlinearity f>
void ActivateBy(const Activation& by, const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = Apply<f>(by, _mm256_loadu_ps(gate + i));
    _mm256_storeu_ps(out + i,
                     up == nullptr ? x : _mm256_mul_ps(x, Factor<f>(by, _mm256_loadu_ps(up + i))));
  }
  if (i == n) return;
  const __m256 x = Apply<f>(by, LoadFirst(gate + i, n - i));
  _mm256_maskstore_ps(
      out + i, FirstLanes(n - i),
      up == nullptr ? x : _mm256_mul_ps(x, Factor<f>(by, LoadFirst(up + i, n - i))));
}

// In four vectors, so that the latency of fma is hidden, and 32 short chains of rounding.
float SumOfVectors(const __m256 (&v)[4]) {
  return SumOfLanes(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), _mm256_add_ps(v[2], v[3])));
}

// The sum of (x[i] - center)^2, or of x[i].
template <bool kSquares>
float SumAround(const float* x, int64_t n, float center) {
  const __m256 centers = _mm256_set1_ps(center);
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps()};
  const auto add = [](__m256 v, __m256& sum) {
    sum = kSquares ? _mm256_fmadd_ps(v, v, sum) : _mm256_add_ps(v, sum);
  };
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int j = 0; j < 4; ++j) {
      add(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * j), centers), sums[j]);
    }
  }
  for (; i < n; i += 8) {
    const __m256 rest = _mm256_sub_ps(LoadFirst(x + i, n - i), centers);
    add(_mm256_and_ps(rest, _mm256_castsi256_ps(FirstLanes(n - i))), sums[0]);
  }
  return SumOfVectors(sums);
}

float ReciprocalRoot(float x) { return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Four adjacent pairs: even lanes x c - y s, odd lanes y c + x s.
__m256 TurnAdjacent(__m256 xy, __m128 cosines, __m128 sines) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(cosines), twice);
  const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(sines), twice);
  const __m256 yx = _mm256_permute_ps(xy, 0xb1);
  return _mm256_fmaddsub_ps(xy, c, _mm256_mul_ps(yx, s));
}

void RopeAdjacent(float* x, const float* cosines, const float* sines, int64_t pairs) {
  int64_t pair = 0;
  for (; pair + 4 <= pairs; pair += 4) {
    const __m256 turned = TurnAdjacent(_mm256_loadu_ps(x + 2 * pair), _mm_loadu_ps(cosines + pair),
                                       _mm_loadu_ps(sines + pair));
    _mm256_storeu_ps(x + 2 * pair, turned);
  }
  if (pair == pairs) return;
  const int64_t rest = pairs - pair;
  const __m256 turned = TurnAdjacent(LoadFirst(x + 2 * pair, 2 * rest),
                                     _mm256_castps256_ps128(LoadFirst(cosines + pair, rest)),
                                     _mm256_castps256_ps128(LoadFirst(sines + pair, rest)));
  _mm256_maskstore_ps(x + 2 * pair, FirstLanes(2 * rest), turned);
}

void RopeHalves(float* x, const float* cosines, const float* sines, int64_t pairs) {
  for (int64_t pair = 0; pair < pairs; pair += 8) {
    const __m256i mask = FirstLanes(pairs - pair);
    const __m256 c = _mm256_maskload_ps(cosines + pair, mask);
    const __m256 s = _mm256_maskload_ps(sines + pair, mask);
    const __m256 first = _mm256_maskload_ps(x + pair, mask);
    const __m256 second = _mm256_maskload_ps(x + pairs + pair, mask);
    _mm256_maskstore_ps(x + pair, mask, _mm256_fmsub_ps(first, c, _mm256_mul_ps(second, s)));
    _mm256_maskstore_ps(x + pairs + pair, mask,
                        _mm256_fmadd_ps(second, c, _mm256_mul_ps(first, s)));
  }
}

// `kVectors` vectors of columns of a state, the first at `first`; of a single one lanes beyond the
// values are not touched.
template <int kVectors, bool kHasProbe, bool kFadesEach>
void StepColumns(const StateStep& s, int64_t first) {
  const __m256i mask = FirstLanes(s.values - first);
  const auto load = [&](const float* from) {
    return kVectors == 1 ? _mm256_maskload_ps(from, mask) : _mm256_loadu_ps(from);
  };
  const auto store = [&](float* to, __m256 v) {
    if (kVectors == 1) {
      _mm256_maskstore_ps(to, mask, v);
    } else {
      _mm256_storeu_ps(to, v);
    }
  };
  __m256 probed[kVectors];
  __m256 read[kVectors];
  __m256 value[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    probed[i] = _mm256_setzero_ps();
    read[i] = _mm256_setzero_ps();
    value[i] = load(s.value + first + 8 * i);
  }
  if constexpr (kHasProbe) {
    for (int64_t k = 0; k < s.keys; ++k) {
      const __m256 factor = _mm256_set1_ps(s.probe[k]);
      const float* before = s.before + k * s.stride + first;
      for (int i = 0; i < kVectors; ++i) {
        probed[i] = _mm256_fmadd_ps(factor, load(before + 8 * i), probed[i]);
      }
    }
  }
  for (int64_t k = 0; k < s.keys; ++k) {
    const float* before = s.before + k * s.stride + first;
    float* after = s.after + k * s.stride + first;
    const __m256 key = _mm256_set1_ps(s.key[k]);
    const __m256 query = _mm256_set1_ps(s.query[k]);
    for (int i = 0; i < kVectors; ++i) {
      const __m256 decay = kFadesEach ? load(s.decay + k * s.decay_stride + first + 8 * i)
                                      : _mm256_set1_ps(s.decay[k]);
      __m256 x = _mm256_fmadd_ps(decay, load(before + 8 * i), _mm256_mul_ps(key, value[i]));
      if (kHasProbe) x = _mm256_fmadd_ps(_mm256_set1_ps(s.correction[k]), probed[i], x);
      store(after + 8 * i, x);
      read[i] = _mm256_fmadd_ps(query, x, read[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) store(s.out + first + 8 * i, read[i]);
}

template <bool kHasProbe, bool kFadesEach>
void StepBy(const StateStep& s) {
  int64_t first = 0;
  for (; first + 32 <= s.values; first += 32) StepColumns<4, kHasProbe, kFadesEach>(s, first);
  for (; first < s.values; first += 8) StepColumns<1, kHasProbe, kFadesEach>(s, first);
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  const float mean = SumAround<true>(x, n, 0) / static_cast<float>(n);
  const float scale = ReciprocalRoot(mean + epsilon);
  const __m256 scales = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), scales);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out) {
  const float mean = SumAround<false>(x, n, 0) / static_cast<float>(n);
  const float scale = ReciprocalRoot(SumAround<true>(x, n, mean) / static_cast<float>(n) + epsilon);
  const auto norm = [&](__m256 v, __m256 w, __m256 b) {
    const __m256 scaled =
        _mm256_mul_ps(_mm256_sub_ps(v, _mm256_set1_ps(mean)), _mm256_set1_ps(scale));
    return _mm256_fmadd_ps(scaled, w, b);
  };
  const __m256 one = _mm256_set1_ps(1);
  const __m256 zero = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i,
                     norm(_mm256_loadu_ps(x + i), weight ? _mm256_loadu_ps(weight + i) : one,
                          bias ? _mm256_loadu_ps(bias + i) : zero));
  }
  if (i == n) return;
  const int64_t rest = n - i;
  _mm256_maskstore_ps(out + i, FirstLanes(rest),
                      norm(LoadFirst(x + i, rest), weight ? LoadFirst(weight + i, rest) : one,
                           bias ? LoadFirst(bias + i, rest) : zero));
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
  const __m256 one = _mm256_set1_ps(1.0f);
  const auto capped = [&](__m256 v) {
    const __m256 e = Exp(_mm256_mul_ps(v, _mm256_set1_ps(-2.0f / cap)));
    const __m256 tanh = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    return _mm256_mul_ps(_mm256_set1_ps(cap), tanh);
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(x + i, capped(_mm256_loadu_ps(x + i)));
  if (i == n) return;
  _mm256_maskstore_ps(x + i, FirstLanes(n - i), capped(LoadFirst(x + i, n - i)));
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
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

}  // namespace thaw::avx2
