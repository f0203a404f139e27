// Vectors of 16 floats (kernels/vector_math.h) for the *_avx512.cc files alone; in an anonymous
// namespace, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace thaw::avx512 {
namespace {

struct Vectors {
  using Type = __m512;
  static constexpr int64_t kLanes = 16;

  static __m512 Zero() { return _mm512_setzero_ps(); }
  static __m512 Set(float x) { return _mm512_set1_ps(x); }
  static __m512 Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, __m512 v) { _mm512_storeu_ps(to, v); }

  static __mmask16 FirstLanes(int64_t n) {
    return static_cast<__mmask16>(n < 16 ? (1u << n) - 1 : 0xffff);
  }
  static __m512 LoadFirst(const float* from, int64_t n) {
    return _mm512_maskz_loadu_ps(FirstLanes(n), from);
  }
  static void StoreFirst(float* to, __m512 v, int64_t n) {
    _mm512_mask_storeu_ps(to, FirstLanes(n), v);
  }
  static __m512 KeepFirst(int64_t n, __m512 v, __m512 other) {
    return _mm512_mask_blend_ps(FirstLanes(n), other, v);
  }

  static __m512 Add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
  static __m512 Sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
  static __m512 Mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
  static __m512 Div(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
  static __m512 Negate(__m512 v) {
    const __m512i signs = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), signs));
  }
  static __m512 Abs(__m512 v) { return _mm512_abs_ps(v); }
  static __m512 Round(__m512 v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m512 Fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
  static __m512 Fms(__m512 a, __m512 b, __m512 c) { return _mm512_fmsub_ps(a, b, c); }
  static __m512 Fnma(__m512 a, __m512 b, __m512 c) { return _mm512_fnmadd_ps(a, b, c); }
  static __m512 Min(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
  static __m512 Max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
  static __m512 WherePositive(__m512 x, __m512 a, __m512 b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), b, a);
  }
  static __m512 Scale(__m512 x, __m512 n) { return _mm512_scalef_ps(x, n); }

  static float SumOfLanes(__m512 v) {
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
    return _mm512_cvtss_f32(_mm512_add_ps(v, _mm512_permute_ps(v, 0xb1)));
  }
  static float LargestLane(__m512 v) {
    v = _mm512_max_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    v = _mm512_max_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
    v = _mm512_max_ps(v, _mm512_permute_ps(v, 0x4e));
    return _mm512_cvtss_f32(_mm512_max_ps(v, _mm512_permute_ps(v, 0xb1)));
  }
  static float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

  static void LoadPairs(const float* from, __m512& first, __m512& second) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512 a = _mm512_loadu_ps(from);
    const __m512 b = _mm512_loadu_ps(from + 16);
    first = _mm512_permutex2var_ps(a, even, b);
    second = _mm512_permutex2var_ps(a, odd, b);
  }
  static void StorePairs(float* to, __m512 first, __m512 second) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(first, low, second));
    _mm512_storeu_ps(to + 16, _mm512_permutex2var_ps(first, high, second));
  }

  static __m512 LoadF16(const std::byte* from) { return _mm512_cvtph_ps(Load16(from)); }
  static __m512 LoadBF16(const std::byte* from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Load16(from)), 16));
  }
  static void StoreF16(std::byte* to, __m512 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  static __m256i Load16(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

}  // namespace
}  // namespace thaw::avx512
