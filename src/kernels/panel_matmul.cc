#include "kernels/panel_matmul.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Adds what the outliers of every token contribute, each in the order of its index.
void AddOutliers(const WeightPanel& panel, const Activations& activations, float* out,
                 int64_t out_stride) {
  const int64_t groups = panel.k / kUnpackGroup;
  for (int64_t token = 0; token < activations.n_tokens; ++token) {
    const Outlier* outliers = activations.outliers + token * MaxOutliers(panel.k);
    const int32_t count = OutlierCount(activations, token);
    for (int64_t row = 0; row < panel.n_rows; ++row) {
      float sum = 0;
      for (int32_t i = 0; i < count; ++i) {
        const int64_t group = row * groups + outliers[i].index / kUnpackGroup;
        float weight = panel.scales[group] *
                       static_cast<float>(panel.quants[row * panel.k + outliers[i].index]);
        if (panel.offsets != nullptr) weight += panel.offsets[group];
        sum += weight * outliers[i].value;
      }
      out[token * out_stride + row] += sum;
    }
  }
}

}  // namespace

bool CanMultiply(ElementType type) { return IsWeightFloat(type) || Info(type).is_quantized; }

int64_t MatMulScratchBytes(int64_t k) {
  const int64_t row_bytes = k + 2 * (k / kUnpackGroup) * int64_t{sizeof(float)};
  return std::max(kMaxPanelRows * row_bytes, kPackedScratchBytes);
}

void MatMulByPanels(const PanelKernels& kernels, const WeightRows& weights, int64_t row_begin,
                    int64_t row_end, const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  const int64_t k = weights.k;
  THAW_CHECK(activations.k == k);
  THAW_CHECK(IsWeightFloat(weights.type) || activations.quants != nullptr);
  THAW_CHECK(0 <= row_begin && row_end <= weights.n_rows);
  const int64_t row_bytes = RowBytes(weights.type, k);
  if (weights.is_packed) {
    THAW_CHECK(kernels.multiply_packed != nullptr && CanPackRows(weights.type, k));
    THAW_CHECK(row_begin % kPackedGroupRows == 0);
    THAW_CHECK(row_end % kPackedGroupRows == 0 || row_end == weights.n_rows);
    const int64_t groups = (row_end - row_begin) / kPackedGroupRows;
    kernels.multiply_packed(weights.type, weights.data + row_begin * row_bytes, groups, activations,
                            out + row_begin, out_stride, scratch);
    row_begin += groups * kPackedGroupRows;
    if (row_begin == row_end) return;
  }
  const std::byte* rows = weights.data + row_begin * row_bytes;
  if (IsWeightFloat(weights.type)) {
    kernels.multiply_floats({weights.type, rows, row_bytes, row_end - row_begin, k}, activations,
                            out + row_begin, out_stride);
    return;
  }

  const RowUnpacker* unpacker = FindRowUnpacker(weights.type);
  THAW_CHECK(unpacker != nullptr);

  const int64_t groups = k / kUnpackGroup;
  const int64_t panel_rows = PanelRows(k);
  auto* quants = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + panel_rows * k);
  float* offsets = scales + panel_rows * groups;
  for (int64_t row = row_begin; row < row_end; row += panel_rows) {
    const int64_t n_rows = std::min(panel_rows, row_end - row);
    for (int64_t r = 0; r < n_rows; ++r, rows += row_bytes) {
      unpacker->unpack(rows, k, quants + r * k, scales + r * groups, offsets + r * groups);
    }
    const WeightPanel panel{quants, scales, unpacker->has_offsets ? offsets : nullptr, n_rows, k};
    kernels.multiply_panel(panel, activations, out + row, out_stride);
    AddOutliers(panel, activations, out + row, out_stride);
  }
}

}  // namespace thaw
