// Products of float rows that are not packed, in NEON.
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"

namespace thaw::neon {
namespace {

template <ElementType type>
float32x4_t LoadWeights(const std::byte* p) {
  if constexpr (type == ElementType::kF32) {
    return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
  } else {
    return type == ElementType::kF16 ? WidenF16(Load16(p)) : WidenBF16(Load16(p));
  }
}

// The first n < 4 weights at p, the other lanes 0.
template <ElementType type>
float32x4_t LoadFirstWeights(const std::byte* p, int64_t n) {
  std::byte buffer[16] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * (type == ElementType::kF32 ? 4 : 2));
  return LoadWeights<type>(buffer);
}

// Whatever the tile, one (row, token) goes through the same operations: a sum of four lanes.
template <ElementType type, int kRows, int kTokens>
void MultiplyTile(const FloatRows& rows, int64_t row, const Activations& activations, int64_t token,
                  float* out, int64_t out_stride) {
  constexpr int64_t kWeightBytes = type == ElementType::kF32 ? 4 : 2;
  const int64_t k = rows.k;
  const std::byte* weights = rows.data + row * rows.row_bytes;
  const float* values = activations.values + token * k;
  float32x4_t total[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) total[r][t] = vdupq_n_f32(0);
  }
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    float32x4_t x[kTokens];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) x[t] = vld1q_f32(values + t * k + i);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float32x4_t w = LoadWeights<type>(weights + r * rows.row_bytes + i * kWeightBytes);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) total[r][t] = vfmaq_f32(total[r][t], w, x[t]);
    }
  }
  if (i < k) {
    for (int r = 0; r < kRows; ++r) {
      const float32x4_t w =
          LoadFirstWeights<type>(weights + r * rows.row_bytes + i * kWeightBytes, k - i);
      for (int t = 0; t < kTokens; ++t) {
        total[r][t] = vfmaq_f32(total[r][t], w, LoadFirst(values + t * k + i, k - i));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      out[(token + t) * out_stride + row + r] = SumOfLanes(total[r][t]);
    }
  }
}

// Rows in fours so that a single token has four chains, pairs of tokens so that a converted weight
// is used twice.
template <ElementType type>
void MultiplyRowsOf(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  int64_t row = 0;
  for (; row + 4 <= rows.n_rows; row += 4) {
    int64_t token = 0;
    for (; token + 2 <= activations.n_tokens; token += 2) {
      MultiplyTile<type, 4, 2>(rows, row, activations, token, out, out_stride);
    }
    for (; token < activations.n_tokens; ++token) {
      MultiplyTile<type, 4, 1>(rows, row, activations, token, out, out_stride);
    }
  }
  for (; row < rows.n_rows; ++row) {
    for (int64_t token = 0; token < activations.n_tokens; ++token) {
      MultiplyTile<type, 1, 1>(rows, row, activations, token, out, out_stride);
    }
  }
}

}  // namespace

void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  switch (rows.type) {
    case ElementType::kF16:
      return MultiplyRowsOf<ElementType::kF16>(rows, activations, out, out_stride);
    case ElementType::kBF16:
      return MultiplyRowsOf<ElementType::kBF16>(rows, activations, out, out_stride);
    default:
      return MultiplyRowsOf<ElementType::kF32>(rows, activations, out, out_stride);
  }
}

}  // namespace thaw::neon
