// The Blocks of kernels/quantize_tokens.h in AVX-512 (F, BW, VL and VNNI), for the *_avx512.cc
// files alone; in an anonymous namespace, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/x86/pair_corrections.h"

namespace thaw::avx512 {
namespace {

struct Blocks : PairBlocks {
  struct Step {
    __m512 v[2];
  };

  static Step Load(const float* values) {
    return {{_mm512_loadu_ps(values), _mm512_loadu_ps(values + 16)}};
  }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    const __m512i magnitude_bits = _mm512_set1_epi32(0x7fffffff);
    __m512i v = _mm512_setzero_si512();
    for (int i = 0; i < n; ++i) {
      for (const __m512 values : steps[i].v) {
        v = _mm512_max_epi32(v, _mm512_and_si512(_mm512_castps_si512(values), magnitude_bits));
      }
    }
    const __m256i halves =
        _mm256_max_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i largest =
        _mm_max_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4e));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(largest));
  }

  static uint32_t SquaresAbove(const Step& step, float limit) {
    const auto above = [&](__m512 v) {
      return uint32_t{_mm512_cmp_ps_mask(_mm512_mul_ps(v, v), _mm512_set1_ps(limit), _CMP_GT_OQ)};
    };
    return above(step.v[0]) | above(step.v[1]) << 16;
  }

  static Step ZeroWhere(const Step& step, uint32_t bits) {
    return {{_mm512_maskz_mov_ps(static_cast<__mmask16>(~bits), step.v[0]),
             _mm512_maskz_mov_ps(static_cast<__mmask16>(~(bits >> 16)), step.v[1])}};
  }

  template <int n>
  static void Quantize(const Step (&steps)[n], float factor, int8_t* quants,
                       int32_t (&sums)[2 * n]) {
    __m128i fours[2 * n];  // sums of four quants
    for (int half = 0; half < 2 * n; ++half) {
      const __m512 products = _mm512_mul_ps(steps[half / 2].v[half % 2], _mm512_set1_ps(factor));
      const __m128i packed = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(products));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(quants + 16 * half), packed);
      fours[half] = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), packed);
    }
    const __m128i first = _mm_hadd_epi32(fours[0], fours[1]);
    if constexpr (n == 2) {
      const __m128i second = _mm_hadd_epi32(fours[2], fours[3]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(first, second));
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(first, first));
    }
  }

  // n: a multiple of 64.
  static int32_t MostOfSums(const int8_t* quants, int64_t n) {
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 64) {
      const __m512i magnitudes = _mm512_abs_epi8(_mm512_loadu_si512(quants + i));
      const __m512i eights = _mm512_sad_epu8(magnitudes, _mm512_setzero_si512());
      const __m512i swapped = _mm512_shuffle_epi32(eights, _MM_PERM_BADC);
      most = _mm512_max_epi32(most, _mm512_add_epi32(eights, swapped));
    }
    return _mm512_reduce_max_epi32(most);
  }
};

}  // namespace
}  // namespace thaw::avx512
