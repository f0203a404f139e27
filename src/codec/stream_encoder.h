// Writes streams of frozen tiles (docs/format.md, sections 3 to 6): the entropy coder's other side.
//
// Pure functions of their arguments; memory for one stream at a time. Costs: about 10 ns a weight
// on one core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thaw {

// Block `block` of row `row` of the stream has its row's scale times 2^shift.
struct BlockShift {
  int64_t row;
  int64_t block;
  int shift;  // 1 to 15
};

// The integers of `rows` rows of `cols` columns that the trellis gives for the numbers m, row-major
// and within -64 and 63: q = 2 m + z.
std::vector<int8_t> TrellisIntegers(int64_t rows, int64_t cols, std::span<const int8_t> numbers);

// Appends the stream of `rows` rows of `cols` integers, row-major, that keep to the trellis. The
// lowest bits are coded raw where that makes the stream smaller. `scales`: [rows] f16.
void AppendEcqStream(int64_t rows, int64_t cols, std::span<const int8_t> q,
                     std::span<const uint16_t> scales, std::span<const BlockShift> shifts,
                     std::vector<std::byte>& out);

// Appends the stream of `rows` rows of `cols` bfloat16 numbers.
void AppendBf16Stream(int64_t rows, int64_t cols, std::span<const uint16_t> weights,
                      std::vector<std::byte>& out);

}  // namespace thaw
