// Products of float rows as they lie in the file, over the vectors V (kernels/vector_math.h) of an
// instruction set.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/activations.h"
#include "kernels/panel_matmul.h"
#include "kernels/vector_math.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

template <ElementType type>
inline constexpr int64_t kFloatBytes = type == ElementType::kF32 ? 4 : 2;

template <typename V, ElementType type>
typename V::Type LoadWeights(const std::byte* p) {
  if constexpr (type == ElementType::kF32) {
    return V::Load(reinterpret_cast<const float*>(p));
  } else {
    return type == ElementType::kF16 ? V::LoadF16(p) : V::LoadBF16(p);
  }
}

// The first n < kLanes weights at p, the other lanes 0.
template <typename V, ElementType type>
typename V::Type LoadFirstWeights(const std::byte* p, int64_t n) {
  std::byte buffer[V::kLanes * sizeof(float)] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n * kFloatBytes<type>));
  return LoadWeights<V, type>(buffer);
}

// Whatever the tile, one (row, token) goes through the same operations: a sum in every lane.
template <typename V, ElementType type, int kRows, int kTokens>
void MultiplyFloatTile(const FloatRows& rows, int64_t row, const Activations& activations,
                       int64_t token, float* out, int64_t out_stride) {
  using Floats = typename V::Type;
  constexpr int64_t kLanes = V::kLanes;
  const int64_t k = rows.k;
  const std::byte* weights = rows.data + row * rows.row_bytes;
  const float* values = activations.values + token * k;
  Floats total[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) total[r][t] = V::Zero();
  }
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    Floats x[kTokens];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) x[t] = V::Load(values + t * k + i);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Floats w = LoadWeights<V, type>(weights + r * rows.row_bytes + i * kFloatBytes<type>);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) total[r][t] = V::Fma(w, x[t], total[r][t]);
    }
  }
  if (i < k) {
    for (int r = 0; r < kRows; ++r) {
      const Floats w =
          LoadFirstWeights<V, type>(weights + r * rows.row_bytes + i * kFloatBytes<type>, k - i);
      for (int t = 0; t < kTokens; ++t) {
        total[r][t] = V::Fma(w, V::LoadFirst(values + t * k + i, k - i), total[r][t]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      out[(token + t) * out_stride + row + r] = V::SumOfLanes(total[r][t]);
    }
  }
}

// Rows in fours so that a single token has four chains, pairs of tokens so that a converted weight
// is used twice.
template <typename V, ElementType type>
void MultiplyFloatRowsOf(const FloatRows& rows, const Activations& activations, float* out,
                         int64_t out_stride) {
  int64_t row = 0;
  for (; row + 4 <= rows.n_rows; row += 4) {
    int64_t token = 0;
    for (; token + 2 <= activations.n_tokens; token += 2) {
      MultiplyFloatTile<V, type, 4, 2>(rows, row, activations, token, out, out_stride);
    }
    for (; token < activations.n_tokens; ++token) {
      MultiplyFloatTile<V, type, 4, 1>(rows, row, activations, token, out, out_stride);
    }
  }
  for (; row < rows.n_rows; ++row) {
    for (int64_t token = 0; token < activations.n_tokens; ++token) {
      MultiplyFloatTile<V, type, 1, 1>(rows, row, activations, token, out, out_stride);
    }
  }
}

template <typename V>
void MultiplyFloatRows(const FloatRows& rows, const Activations& activations, float* out,
                       int64_t out_stride) {
  switch (rows.type) {
    case ElementType::kF16:
      return MultiplyFloatRowsOf<V, ElementType::kF16>(rows, activations, out, out_stride);
    case ElementType::kBF16:
      return MultiplyFloatRowsOf<V, ElementType::kBF16>(rows, activations, out, out_stride);
    default:
      return MultiplyFloatRowsOf<V, ElementType::kF32>(rows, activations, out, out_stride);
  }
}

}  // namespace
}  // namespace thaw
