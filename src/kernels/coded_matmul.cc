#include "kernels/coded_matmul.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Groups that are thawed at a time. Few tokens are multiplied best while one group is still in the
// nearest cache; many are multiplied by panels of two groups.
constexpr int64_t kMostGroups = 2;
constexpr int64_t kFewTokens = 8;

int64_t AlignUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Rows of `packed` as they would lie in a file, for tables that take no packed ones.
void Unpack(ElementType type, int64_t k, int64_t n_rows, const std::byte* packed, std::byte* rows) {
  const int64_t row_bytes = RowBytes(type, k);
  for (int64_t row = 0; row < n_rows; ++row) {
    CopyPackedRow(type, k, n_rows, packed, row, rows + row * row_bytes);
  }
}

}  // namespace

int64_t CodedScratchBytes(FrozenKind kind, int64_t k) {
  // Packed and not.
  return AlignUp(MatMulScratchBytes(k)) + 2 * kMostGroups * AlignUp(ThawedGroupBytes(kind, k));
}

void MultiplyCoded(const KernelTable& kernels, const TileDecoder& decoder, const CodedRows& weights,
                   int64_t row_begin, int64_t row_end, const Activations& activations, float* out,
                   int64_t out_stride, std::byte* scratch) {
  const int64_t per_stream = weights.rows_per_stream;
  THAW_CHECK(row_begin % per_stream == 0);
  THAW_CHECK(row_end % per_stream == 0 || row_end == weights.n_rows);
  const ElementType type = ThawedType(weights.kind);
  const int64_t group_bytes = ThawedGroupBytes(weights.kind, weights.k);
  std::byte* packed = scratch + AlignUp(MatMulScratchBytes(weights.k));
  std::byte* unpacked = packed + kMostGroups * AlignUp(group_bytes);
  const int64_t groups_at_once = activations.n_tokens <= kFewTokens ? 1 : kMostGroups;
  const std::byte* at = weights.data;
  for (int64_t row = 0; row < row_end; row += per_stream) {
    const FrozenStream stream = TrustedFrozenStream(weights.kind, weights.k, at);
    at += stream.bytes;
    if (row < row_begin) continue;
    StreamCursor cursor(stream);
    for (int64_t group = 0; group < stream.groups(); group += groups_at_once) {
      const int64_t n = std::min(groups_at_once, stream.groups() - group);
      for (int64_t i = 0; i < n; ++i) DecodeGroup(decoder, cursor, packed + i * group_bytes);
      WeightRows rows{.type = type,
                      .data = packed,
                      .n_rows = n * kFrozenGroupRows,
                      .k = weights.k,
                      .is_packed = true};
      if (!kernels.packs_rows) {
        Unpack(type, rows.k, rows.n_rows, packed, unpacked);
        rows.data = unpacked;
        rows.is_packed = false;
      }
      kernels.matmul(rows, 0, rows.n_rows, activations, out + row + group * kFrozenGroupRows,
                     out_stride, scratch);
    }
  }
}

}  // namespace thaw
