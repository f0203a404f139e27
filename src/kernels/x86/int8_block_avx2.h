// Steps of turning a block of 32 floats into int8 with one scale, the same bits as those of
// kernels/portable/int8_block.h, for the *_avx2.cc files alone.
//
// Helpers are `static` for the reason given in vector_avx2.h.
#pragma once

#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {

constexpr float kLargestFinite = 0x1.fffffep127f;

struct FloatBlock {
  __m256 v[4];
};

struct IntegerBlock {
  __m256i v[4];
};

[[maybe_unused]] static inline FloatBlock LoadBlock(const float* values) {
  FloatBlock block;
  for (int i = 0; i < 4; ++i) block.v[i] = _mm256_loadu_ps(values + 8 * i);
  return block;
}

// Of n blocks. By the order of the bits, as integers: a NaN beats everything.
[[maybe_unused]] static inline float LargestMagnitude(const FloatBlock* blocks, int n) {
  const __m256i magnitude_bits = _mm256_set1_epi32(0x7fffffff);
  __m256i v = _mm256_setzero_si256();
  for (int i = 0; i < n; ++i) {
    for (const __m256 values : blocks[i].v) {
      v = _mm256_max_epi32(v, _mm256_and_si256(_mm256_castps_si256(values), magnitude_bits));
    }
  }
  __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
  largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(largest));
}

// The block times `factor`, rounded half to even.
[[maybe_unused]] static inline IntegerBlock RoundProducts(const FloatBlock& block, float factor) {
  IntegerBlock rounded;
  for (int i = 0; i < 4; ++i) {
    rounded.v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(block.v[i], _mm256_set1_ps(factor)));
  }
  return rounded;
}

// 32 integers within +-127, in order. The packs work within 128-bit halves; the permutation puts
// their 4-byte runs in order.
[[maybe_unused]] static inline __m256i PackToBytes(const IntegerBlock& q) {
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(q.v[0], q.v[1]), _mm256_packs_epi32(q.v[2], q.v[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(packed, order);
}

}  // namespace thaw::avx2
