// Attention over a KV cache in AVX-512. See avx512.h for what may be called here.
#include <immintrin.h>

#include "kernels/attention_tile.h"
#include "kernels/x86/avx512.h"

namespace thaw::avx512 {
namespace {

// The operations that attention_tile.h asks for, on 16 floats.
struct Vectors {
  using Type = __m512;
  static constexpr int64_t kLanes = 16;

  // 8 x 1 scores: one conversion for all rows of a group of 8, and enough chains to hide the
  // latency of an fma. 4 x 4 sums: whole rows of values in the order of memory; 8 x 2, which take
  // every other cache line first, came at three quarters of the rate.
  static constexpr int kKeyRows = 8;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;
  // 6 x 4 sums, 4 vectors of the panel and a factor: 29 of 32 registers, 24 fma for 10 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 4;

  static __m512 Zero() { return _mm512_setzero_ps(); }
  static __m512 Set(float x) { return _mm512_set1_ps(x); }
  static __m512 Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, __m512 v) { _mm512_storeu_ps(to, v); }
  static __m512 Add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
  static __m512 Sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
  static __m512 Mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
  static __m512 Div(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
  static __m512 Fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
  static __m512 Max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }

  // 2^x as in vector_avx2.h.
  static __m512 Exp2(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);
    const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 r = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(0x1.ffcbfcp-17f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.430912p-13f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5d87fep-10f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.3b2ab6p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c6b08ep-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ebfbep-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e43p-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
  }

  static __mmask16 First(int64_t n) {
    return static_cast<__mmask16>(n < 16 ? (1u << n) - 1 : 0xffff);
  }
  static __m512 LoadFirst(const float* from, int64_t n) {
    return _mm512_maskz_loadu_ps(First(n), from);
  }
  // The first n lanes of v, the others of `other`.
  static __m512 KeepFirst(int64_t n, __m512 v, __m512 other) {
    return _mm512_mask_blend_ps(First(n), other, v);
  }

  // Halves, quarters, eighths, then neighbours.
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

  template <KvType type>
  static __m512 Widen(__m256i halves) {
    if constexpr (type == KvType::kF16) {
      return _mm512_cvtph_ps(halves);
    } else {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
  }
  template <KvType type>
  static __m512 LoadHalves(const std::byte* from) {
    return Widen<type>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  template <KvType type>
  static __m512 LoadFirstHalves(const std::byte* from, int64_t n) {
    return Widen<type>(_mm256_maskz_loadu_epi16(First(n), from));
  }
  static __m512 LoadScales(const std::byte* from) { return LoadHalves<KvType::kBF16>(from); }
  static __m512 LoadBytes(const std::byte* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static __m512 BroadcastScale(const std::byte* from) {
    int16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_set1_epi16(bits), 16));
  }
  static void Prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }
};

}  // namespace

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<Vectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx512
