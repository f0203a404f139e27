// Matrix products in AVX2. See avx2.h for what may be called here.
#include "kernels/float_rows.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// A tile is kRows rows times kTokens tokens whose sums stay in registers. Whatever the tile, one
// (row, token) goes through the same operations: an accumulator of 8 lanes, steps in order.
//
// Tokens in fours with pairs of rows: 8 accumulators, 2 magnitudes and what is in flight fill the
// 16 registers. A single token with all rows of a panel: independent chains hide the latency of
// fma.
constexpr int kTileTokens = 4;
constexpr int kTileRows = 2;

// [s0 s0 s0 s0 s1 s1 s1 s1], two scales that stand side by side.
__m256 SpreadScales(const float* pair) {
  const __m256 both = _mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(pair)));
  return _mm256_permutevar_ps(both, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

// Products of 32 int8 pairs, added up by fours: lanes 0 to 3 hold the first 16, 4 to 7 the second.
// |w| is at most 128 and |a| at most 127, so that the sum of two products fits 16 bits: 32512.
__m256i DotBlock(__m256i w, __m256i magnitude, __m256i a) {
  const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(a, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// sum(offset * sum of activations) over all groups, in eight lanes.
__m256 DotOffsets(const float* offsets, const float* sums, const float* scales, int64_t groups) {
  static_assert(kSumsOfScale == 4);
  __m256 total = _mm256_setzero_ps();
  int64_t group = 0;
  for (; group + 8 <= groups; group += 8, scales += 2) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(sums + group), SpreadScales(scales));
    total = _mm256_fmadd_ps(_mm256_loadu_ps(offsets + group), scaled, total);
  }
  if (group == groups) return total;
  const int64_t rest = groups - group;
  const __m256 scale = rest > kSumsOfScale ? SpreadScales(scales) : _mm256_set1_ps(*scales);
  const __m256 scaled = _mm256_mul_ps(Vectors::LoadFirst(sums + group, rest), scale);
  return _mm256_fmadd_ps(Vectors::LoadFirst(offsets + group, rest), scaled, total);
}

template <int kRows, int kTokens>
void MultiplyTile(const WeightPanel& panel, int64_t row, const Activations& activations,
                  int64_t token, float* out, int64_t out_stride) {
  const int64_t k = panel.k;
  const int64_t groups = k / kUnpackGroup;
  const int64_t steps = k / kActivationStep;
  const int64_t blocks = ActivationBlocks(k);
  const int8_t* weights = panel.quants + row * k;
  const float* weight_scales = panel.scales + row * groups;
  const int64_t quant_stride = QuantStride(k);
  const int8_t* quants = activations.quants + token * quant_stride;
  const float* scales = activations.scales + token * blocks;

  __m256 total[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      total[r][t] = panel.offsets == nullptr ? _mm256_setzero_ps()
                                             : DotOffsets(panel.offsets + (row + r) * groups,
                                                          activations.sums + (token + t) * groups,
                                                          scales + t * blocks, groups);
    }
  }
  for (int64_t step = 0; step < steps; ++step) {
    __m256i w[kRows];
    __m256i magnitude[kRows];
    __m256 weight_scale[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      w[r] = _mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(weights + r * k + step * kActivationStep));
      magnitude[r] = _mm256_abs_epi8(w[r]);
      weight_scale[r] = SpreadScales(weight_scales + r * groups + 2 * step);
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const __m256i a = _mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(quants + t * quant_stride + step * kActivationStep));
      const __m256 scale = _mm256_broadcast_ss(scales + t * blocks + step / kStepsOfScale);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256 products = _mm256_cvtepi32_ps(DotBlock(w[r], magnitude[r], a));
        total[r][t] = _mm256_fmadd_ps(products, _mm256_mul_ps(weight_scale[r], scale), total[r][t]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      out[(token + t) * out_stride + row + r] = Vectors::SumOfLanes(total[r][t]);
    }
  }
}

}  // namespace

void MultiplyPanel(const WeightPanel& panel, const Activations& activations, float* out,
                   int64_t out_stride) {
  int64_t token = 0;
  for (; token + kTileTokens <= activations.n_tokens; token += kTileTokens) {
    int64_t row = 0;
    for (; row + kTileRows <= panel.n_rows; row += kTileRows) {
      MultiplyTile<kTileRows, kTileTokens>(panel, row, activations, token, out, out_stride);
    }
    for (; row < panel.n_rows; ++row) {
      MultiplyTile<1, kTileTokens>(panel, row, activations, token, out, out_stride);
    }
  }
  for (; token < activations.n_tokens; ++token) {
    int64_t row = 0;
    for (; row + kMaxPanelRows <= panel.n_rows; row += kMaxPanelRows) {
      MultiplyTile<kMaxPanelRows, 1>(panel, row, activations, token, out, out_stride);
    }
    for (; row + kTileRows <= panel.n_rows; row += kTileRows) {
      MultiplyTile<kTileRows, 1>(panel, row, activations, token, out, out_stride);
    }
    for (; row < panel.n_rows; ++row) {
      MultiplyTile<1, 1>(panel, row, activations, token, out, out_stride);
    }
  }
}

void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  MultiplyFloatRows<Vectors>(rows, activations, out, out_stride);
}

}  // namespace thaw::avx2
