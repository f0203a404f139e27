#include "kernels/activations.h"

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"

namespace thaw {
namespace {

// Each part begins at a cache line of its own.
constexpr int64_t kPartAlignment = 64;

int64_t AlignedBytes(int64_t bytes) { return RoundUp(bytes, kPartAlignment); }

// Of n numbers of four bytes.
int64_t TermBytes(int64_t n) { return AlignedBytes(n * int64_t{sizeof(float)}); }

// Of n numbers of two bytes.
int64_t HalfBytes(int64_t n) { return AlignedBytes(n * int64_t{sizeof(int16_t)}); }

int64_t OutlierBytes(int64_t n_tokens, int64_t k) {
  return AlignedBytes(n_tokens * MaxOutliers(k) * int64_t{sizeof(Outlier)});
}

int64_t RoundedBytes(int64_t n_tokens, int64_t k) {
  return n_tokens * RoundedStride(k) * int64_t{sizeof(uint16_t)};
}

int64_t QuantizedBytes(int64_t n_tokens, int64_t k) {
  return n_tokens * QuantStride(k) + TermBytes(n_tokens * ActivationBlocks(k)) +
         2 * TermBytes(n_tokens * (k / kActivationSum)) +
         3 * TermBytes(n_tokens * (k / kActivationStep)) +
         HalfBytes(n_tokens * (k / kActivationSum)) + HalfBytes(n_tokens * (k / kActivationStep)) +
         HalfBytes(n_tokens * (k / 4)) + HalfBytes(n_tokens * (k / 8)) + OutlierBytes(n_tokens, k) +
         TermBytes(n_tokens * OutlierSegments(k));
}

}  // namespace

ActivationCopy FastestCopy(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return ActivationCopy::kNone;
    case ElementType::kF16:
      return ActivationCopy::kSplit;
    case ElementType::kBF16:
      return ActivationCopy::kRounded;
    case ElementType::kQ2_K:
    case ElementType::kQ3_K:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kQ6_K:
      return ActivationCopy::kWide;
    default:
      return ActivationCopy::kNarrow;
  }
}

int64_t ActivationBytes(int64_t n_tokens, int64_t k, bool may_be_split) {
  if (k % kActivationStep != 0) return 0;
  return std::max((may_be_split ? 2 : 1) * RoundedBytes(n_tokens, k), QuantizedBytes(n_tokens, k));
}

Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory,
                            ActivationCopy copy) {
  THAW_CHECK(copy != ActivationCopy::kWide || k % kWideActivationBlock == 0);
  if (k % kActivationStep != 0) copy = ActivationCopy::kNone;
  Activations activations{.values = values, .n_tokens = n_tokens, .k = k, .copy = copy};
  if (copy == ActivationCopy::kNone) return activations;
  const auto take = [&memory]<typename T>(T*& part, int64_t bytes) {
    part = reinterpret_cast<T*>(memory);
    memory += bytes;
  };
  if (copy == ActivationCopy::kRounded || copy == ActivationCopy::kSplit) {
    take(activations.rounded, RoundedBytes(n_tokens, k));
    if (copy == ActivationCopy::kSplit) take(activations.residues, RoundedBytes(n_tokens, k));
    return activations;
  }
  take(activations.quants, n_tokens * QuantStride(k));
  take(activations.scales, TermBytes(n_tokens * ActivationBlocks(k)));
  take(activations.sums, TermBytes(n_tokens * (k / kActivationSum)));
  take(activations.step_sums, TermBytes(n_tokens * (k / kActivationStep)));
  take(activations.half_sums, HalfBytes(n_tokens * (k / kActivationSum)));
  take(activations.half_step_sums, HalfBytes(n_tokens * (k / kActivationStep)));
  take(activations.corrections, TermBytes(n_tokens * (k / kActivationSum)));
  take(activations.step_corrections, TermBytes(n_tokens * (k / kActivationStep)));
  take(activations.second_corrections, TermBytes(n_tokens * (k / kActivationStep)));
  take(activations.pair_corrections, HalfBytes(n_tokens * (k / 4)));
  take(activations.wide_pair_corrections, HalfBytes(n_tokens * (k / 8)));
  take(activations.outliers, OutlierBytes(n_tokens, k));
  take(activations.outlier_ends, TermBytes(n_tokens * OutlierSegments(k)));
  return activations;
}

Activations TokensOf(const Activations& all, int64_t first, int64_t count) {
  const int64_t k = all.k;
  Activations some = all;
  some.n_tokens = count;
  some.values += first * k;
  if (all.rounded != nullptr) some.rounded += first * RoundedStride(k);
  if (all.residues != nullptr) some.residues += first * RoundedStride(k);
  if (all.quants == nullptr) return some;
  some.quants += first * QuantStride(k);
  some.scales += first * ActivationBlocks(k);
  some.sums += first * (k / kActivationSum);
  some.step_sums += first * (k / kActivationStep);
  some.half_sums += first * (k / kActivationSum);
  some.half_step_sums += first * (k / kActivationStep);
  some.corrections += first * (k / kActivationSum);
  some.step_corrections += first * (k / kActivationStep);
  some.second_corrections += first * (k / kActivationStep);
  some.pair_corrections += first * (k / 4);
  some.wide_pair_corrections += first * (k / 8);
  some.outliers += first * MaxOutliers(k);
  some.outlier_ends += first * OutlierSegments(k);
  return some;
}

}  // namespace thaw
