#include "kernels/activations.h"

namespace thaw {
namespace {

// Each part begins at a cache line of its own.
constexpr int64_t kPartAlignment = 64;

int64_t AlignedBytes(int64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

// Of one number, of four bytes, for each `per` values.
int64_t TermBytes(int64_t n_tokens, int64_t k, int64_t per) {
  return AlignedBytes(n_tokens * (k / per) * int64_t{sizeof(float)});
}

int64_t QuantBytes(int64_t n_tokens, int64_t k) { return AlignedBytes(n_tokens * k); }

int64_t OutlierBytes(int64_t n_tokens, int64_t k) {
  return AlignedBytes(n_tokens * MaxOutliers(k) * int64_t{sizeof(Outlier)});
}

int64_t OutlierCountBytes(int64_t n_tokens) {
  return AlignedBytes(n_tokens * int64_t{sizeof(int32_t)});
}

}  // namespace

int64_t ActivationBytes(int64_t n_tokens, int64_t k) {
  if (k % kActivationBlock != 0) return 0;
  return QuantBytes(n_tokens, k) + 3 * TermBytes(n_tokens, k, kActivationBlock) +
         2 * TermBytes(n_tokens, k, kActivationSum) + OutlierBytes(n_tokens, k) +
         OutlierCountBytes(n_tokens);
}

Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory) {
  Activations activations{.values = values, .n_tokens = n_tokens, .k = k};
  if (k % kActivationBlock != 0) return activations;
  const auto take = [&memory]<typename T>(T*& part, int64_t bytes) {
    part = reinterpret_cast<T*>(memory);
    memory += bytes;
  };
  take(activations.quants, QuantBytes(n_tokens, k));
  take(activations.scales, TermBytes(n_tokens, k, kActivationBlock));
  take(activations.sums, TermBytes(n_tokens, k, kActivationSum));
  take(activations.block_sums, TermBytes(n_tokens, k, kActivationBlock));
  take(activations.corrections, TermBytes(n_tokens, k, kActivationSum));
  take(activations.block_corrections, TermBytes(n_tokens, k, kActivationBlock));
  take(activations.outliers, OutlierBytes(n_tokens, k));
  take(activations.outlier_counts, OutlierCountBytes(n_tokens));
  return activations;
}

}  // namespace thaw
