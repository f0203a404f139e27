// The Blocks of kernels/quantize_tokens.h in AVX2, for the *_avx2.cc files alone; in an anonymous
// namespace, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/x86/pair_corrections.h"

namespace thaw::avx2 {
namespace {

struct Blocks : PairBlocks {
  struct Step {
    __m256 v[4];
  };

  static Step Load(const float* values) {
    Step step;
    for (int i = 0; i < 4; ++i) step.v[i] = _mm256_loadu_ps(values + 8 * i);
    return step;
  }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    const __m256i magnitude_bits = _mm256_set1_epi32(0x7fffffff);
    __m256i v = _mm256_setzero_si256();
    for (int i = 0; i < n; ++i) {
      for (const __m256 values : steps[i].v) {
        v = _mm256_max_epi32(v, _mm256_and_si256(_mm256_castps_si256(values), magnitude_bits));
      }
    }
    __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(largest));
  }

  static uint32_t SquaresAbove(const Step& step, float limit) {
    uint32_t above = 0;
    for (int i = 0; i < 4; ++i) {
      const __m256 squares = _mm256_mul_ps(step.v[i], step.v[i]);
      const __m256 is_above = _mm256_cmp_ps(squares, _mm256_set1_ps(limit), _CMP_GT_OQ);
      above |= static_cast<uint32_t>(_mm256_movemask_ps(is_above)) << (8 * i);
    }
    return above;
  }

  static Step ZeroWhere(Step step, uint32_t bits) {
    const __m256i of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 4; ++i) {
      const __m256i of_vector = _mm256_set1_epi32(static_cast<int32_t>(bits >> (8 * i)));
      const __m256i is_set = _mm256_cmpeq_epi32(_mm256_and_si256(of_vector, of_lane), of_lane);
      step.v[i] = _mm256_andnot_ps(_mm256_castsi256_ps(is_set), step.v[i]);
    }
    return step;
  }

  template <int n>
  static void Quantize(const Step (&steps)[n], float factor, int8_t* quants,
                       int32_t (&sums)[2 * n]) {
    __m256i fours[2] = {};  // sums of four quants: the first half's in the lower lanes
    for (int i = 0; i < n; ++i) {
      const __m256i packed = RoundProducts(steps[i], factor);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants + 32 * i), packed);
      const __m256i twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1), packed);
      fours[i] = _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
    }
    const __m256i eights = _mm256_hadd_epi32(fours[0], fours[1]);
    const __m256i halves = _mm256_hadd_epi32(eights, eights);
    const __m128i of_blocks =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    if constexpr (n == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), of_blocks);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), of_blocks);
    }
  }

  static int32_t MostOfSums(const int8_t* quants, int64_t n) {
    __m256i most = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 32) {
      const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(quants + i));
      const __m256i eights = _mm256_sad_epu8(_mm256_abs_epi8(q), _mm256_setzero_si256());
      const __m256i swapped = _mm256_shuffle_epi32(eights, 0x4e);
      most = _mm256_max_epi32(most, _mm256_add_epi32(eights, swapped));
    }
    const __m128i of_both =
        _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    return _mm_cvtsi128_si32(of_both);
  }

 private:
  // 32 bytes in order. The packs work within 128-bit halves; the permutation puts their 4-byte runs
  // in order.
  static __m256i RoundProducts(const Step& step, float factor) {
    __m256i q[4];
    for (int i = 0; i < 4; ++i) {
      q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(step.v[i], _mm256_set1_ps(factor)));
    }
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(packed, order);
  }
};

}  // namespace
}  // namespace thaw::avx2
