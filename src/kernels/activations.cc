#include "kernels/activations.h"

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"

namespace thaw {
namespace {

// Each part begins at a cache line of its own.
constexpr int64_t kPartAlignment = 64;

// Calls visit(part, n) for each array of a copy, a member of Activations, in the order in which
// they lie: n is how many of its numbers a token of length k has.
template <typename Visit>
void ForEachPart(ActivationCopy copy, int64_t k, const Visit& visit) {
  if (copy == ActivationCopy::kNone) return;
  if (copy == ActivationCopy::kShorts) {
    visit(&Activations::shorts, RoundedStride(k));
    visit(&Activations::scales, ActivationBlocks(k));
    return;
  }
  if (copy == ActivationCopy::kRounded || copy == ActivationCopy::kSplit) {
    visit(&Activations::rounded, RoundedStride(k));
    if (copy == ActivationCopy::kSplit) visit(&Activations::residues, RoundedStride(k));
    return;
  }
  const int64_t n_sums = k / kActivationSum;
  const int64_t n_steps = k / kActivationStep;
  visit(&Activations::quants, QuantStride(k));
  visit(&Activations::scales, ActivationBlocks(k));
  visit(&Activations::sums, n_sums);
  visit(&Activations::step_sums, n_steps);
  visit(&Activations::half_sums, n_sums);
  visit(&Activations::half_step_sums, n_steps);
  visit(&Activations::corrections, n_sums);
  visit(&Activations::step_corrections, n_steps);
  visit(&Activations::second_corrections, n_steps);
  visit(&Activations::pair_corrections, k / 4);
  visit(&Activations::wide_pair_corrections, k / 8);
  visit(&Activations::outliers, MaxOutliers(k));
  visit(&Activations::outlier_ends, OutlierSegments(k));
}

// Of n numbers of a part.
template <typename T>
int64_t PartBytes(T* Activations::*, int64_t n) {
  return RoundUp(n * int64_t{sizeof(T)}, kPartAlignment);
}

int64_t CopyBytes(int64_t n_tokens, int64_t k, ActivationCopy copy) {
  int64_t bytes = 0;
  ForEachPart(copy, k, [&](auto part, int64_t n) { bytes += PartBytes(part, n_tokens * n); });
  return bytes;
}

}  // namespace

int64_t ActivationBytes(int64_t n_tokens, int64_t k, bool may_be_split) {
  if (k % kActivationStep != 0) return 0;
  const auto floats = may_be_split ? ActivationCopy::kSplit : ActivationCopy::kShorts;
  return std::max(CopyBytes(n_tokens, k, floats), CopyBytes(n_tokens, k, ActivationCopy::kNarrow));
}

Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory,
                            ActivationCopy copy) {
  THAW_CHECK(copy != ActivationCopy::kWide || k % kWideActivationBlock == 0);
  const int64_t unit = copy == ActivationCopy::kShorts ? kActivationBlock : kActivationStep;
  if (k % unit != 0) copy = ActivationCopy::kNone;
  Activations activations{.values = values, .n_tokens = n_tokens, .k = k, .copy = copy};
  ForEachPart(copy, k, [&]<typename T>(T* Activations::*part, int64_t n) {
    activations.*part = reinterpret_cast<T*>(memory);
    memory += PartBytes(part, n_tokens * n);
  });
  return activations;
}

Activations TokensOf(const Activations& all, int64_t first, int64_t count) {
  Activations some = all;
  some.n_tokens = count;
  if (all.values != nullptr) some.values += first * all.k;
  ForEachPart(all.copy, all.k, [&](auto part, int64_t n) { some.*part += first * n; });
  return some;
}

void CopyToken(const Activations& from, int64_t from_token, const Activations& to,
               int64_t to_token) {
  THAW_CHECK(from.copy == to.copy && from.k == to.k);
  ForEachPart(from.copy, from.k, [&](auto part, int64_t n) {
    std::copy_n(from.*part + from_token * n, n, to.*part + to_token * n);
  });
}

}  // namespace thaw
