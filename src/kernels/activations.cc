#include "kernels/activations.h"

namespace thaw {
namespace {

// Each part begins at a cache line of its own.
constexpr int64_t kPartAlignment = 64;

int64_t AlignedBytes(int64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

int64_t QuantBytes(int64_t n_tokens, int64_t k) { return AlignedBytes(n_tokens * k); }

int64_t ScaleBytes(int64_t n_tokens, int64_t k) {
  return AlignedBytes(n_tokens * (k / kActivationBlock) * int64_t{sizeof(float)});
}

int64_t SumBytes(int64_t n_tokens, int64_t k) {
  return AlignedBytes(n_tokens * (k / kActivationSum) * int64_t{sizeof(float)});
}

}  // namespace

int64_t ActivationBytes(int64_t n_tokens, int64_t k) {
  if (k % kActivationBlock != 0) return 0;
  return QuantBytes(n_tokens, k) + ScaleBytes(n_tokens, k) + SumBytes(n_tokens, k);
}

Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory) {
  Activations activations{.values = values, .n_tokens = n_tokens, .k = k};
  if (k % kActivationBlock != 0) return activations;
  activations.quants = reinterpret_cast<int8_t*>(memory);
  memory += QuantBytes(n_tokens, k);
  activations.scales = reinterpret_cast<float*>(memory);
  memory += ScaleBytes(n_tokens, k);
  activations.sums = reinterpret_cast<float*>(memory);
  return activations;
}

}  // namespace thaw
