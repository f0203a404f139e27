// The element-wise entries of KernelTable, of the same names, for vectors V (kernels/vector_math.h)
// of any width. Sums are made of 32 chains, which are added in the same order whatever the width,
// so that all widths give the same bits.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"

namespace thaw {
namespace {

template <typename V>
class VectorOps {
 public:
  static void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
    const float mean = SumAround<true>(x, n, 0) / static_cast<float>(n);
    const Type scale = V::Set(1.0f / V::SquareRoot(mean + epsilon));
    ForEachVector(n, out, [&](const auto& load, int64_t i) {
      return V::Mul(V::Mul(load(x + i), scale), load(weight + i));
    });
  }

  static void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n,
                        float epsilon, float* out) {
    const float mean = SumAround<false>(x, n, 0) / static_cast<float>(n);
    const float variance = SumAround<true>(x, n, mean) / static_cast<float>(n);
    const Type scale = V::Set(1.0f / V::SquareRoot(variance + epsilon));
    ForEachVector(n, out, [&](const auto& load, int64_t i) {
      return V::Fma(V::Mul(V::Sub(load(x + i), V::Set(mean)), scale),
                    weight == nullptr ? V::Set(1) : load(weight + i),
                    bias == nullptr ? V::Zero() : load(bias + i));
    });
  }

  static void Activate(const Activation& by, const float* gate, const float* up, int64_t n,
                       float* out) {
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

  // tanh(y) = (1 - e^-2y) / (1 + e^-2y); beyond the range of Exp it is 1 or -1 all the same.
  static void SoftCap(float* x, int64_t n, float cap) {
    const Type one = V::Set(1.0f);
    ForEachVector(n, x, [&](const auto& load, int64_t i) {
      const Type e = Exp<V>(V::Mul(load(x + i), V::Set(-2.0f / cap)));
      return V::Mul(V::Set(cap), V::Div(V::Sub(one, e), V::Add(one, e)));
    });
  }

  static void Add(const float* a, const float* b, int64_t n, float* out) {
    ForEachVector(n, out,
                  [&](const auto& load, int64_t i) { return V::Add(load(a + i), load(b + i)); });
  }

  static void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
                   int64_t rope_dim, RopePairing pairing) {
    const int64_t pairs = rope_dim / 2;
    for (int64_t head = 0; head < n_heads; ++head) {
      float* x = heads + head * head_stride;
      if (pairing == RopePairing::kAdjacent) {
        TurnAdjacent(x, cos_sin, cos_sin + pairs, pairs);
      } else {
        TurnHalves(x, cos_sin, cos_sin + pairs, pairs);
      }
    }
  }

  static void StepState(const StateStep& s) {
    const bool fades_each = s.decay_stride != 0;
    if (s.probe != nullptr) return fades_each ? StepBy<true, true>(s) : StepBy<true, false>(s);
    return fades_each ? StepBy<false, true>(s) : StepBy<false, false>(s);
  }

 private:
  using Type = typename V::Type;
  static constexpr int64_t kLanes = V::kLanes;

