#include "kernels/activations.h"

#include <algorithm>
#include <cmath>

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

// The square of the magnitude from which on a number of the token is an outlier. The same additions
// in the same order everywhere, in as many lanes as any compiler's baseline registers take.
float SquaredOutlierLimit(const float* values, int64_t k) {
  constexpr int64_t kLanes = 8;
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  constexpr double kSquaredRatio = kOutlierRatio * kOutlierRatio;
  return static_cast<float>(sum * kSquaredRatio / static_cast<double>(k));
}

// Lists the outliers of a token; none where a number is infinite or NaN, or overflows when squared.
int32_t FindOutliers(const float* values, int64_t k, Outlier* outliers) {
  const float limit = SquaredOutlierLimit(values, k);
  if (!std::isfinite(limit)) return 0;
  const auto max_count = static_cast<int32_t>(MaxOutliers(k));
  int32_t count = 0;
  for (int64_t block = 0; block < k; block += kActivationBlock) {
    const float* of_block = values + block;
    int any = 0;  // without a branch, for the compiler's vectors
    for (int64_t i = 0; i < kActivationBlock; ++i) any |= of_block[i] * of_block[i] > limit;
    if (any == 0) continue;
    for (int64_t i = 0; i < kActivationBlock && count < max_count; ++i) {
      if (of_block[i] * of_block[i] <= limit) continue;
      outliers[count++] = {static_cast<int32_t>(block + i), of_block[i]};
    }
  }
  return count;
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

void QuantizeByBlocks(QuantizeBlockFunction quantize_block, const Activations& activations,
                      int64_t token_begin, int64_t token_end) {
  if (activations.quants == nullptr) return;
  const int64_t k = activations.k;
  const int64_t blocks = k / kActivationBlock;
  const auto quantize = [&](const float* values, int64_t token, int64_t block) {
    const int64_t at = token * blocks + block;
    float& scale = activations.scales[at];
    int32_t sums[2];
    quantize_block(values, activations.quants + at * kActivationBlock, &scale, sums);
    const int32_t sum = sums[0] + sums[1];
    activations.block_sums[at] = scale * static_cast<float>(sum);
    activations.block_corrections[at] = -kCorrectionUnit * sum;
    for (int64_t half = 0; half < 2; ++half) {
      activations.sums[2 * at + half] = scale * static_cast<float>(sums[half]);
      activations.corrections[2 * at + half] = -kCorrectionUnit * sums[half];
    }
  };
  for (int64_t token = token_begin; token < token_end; ++token) {
    const float* values = activations.values + token * k;
    Outlier* outliers = activations.outliers + token * MaxOutliers(k);
    const int32_t count = FindOutliers(values, k, outliers);
    activations.outlier_counts[token] = count;
    int32_t next = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      const float* block_values = values + block * kActivationBlock;
      const int64_t end = (block + 1) * kActivationBlock;
      if (next == count || outliers[next].index >= end) {
        quantize(block_values, token, block);
        continue;
      }
      float rest[kActivationBlock];
      std::copy_n(block_values, kActivationBlock, rest);
      for (; next < count && outliers[next].index < end; ++next) {
        rest[outliers[next].index % kActivationBlock] = 0;
      }
      quantize(rest, token, block);
    }
  }
}

}  // namespace thaw
