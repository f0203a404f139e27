// Rows of a model's tensors as numbers, for freezing: read in pieces, checked to be finite.
//
// Rows count through all matrices of what is frozen as one; a piece is of one matrix. Functions are
// pure but for reading and may be called from any thread; memory is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/freeze_plan.h"
#include "gguf/gguf_file.h"

namespace thaw {

// A run of rows of what is frozen as one tensor.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Fills `out`, [count, cols], exactly. `stored` is scratch that grows to the rows' bytes in the
// file. kCorrupt names tensor and row where a weight is infinite or NaN.
Result<void> ReadRows(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                      std::vector<std::byte>& stored, std::span<float> out);

// The same as bfloat16, of BF16 or F32; false where an F32 has bits that BF16 has not.
Result<bool> ReadBf16Rows(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                          std::vector<std::byte>& stored, std::span<uint16_t> out);

// Groups of 16 rows, evenly spread over `of`, which must be whole groups: as many as hold about
// `weights`, at least one.
std::vector<RowRange> SpreadGroups(RowRange of, int64_t cols, int64_t weights);

}  // namespace thaw
