// Small helpers on 8-float vectors for the *_avx2.cc files alone.
//
// Everything is `static` on purpose, against the habit for headers: each file gets a copy of its
// own and nothing is left for the linker to merge (see x86/avx2.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thaw::avx2 {

// Lane i all ones where i < n.
[[maybe_unused]] static inline __m256i FirstLanes(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

// The first n < 8 floats at p, the other lanes 0; nothing behind them is read.
[[maybe_unused]] static inline __m256 LoadFirst(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, FirstLanes(n));
}

// Eight half-precision numbers as floats, at any alignment.
[[maybe_unused]] static inline __m256 LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Eight 16-bit numbers of which only the first n < 8 are read; the others are 0.
[[maybe_unused]] static inline __m128i LoadFirst16(const std::byte* p, int64_t n) {
  alignas(16) std::byte buffer[16] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * 2);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(buffer));
}

// The sum of the eight lanes, always in this order: halves, then quarters, then neighbours.
[[maybe_unused]] static inline float SumOfLanes(__m256 v) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  sum = _mm_add_ss(sum, _mm_shuffle_ps(sum, sum, 1));
  return _mm_cvtss_f32(sum);
}

// e^x with a relative error below 1e-7 for x in [-87, 88]; beyond, as if x were the nearest end;
// NaN for NaN (min and max return their second operand then). x = n ln 2 + r, |r| <= ln 2 / 2, e^x
// = 2^n e^r. Taylor's series to r^7 leaves (ln 2 / 2)^8 / 8! = 5e-9; the rest of the error is
// rounding. ln 2 is split so that n times its upper part (9 bits shorter than a float) is exact.
[[maybe_unused]] static inline __m256 Exp(__m256 x) {
  x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_set1_ps(1.0f / 5040);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

// 2^x for x <= 0 with a relative error below 1e-7; below -126, the smallest normal number, as if x
// were that; NaN for NaN. x = n + r, |r| <= 1/2, exactly; 2^r = e^(r ln 2) by Taylor's series to
// r^7 as above, 1 at 0.
[[maybe_unused]] static inline __m256 Exp2(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(-126.0f), x);
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 r = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(0x1.ffcbfcp-17f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.430912p-13f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5d87fep-10f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.3b2ab6p-7f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.c6b08ep-5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.ebfbep-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.62e43p-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

}  // namespace thaw::avx2
