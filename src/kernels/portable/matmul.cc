#include <cstring>

#include "kernels/panel_matmul.h"
#include "kernels/portable/portable.h"
#include "tensor/half.h"

namespace thaw::portable {
namespace {

// Partial sums of a dot product over floats: as many as two SSE or NEON registers hold, so that a
// compiler can keep them there.
constexpr int64_t kLanes = 8;

// The sum of the lanes in a fixed order.
float SumOfLanes(const float* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// dot(weight row, token) of the int8 panel: integer products over 16 weights, scaled and added up
// group by group.
float DotPanelRow(const int8_t* weights, const float* scales, const float* offsets, int64_t k,
                  const int8_t* quants, const float* activation_scales, const float* sums) {
  float total = 0;
  for (int64_t group = 0; group < k / kUnpackGroup; ++group) {
    int32_t products = 0;
    for (int64_t i = group * kUnpackGroup; i < (group + 1) * kUnpackGroup; ++i) {
      products += int32_t{weights[i]} * int32_t{quants[i]};
    }
    total += scales[group] * activation_scales[group / kSumsOfScale] * static_cast<float>(products);
  }
  if (offsets == nullptr) return total;
  for (int64_t group = 0; group < k / kUnpackGroup; ++group) {
    total += offsets[group] * activation_scales[group / kSumsOfScale] * sums[group];
  }
  return total;
}

void MultiplyPanel(const WeightPanel& panel, const Activations& activations, float* out,
                   int64_t out_stride) {
  const int64_t k = panel.k;
  const int64_t groups = k / kUnpackGroup;
  for (int64_t token = 0; token < activations.n_tokens; ++token) {
    for (int64_t row = 0; row < panel.n_rows; ++row) {
      out[token * out_stride + row] =
          DotPanelRow(panel.quants + row * k, panel.scales + row * groups,
                      panel.offsets == nullptr ? nullptr : panel.offsets + row * groups, k,
                      activations.quants + token * QuantStride(k),
                      activations.scales + token * ActivationBlocks(k),
                      activations.sums + token * (k / kActivationSum));
    }
  }
}

template <ElementType type>
float LoadWeight(const std::byte* row, int64_t i) {
  if constexpr (type == ElementType::kF32) {
    float value;
    std::memcpy(&value, row + i * int64_t{sizeof(value)}, sizeof(value));
    return value;
  } else {
    uint16_t bits;
    std::memcpy(&bits, row + i * int64_t{sizeof(bits)}, sizeof(bits));
    return type == ElementType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
  }
}

template <ElementType type>
float DotFloatRow(const std::byte* row, const float* x, int64_t k) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= k; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += LoadWeight<type>(row, i + lane) * x[i + lane];
    }
  }
  for (int64_t i = k - k % kLanes; i < k; ++i) lanes[i % kLanes] += LoadWeight<type>(row, i) * x[i];
  return SumOfLanes(lanes);
}

template <ElementType type>
void MultiplyRowsOf(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  for (int64_t row = 0; row < rows.n_rows; ++row) {
    for (int64_t token = 0; token < activations.n_tokens; ++token) {
      out[token * out_stride + row] = DotFloatRow<type>(
          rows.data + row * rows.row_bytes, activations.values + token * rows.k, rows.k);
    }
  }
}

void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  switch (rows.type) {
    case ElementType::kF16:
      return MultiplyRowsOf<ElementType::kF16>(rows, activations, out, out_stride);
    case ElementType::kBF16:
      return MultiplyRowsOf<ElementType::kBF16>(rows, activations, out, out_stride);
    default:
      return MultiplyRowsOf<ElementType::kF32>(rows, activations, out, out_stride);
  }
}

constexpr PanelKernels kPanelKernels = {
    .multiply_panel = MultiplyPanel,
    .multiply_floats = MultiplyFloats,
    .multiply_packed = nullptr,
};

}  // namespace

void MatMul(const WeightRows& weights, int64_t row_begin, int64_t row_end,
            const Activations& activations, float* out, int64_t out_stride, std::byte* scratch) {
  MatMulByPanels(kPanelKernels, weights, row_begin, row_end, activations, out, out_stride, scratch);
}

}  // namespace thaw::portable
