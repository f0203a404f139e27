// Products of unpacked panels of rows that are not packed, in NEON with the dot product extension.
// See dotprod.h for what may be called here.
#include <arm_neon.h>

#include "kernels/arm/dotprod.h"

namespace thaw::dotprod {
namespace {

// A tile is kRows rows times kTokens tokens. Whatever the tile, one (row, token) goes through the
// same operations: a sum of four lanes, steps in order. Pairs of tokens share the weights of a
// panel's four rows: 8 sums, and what is in flight, fit the 32 registers.
constexpr int kTileTokens = 2;
constexpr int kTileRows = 4;

static_assert(kTileRows == kMaxPanelRows);

// Products of 32 int8 pairs: lanes 0 and 1 hold the first 16, 2 and 3 the second.
int32x4_t DotBlock(const int8x16_t (&w)[2], const int8x16_t (&a)[2]) {
  const int32x4_t zero = vdupq_n_s32(0);
  return vpaddq_s32(vdotq_s32(zero, w[0], a[0]), vdotq_s32(zero, w[1], a[1]));
}

// [s0 s0 s1 s1], the scales of the two halves of a block.
float32x4_t SpreadScales(const float* pair) {
  const float32x2_t both = vld1_f32(pair);
  return vcombine_f32(vdup_lane_f32(both, 0), vdup_lane_f32(both, 1));
}

// sum(offset * sum of activations) over all groups: a pair for each step.
float32x2_t DotOffsets(const float* offsets, const float* sums, const float* scales,
                       int64_t groups) {
  float32x2_t total = vdup_n_f32(0);
  for (int64_t group = 0; group < groups; group += 2) {
    const float32x2_t scaled = vmul_n_f32(vld1_f32(sums + group), scales[group / kSumsOfScale]);
    total = vfma_f32(total, vld1_f32(offsets + group), scaled);
  }
  return total;
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

  float32x4_t total[kRows][kTokens];
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) total[r][t] = vdupq_n_f32(0);
  }
  for (int64_t step = 0; step < steps; ++step) {
    int8x16_t a[kTokens][2];
#pragma GCC unroll 2
    for (int t = 0; t < kTokens; ++t) {
      a[t][0] = vld1q_s8(quants + t * quant_stride + step * kActivationStep);
      a[t][1] = vld1q_s8(quants + t * quant_stride + step * kActivationStep + 16);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const int8_t* of_row = weights + r * k + step * kActivationStep;
      const int8x16_t w[2] = {vld1q_s8(of_row), vld1q_s8(of_row + 16)};
      const float32x4_t weight_scale = SpreadScales(weight_scales + r * groups + 2 * step);
#pragma GCC unroll 2
      for (int t = 0; t < kTokens; ++t) {
        const float32x4_t products = vcvtq_f32_s32(DotBlock(w, a[t]));
        const float32x4_t scale =
            vmulq_n_f32(weight_scale, scales[t * blocks + step / kStepsOfScale]);
        total[r][t] = vfmaq_f32(total[r][t], products, scale);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) {
      float32x2_t sum = vadd_f32(vget_low_f32(total[r][t]), vget_high_f32(total[r][t]));
      if (panel.offsets != nullptr) {
        sum = vadd_f32(
            sum, DotOffsets(panel.offsets + (row + r) * groups,
                            activations.sums + (token + t) * groups, scales + t * blocks, groups));
      }
      out[(token + t) * out_stride + row + r] = vget_lane_f32(sum, 0) + vget_lane_f32(sum, 1);
    }
  }
}

template <int kRows>
void MultiplyRows(const WeightPanel& panel, int64_t row, const Activations& activations, float* out,
                  int64_t out_stride) {
  int64_t token = 0;
  for (; token + kTileTokens <= activations.n_tokens; token += kTileTokens) {
    MultiplyTile<kRows, kTileTokens>(panel, row, activations, token, out, out_stride);
  }
  for (; token < activations.n_tokens; ++token) {
    MultiplyTile<kRows, 1>(panel, row, activations, token, out, out_stride);
  }
}

}  // namespace

void MultiplyPanel(const WeightPanel& panel, const Activations& activations, float* out,
                   int64_t out_stride) {
  int64_t row = 0;
  for (; row + kTileRows <= panel.n_rows; row += kTileRows) {
    MultiplyRows<kTileRows>(panel, row, activations, out, out_stride);
  }
  for (; row + 2 <= panel.n_rows; row += 2) {
    MultiplyRows<2>(panel, row, activations, out, out_stride);
  }
  for (; row < panel.n_rows; ++row) MultiplyRows<1>(panel, row, activations, out, out_stride);
}

}  // namespace thaw::dotprod
