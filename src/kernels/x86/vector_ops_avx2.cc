// Element-wise kernels in AVX2. See avx2.h for what may be called here.
#include "kernels/quantize_tokens.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// As in portable/quantize.cc.
struct Blocks {
  using Step = FloatBlock;

  static Step Load(const float* values) { return LoadBlock(values); }

  template <int n>
  static float LargestMagnitude(const Step (&steps)[n]) {
    return avx2::LargestMagnitude(steps, n);
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
      const __m256i packed = PackToBytes(RoundProducts(steps[i], factor));
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
};

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
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
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
