// Element-wise kernels in AVX2. See avx2.h for what may be called here.
#include "kernels/quantize_tokens.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// As in portable/quantize.cc, where it is derived.
constexpr float kSmallestAmax = 0x1p-121f;

int SumOfIntegers(__m256i v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
  return _mm_cvtsi128_si32(sum);
}

void QuantizeBlock(const float* values, int8_t* quants, float* scale, int32_t* sums) {
  const FloatBlock block = LoadBlock(values);
  const float amax = LargestMagnitude(block);
  auto* bytes = reinterpret_cast<__m256i*>(quants);
  if (!(amax <= kLargestFinite) || amax < kSmallestAmax) {
    _mm256_storeu_si256(bytes, _mm256_setzero_si256());
    *scale = amax < kSmallestAmax ? 0.0f : amax;
    sums[0] = 0;
    sums[1] = 0;
    return;
  }
  *scale = amax / 127.0f;
  const IntegerBlock q = RoundProducts(block, 127.0f / amax);
  sums[0] = SumOfIntegers(_mm256_add_epi32(q.v[0], q.v[1]));
  sums[1] = SumOfIntegers(_mm256_add_epi32(q.v[2], q.v[3]));
  _mm256_storeu_si256(bytes, PackToBytes(q));
}

__m256 SiluTimes(__m256 gate, __m256 up) {
  const __m256 negated = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
  const __m256 denominator = _mm256_add_ps(_mm256_set1_ps(1.0f), Exp(negated));
  return _mm256_mul_ps(_mm256_div_ps(gate, denominator), up);
}

// Four adjacent pairs: even lanes x c - y s, odd lanes y c + x s.
__m256 TurnAdjacent(__m256 xy, __m128 cosines, __m128 sines) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(cosines), twice);
  const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(sines), twice);
  const __m256 yx = _mm256_permute_ps(xy, 0xb1);
  return _mm256_fmaddsub_ps(xy, c, _mm256_mul_ps(yx, s));
}

void RopeAdjacent(float* x, const float* cosines, const float* sines, int64_t pairs) {
  int64_t pair = 0;
  for (; pair + 4 <= pairs; pair += 4) {
    const __m256 turned = TurnAdjacent(_mm256_loadu_ps(x + 2 * pair), _mm_loadu_ps(cosines + pair),
                                       _mm_loadu_ps(sines + pair));
    _mm256_storeu_ps(x + 2 * pair, turned);
  }
  if (pair == pairs) return;
  const int64_t rest = pairs - pair;
  const __m256 turned = TurnAdjacent(LoadFirst(x + 2 * pair, 2 * rest),
                                     _mm256_castps256_ps128(LoadFirst(cosines + pair, rest)),
                                     _mm256_castps256_ps128(LoadFirst(sines + pair, rest)));
  _mm256_maskstore_ps(x + 2 * pair, FirstLanes(2 * rest), turned);
}

void RopeHalves(float* x, const float* cosines, const float* sines, int64_t pairs) {
  for (int64_t pair = 0; pair < pairs; pair += 8) {
    const __m256i mask = FirstLanes(pairs - pair);
    const __m256 c = _mm256_maskload_ps(cosines + pair, mask);
    const __m256 s = _mm256_maskload_ps(sines + pair, mask);
    const __m256 first = _mm256_maskload_ps(x + pair, mask);
    const __m256 second = _mm256_maskload_ps(x + pairs + pair, mask);
    _mm256_maskstore_ps(x + pair, mask, _mm256_fmsub_ps(first, c, _mm256_mul_ps(second, s)));
    _mm256_maskstore_ps(x + pairs + pair, mask,
                        _mm256_fmadd_ps(second, c, _mm256_mul_ps(first, s)));
  }
}

}  // namespace

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens([](const float* values, int8_t* quants, float* scale,
                    int32_t* sums) { QuantizeBlock(values, quants, scale, sums); },
                 activations, token_begin, token_end);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  // Four sums, so that the latency of fma is hidden, and 32 short chains of rounding.
  __m256 squares[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                       _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      squares[j] = _mm256_fmadd_ps(v, v, squares[j]);
    }
  }
  for (; i < n; i += 8) {
    const __m256 v = LoadFirst(x + i, n - i);
    squares[0] = _mm256_fmadd_ps(v, v, squares[0]);
  }
  const float sum = SumOfLanes(
      _mm256_add_ps(_mm256_add_ps(squares[0], squares[1]), _mm256_add_ps(squares[2], squares[3])));
  const float mean = sum / static_cast<float>(n);
  const float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon)));
  const __m256 scales = _mm256_set1_ps(scale);
  for (i = 0; i + 8 <= n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), scales);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void SiluMultiply(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, SiluTimes(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  }
  if (i == n) return;
  _mm256_maskstore_ps(out + i, FirstLanes(n - i),
                      SiluTimes(LoadFirst(gate + i, n - i), LoadFirst(up + i, n - i)));
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
  for (; i < n; ++i) out[i] = a[i] + b[i];
}

void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing) {
  const int64_t pairs = rope_dim / 2;
  for (int64_t head = 0; head < n_heads; ++head) {
    float* x = heads + head * head_stride;
    if (pairing == RopePairing::kAdjacent) {
      RopeAdjacent(x, cos_sin, cos_sin + pairs, pairs);
    } else {
      RopeHalves(x, cos_sin, cos_sin + pairs, pairs);
    }
  }
}

}  // namespace thaw::avx2
