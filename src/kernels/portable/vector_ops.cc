#include <cmath>

#include "kernels/portable/portable.h"

namespace thaw::portable {
namespace {

float Xielu(const Activation& by, float x) {
  if (x > 0) return (by.alpha_p * x + by.beta) * x;
  const float bounded = x > by.epsilon ? by.epsilon : x;
  return by.alpha_n * (std::expm1(bounded) - x) + by.beta * x;
}

float Apply(const Activation& by, float x) {
  constexpr float kSlope = 0x1.988454p+0f;  // 2 sqrt(2 / pi)
  const float silu = x / (1.0f + std::exp(-x));
  switch (by.f) {
    case Nonlinearity::kSilu:
      return silu;
    case Nonlinearity::kBoundedSilu:
      return silu > by.bound ? by.bound : silu;
    case Nonlinearity::kXielu:
      return Xielu(by, x);
    case Nonlinearity::kGelu:
      return x / (1.0f + std::exp(-kSlope * (x + 0.044715f * x * x * x)));
    case Nonlinearity::kReluSquared:
      return x < 0 ? 0 : x * x;
    case Nonlinearity::kRelu:
      return x < 0 ? 0 : x;
    case Nonlinearity::kLogistic:
      return 1 / (1.0f + std::exp(-x));
    case Nonlinearity::kExp:
      return std::exp(x);
    case Nonlinearity::kSoftPlus:
      return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
    case Nonlinearity::kClampedSwish:
      break;
  }
  const float bounded = x > kSwishBound ? kSwishBound : x;
  return bounded / (1.0f + std::exp(-kSwishSlope * bounded));
}

// What f of a gate is multiplied with.
float Factor(const Activation& by, float up) {
  const auto within = [&](float bound) { return up < -bound ? -bound : (up > bound ? bound : up); };
  if (by.f == Nonlinearity::kClampedSwish) return within(kSwishBound) + 1;
  return by.f == Nonlinearity::kBoundedSilu ? within(by.bound) : up;
}

}  // namespace

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  double sum_of_squares = 0;
  for (int64_t i = 0; i < n; ++i) sum_of_squares += double{x[i]} * double{x[i]};
  const double mean = sum_of_squares / static_cast<double>(n);
  const auto scale = static_cast<float>(1.0 / std::sqrt(mean + double{epsilon}));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]};
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + double{epsilon});
  for (int64_t i = 0; i < n; ++i) {
    const auto normed = static_cast<float>((x[i] - mean) * scale);
    out[i] = normed * (weight == nullptr ? 1 : weight[i]) + (bias == nullptr ? 0 : bias[i]);
  }
}

void Activate(const Activation& by, const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = Apply(by, gate[i]) * (up == nullptr ? 1 : Factor(by, up[i]));
  }
}

void SoftCap(float* x, int64_t n, float cap) {
  for (int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing) {
  const int64_t pairs = rope_dim / 2;
  const int64_t pair_step = pairing == RopePairing::kAdjacent ? 2 : 1;
  const int64_t partner = pairing == RopePairing::kAdjacent ? 1 : pairs;
  for (int64_t head = 0; head < n_heads; ++head) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      float* x = heads + head * head_stride + pair * pair_step;
      const float cosine = cos_sin[pair];
      const float sine = cos_sin[pairs + pair];
      const float first = x[0];
      const float second = x[partner];
      x[0] = first * cosine - second * sine;
      x[partner] = first * sine + second * cosine;
    }
  }
}

}  // namespace thaw::portable
