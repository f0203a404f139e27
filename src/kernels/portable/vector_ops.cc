#include <cmath>

#include "kernels/portable/portable.h"

namespace thaw::portable {

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  double sum_of_squares = 0;
  for (int64_t i = 0; i < n; ++i) sum_of_squares += double{x[i]} * double{x[i]};
  const double mean = sum_of_squares / static_cast<double>(n);
  const auto scale = static_cast<float>(1.0 / std::sqrt(mean + double{epsilon}));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void SiluMultiply(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
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
