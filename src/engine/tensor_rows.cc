#include "engine/tensor_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "codec/frozen_format.h"
#include "kernels/dequantize.h"
#include "tensor/finite_rows.h"

namespace thaw {
namespace {

// The rows as they lie in the file, in `stored`, which has exactly their bytes.
Result<void> ReadStored(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                        std::vector<std::byte>& stored) {
  const bool is_apart = plan.tensors.size() > 1;
  const TensorInfo& tensor =
      *plan.tensors[is_apart ? static_cast<size_t>(rows.first / plan.rows) : 0];
  if (is_apart) rows.first %= plan.rows;
  THAW_CHECK(rows.first + rows.count <= tensor.rows());
  const int64_t cols = plan.cols;
  const int64_t row_bytes = RowBytes(tensor.type, cols);
  stored.resize(static_cast<size_t>(rows.count * row_bytes));
  THAW_TRY(file.ReadTensor(tensor, static_cast<uint64_t>(rows.first * row_bytes), stored));
  const std::optional<int64_t> bad = FindRowNotFinite(tensor.type, cols, rows.count, stored.data());
  if (!bad) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor '{}': row {} holds a weight that is infinite or no number", file.path(),
              tensor.name, rows.first + *bad);
}

}  // namespace

Result<void> ReadRows(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                      std::vector<std::byte>& stored, std::span<float> out) {
  THAW_CHECK(static_cast<int64_t>(out.size()) == rows.count * plan.cols);
  THAW_TRY(ReadStored(file, plan, rows, stored));
  return Dequantize(plan.source_type(), stored, out);
}

Result<bool> ReadBf16Rows(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                          std::vector<std::byte>& stored, std::span<uint16_t> out) {
  const ElementType type = plan.source_type();
  THAW_CHECK(static_cast<int64_t>(out.size()) == rows.count * plan.cols);
  THAW_CHECK(type == ElementType::kBF16 || type == ElementType::kF32);
  THAW_TRY(ReadStored(file, plan, rows, stored));
  if (type == ElementType::kBF16) {
    std::memcpy(out.data(), stored.data(), stored.size());
    return true;
  }
  uint32_t lost = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &stored[i * sizeof(bits)], sizeof(bits));
    lost |= bits & 0xffff;
    out[i] = static_cast<uint16_t>(bits >> 16);
  }
  return lost == 0;
}

std::vector<RowRange> SpreadGroups(RowRange of, int64_t cols, int64_t weights) {
  const int64_t groups = of.count / kFrozenGroupRows;
  THAW_CHECK(groups > 0);
  const int64_t n = std::clamp<int64_t>(weights / (kFrozenGroupRows * cols), 1, groups);
  std::vector<RowRange> ranges;
  for (int64_t i = 0; i < n; ++i) {
    // The middle of the i-th of n equal parts.
    const int64_t group = (2 * i + 1) * groups / (2 * n);
    ranges.push_back({of.first + group * kFrozenGroupRows, kFrozenGroupRows});
  }
  return ranges;
}

}  // namespace thaw
