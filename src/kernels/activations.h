// The activations of a batch, prepared once for all matmuls that read them.
//
// Float weights multiply the floats. Quantized weights multiply an int8 copy with one scale for
// each 32 values, so that the products are integer. The sums of each 16 quantized values let a
// block's offset (its minimum) be added with one multiplication: sum((s q + o) a) = s sum(q a) + o
// sum(a). They sum the quantized values, not the floats: rounding errors of `a` then meet the
// weight s q + o itself, which is small, rather than s q, which is not.
//
// Everything is a view: the caller owns the floats and the memory of the copy. Tokens are
// independent, so different threads may quantize different tokens.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw {

inline constexpr int64_t kActivationBlock = 32;  // values that share a scale
inline constexpr int64_t kActivationSum = 16;    // values under one sum: the finest weight scale

struct Activations {
  const float* values = nullptr;  // [n_tokens, k]
  int64_t n_tokens = 0;
  int64_t k = 0;
  // Written by KernelTable::quantize_activations. nullptr when k is no multiple of 32: such rows
  // can only be multiplied by float weights.
  int8_t* quants = nullptr;  // [n_tokens, k], within +-127
  float* scales = nullptr;   // [n_tokens, k / 32]: value = scale * quant
  float* sums = nullptr;     // [n_tokens, k / 16]: scale * (sum of 16 quants)
};

// Bytes that ViewActivations lays the quantized copy out in; 0 when k is no multiple of 32.
int64_t ActivationBytes(int64_t n_tokens, int64_t k);

// Activations over `values` [n_tokens, k] whose quantized copy lies in `memory`: ActivationBytes of
// them, aligned to 64. The copy is not filled in yet.
Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory);

}  // namespace thaw
