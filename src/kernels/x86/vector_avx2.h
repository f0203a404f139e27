// Vectors of 8 floats (kernels/vector_math.h) for the *_avx2.cc files alone.
//
// In an anonymous namespace, against the habit for headers: each file gets a copy of its own and
// nothing is left for the linker to merge (see x86/avx2.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace thaw::avx2 {
namespace {

struct Vectors {
  using Type = __m256;
  static constexpr int64_t kLanes = 8;

  static __m256 Zero() { return _mm256_setzero_ps(); }
  static __m256 Set(float x) { return _mm256_set1_ps(x); }
  static __m256 Load(const float* from) { return _mm256_loadu_ps(from); }
  static void Store(float* to, __m256 v) { _mm256_storeu_ps(to, v); }

  // Lane i all ones where i < n.
  static __m256i FirstLanes(int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  static __m256 LoadFirst(const float* from, int64_t n) {
    return _mm256_maskload_ps(from, FirstLanes(n));
  }
  static void StoreFirst(float* to, __m256 v, int64_t n) {
    _mm256_maskstore_ps(to, FirstLanes(n), v);
  }
  static __m256 KeepFirst(int64_t n, __m256 v, __m256 other) {
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(FirstLanes(n)));
  }

  static __m256 Add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
  static __m256 Sub(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
  static __m256 Mul(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
  static __m256 Div(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
  static __m256 Negate(__m256 v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
  static __m256 Abs(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
  static __m256 Round(__m256 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m256 Fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
  static __m256 Fms(__m256 a, __m256 b, __m256 c) { return _mm256_fmsub_ps(a, b, c); }
  static __m256 Fnma(__m256 a, __m256 b, __m256 c) { return _mm256_fnmadd_ps(a, b, c); }
  static __m256 Min(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
  static __m256 Max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
  static __m256 WherePositive(__m256 x, __m256 a, __m256 b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
  }
  static __m256 Scale(__m256 x, __m256 n) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
  }

  static float SumOfLanes(__m256 v) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps(sum, sum, 1)));
  }
  static float LargestLane(__m256 v) {
    __m128 largest = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    largest = _mm_max_ps(largest, _mm_movehl_ps(largest, largest));
    return _mm_cvtss_f32(_mm_max_ss(largest, _mm_shuffle_ps(largest, largest, 1)));
  }
  static float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

  static void LoadPairs(const float* from, __m256& first, __m256& second) {
    const __m256 a = _mm256_loadu_ps(from);
    const __m256 b = _mm256_loadu_ps(from + 8);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
    const __m256 high = _mm256_permute2f128_ps(a, b, 0x31);
    first = _mm256_shuffle_ps(low, high, 0x88);
    second = _mm256_shuffle_ps(low, high, 0xdd);
  }
  static void StorePairs(float* to, __m256 first, __m256 second) {
    const __m256 low = _mm256_unpacklo_ps(first, second);
    const __m256 high = _mm256_unpackhi_ps(first, second);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }

  static __m256 LoadF16(const std::byte* from) { return _mm256_cvtph_ps(Load16(from)); }
  static __m256 LoadBF16(const std::byte* from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load16(from)), 16));
  }
  static void StoreF16(std::byte* to, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  static __m128i Load16(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
};

}  // namespace
}  // namespace thaw::avx2