  // out[i] = compute(load, i), kLanes numbers at a time; `load` reads as many as are left.
  template <typename Compute>
  static void ForEachVector(int64_t n, float* out, const Compute& compute) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::Store(out + i, compute(V::Load, i));
    if (i == n) return;
    const auto load = [&](const float* from) { return V::LoadFirst(from, n - i); };
    V::StoreFirst(out + i, compute(load, i), n - i);
  }

  // The sum of (x[i] - center)^2, or of x[i], by 32 chains.
  template <bool kSquares>
  static float SumAround(const float* x, int64_t n, float center) {
    constexpr int kVectors = 32 / kLanes;
    const Type centers = V::Set(center);
    Type sums[kVectors];
#pragma GCC unroll 8
    for (Type& sum : sums) sum = V::Zero();
    const auto add = [](Type v, Type& sum) { sum = kSquares ? V::Fma(v, v, sum) : V::Add(v, sum); };
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        add(V::Sub(V::Load(x + i + j * kLanes), centers), sums[j]);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j, i += kLanes) {
      if (i >= n) break;
      const Type rest = V::Sub(LoadUpTo<V>(x + i, n - i), centers);
      add(V::KeepFirst(n - i, rest, V::Zero()), sums[j]);
    }
    float chains[32];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) V::Store(chains + j * kLanes, sums[j]);
    return SumOfChains(chains);
  }

  static float SumOfChains(const float (&x)[32]) {
    float eights[8];
    for (int i = 0; i < 8; ++i) eights[i] = (x[i] + x[i + 8]) + (x[i + 16] + x[i + 24]);
    float fours[4];
    for (int i = 0; i < 4; ++i) fours[i] = eights[i] + eights[i + 4];
    return (fours[0] + fours[2]) + (fours[1] + fours[3]);
  }

  // x / (1 + e^-y)
  static Type TimesLogistic(Type x, Type y) {
    return V::Div(x, V::Add(V::Set(1.0f), Exp<V>(V::Negate(y))));
  }

  // max(x, 0) + ln(1 + t), t = e^-|x|. ln(1 + t) = 2 artanh(s), s = t / (2 + t): with s at most 1/3
  // the series to s^13 leaves 3^-14 / 15 = 1.4e-8 of it.
  static Type SoftPlus(Type x) {
    const Type t = Exp<V>(V::Negate(V::Abs(x)));
    const Type s = V::Div(t, V::Add(t, V::Set(2.0f)));
    const Type series = Polynomial<V>(
        V::Mul(s, s), {2.0f / 13, 2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3, 2.0f});
    return V::Fma(series, s, V::Max(V::Zero(), x));
  }

  template <Nonlinearity f>
  static Type Apply(const Activation& by, Type x) {
    if constexpr (f == Nonlinearity::kSilu) {
      return TimesLogistic(x, x);
    } else if constexpr (f == Nonlinearity::kLogistic) {
      return TimesLogistic(V::Set(1.0f), x);
    } else if constexpr (f == Nonlinearity::kExp) {
      return Exp<V>(x);
    } else if constexpr (f == Nonlinearity::kSoftPlus) {
      return SoftPlus(x);
    } else if constexpr (f == Nonlinearity::kGelu) {
      const Type cube = V::Mul(V::Mul(x, x), x);
      const Type u = V::Fma(V::Set(0.044715f), cube, x);
      return TimesLogistic(x, V::Mul(V::Set(0x1.988454p+0f), u));  // 2 sqrt(2 / pi)
    } else if constexpr (f == Nonlinearity::kClampedSwish) {
      const Type bounded = V::Min(V::Set(kSwishBound), x);
      return TimesLogistic(bounded, V::Mul(V::Set(kSwishSlope), bounded));
    } else if constexpr (f == Nonlinearity::kBoundedSilu) {
      return V::Min(V::Set(by.bound), TimesLogistic(x, x));
    } else if constexpr (f == Nonlinearity::kXielu) {
      const Type beta = V::Set(by.beta);
      const Type above = V::Mul(V::Fma(V::Set(by.alpha_p), x, beta), x);
      const Type power = Exp<V>(V::Min(V::Set(by.epsilon), x));
      const Type rest = V::Sub(V::Sub(power, V::Set(1.0f)), x);
      return V::WherePositive(x, above, V::Fma(V::Set(by.alpha_n), rest, V::Mul(beta, x)));
    } else {
      const Type positive = V::Max(V::Zero(), x);
      return f == Nonlinearity::kRelu ? positive : V::Mul(positive, positive);
    }
  }

  // What f of a gate is multiplied with.
  template <Nonlinearity f>
  static Type Factor(const Activation& by, Type up) {
    constexpr bool kClamps = f == Nonlinearity::kClampedSwish;
    if constexpr (!kClamps && f != Nonlinearity::kBoundedSilu) return up;
    const float bound = kClamps ? kSwishBound : by.bound;
    const Type within = V::Min(V::Set(bound), V::Max(V::Set(-bound), up));
    return kClamps ? V::Add(within, V::Set(1.0f)) : within;
  }

  template <Nonlinearity f>
  static void ActivateBy(const Activation& by, const float* gate, const float* up, int64_t n,
                         float* out) {
    ForEachVector(n, out, [&](const auto& load, int64_t i) {
      const Type x = Apply<f>(by, load(gate + i));
      return up == nullptr ? x : V::Mul(x, Factor<f>(by, load(up + i)));
    });
  }

  // Pairs (first, second) turned: first c - second s, second c + first s.
  static void Turn(Type& first, Type& second, Type c, Type s) {
    const Type turned = V::Fms(first, c, V::Mul(second, s));
    second = V::Fma(second, c, V::Mul(first, s));
    first = turned;
  }

  static void TurnAdjacent(float* x, const float* cosines, const float* sines, int64_t pairs) {
    Type first, second;
    int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      V::LoadPairs(x + 2 * i, first, second);
      Turn(first, second, V::Load(cosines + i), V::Load(sines + i));
      V::StorePairs(x + 2 * i, first, second);
    }
    if (i == pairs) return;
    const int64_t rest = pairs - i;
    float buffer[2 * kLanes] = {};
    for (int64_t j = 0; j < 2 * rest; ++j) buffer[j] = x[2 * i + j];
    V::LoadPairs(buffer, first, second);
    Turn(first, second, V::LoadFirst(cosines + i, rest), V::LoadFirst(sines + i, rest));
    V::StorePairs(buffer, first, second);
    for (int64_t j = 0; j < 2 * rest; ++j) x[2 * i + j] = buffer[j];
  }

  static void TurnHalves(float* x, const float* cosines, const float* sines, int64_t pairs) {
    float* y = x + pairs;
    int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      Type first = V::Load(x + i);
      Type second = V::Load(y + i);
      Turn(first, second, V::Load(cosines + i), V::Load(sines + i));
      V::Store(x + i, first);
      V::Store(y + i, second);
    }
    if (i == pairs) return;
    const int64_t rest = pairs - i;
    Type first = V::LoadFirst(x + i, rest);
    Type second = V::LoadFirst(y + i, rest);
    Turn(first, second, V::LoadFirst(cosines + i, rest), V::LoadFirst(sines + i, rest));
    V::StoreFirst(x + i, first, rest);
    V::StoreFirst(y + i, second, rest);
  }

  // `n` columns of a state, the first at `first`: kVectors whole vectors, or a part of a single
  // one.
  template <int kVectors, bool kHasProbe, bool kFadesEach>
  static void StepColumns(const StateStep& s, int64_t first, int64_t n) {
    const auto load = [&](const float* from) {
      return kVectors == 1 ? LoadUpTo<V>(from, n) : V::Load(from);
    };
    const auto store = [&](float* to, Type v) {
      if (kVectors == 1 && n < kLanes) {
        V::StoreFirst(to, v, n);
      } else {
        V::Store(to, v);
      }
    };
    Type probed[kVectors];
    Type read[kVectors];
    Type value[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      probed[i] = V::Zero();
      read[i] = V::Zero();
      value[i] = load(s.value + first + i * kLanes);
    }
    if constexpr (kHasProbe) {
      for (int64_t k = 0; k < s.keys; ++k) {
        const Type factor = V::Set(s.probe[k]);
        const float* before = s.before + k * s.stride + first;
        for (int i = 0; i < kVectors; ++i) {
          probed[i] = V::Fma(factor, load(before + i * kLanes), probed[i]);
        }
      }
    }
    for (int64_t k = 0; k < s.keys; ++k) {
      const float* before = s.before + k * s.stride + first;
      float* after = s.after + k * s.stride + first;
      const Type key = V::Set(s.key[k]);
      const Type query = V::Set(s.query[k]);
      for (int i = 0; i < kVectors; ++i) {
        const Type decay = kFadesEach ? load(s.decay + k * s.decay_stride + first + i * kLanes)
                                      : V::Set(s.decay[k]);
        Type x = V::Fma(decay, load(before + i * kLanes), V::Mul(key, value[i]));
        if (kHasProbe) x = V::Fma(V::Set(s.correction[k]), probed[i], x);
        store(after + i * kLanes, x);
        read[i] = V::Fma(query, x, read[i]);
      }
    }
    for (int i = 0; i < kVectors; ++i) store(s.out + first + i * kLanes, read[i]);
  }

  template <bool kHasProbe, bool kFadesEach>
  static void StepBy(const StateStep& s) {
    constexpr int64_t kColumns = 4 * kLanes;
    int64_t first = 0;
    for (; first + kColumns <= s.values; first += kColumns) {
      StepColumns<4, kHasProbe, kFadesEach>(s, first, kColumns);
    }
    for (; first < s.values; first += kLanes) {
      StepColumns<1, kHasProbe, kFadesEach>(s, first, s.values - first);
    }
  }
};

}  // namespace
}  // namespace thaw
