// Rows of the codebook types (IQ1, IQ2, IQ3) with their points looked up.
//
// A point stands for four or eight elements, and looking it up costs more than all else that a
// product does with them. Where memory is to spare a row is better held as the numbers of its
// elements' levels, two to four bits each: 1.2 to 1.6 times the bytes, exactly the same values
// (docs/decisions/0022-thawed-grids.md).
//
// Everything is pure, allocates nothing and accepts any bytes at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/element_type.h"

namespace thaw {

// The type that rows of a type of grids have once their points are looked up (tensor/blocks.h); any
// other type is its own.
ElementType ThawedGridType(ElementType type);

// Writes a row of k elements (whole blocks) of a type of grids to `thawed` as
// RowBytes(ThawedGridType(type), k) bytes, elsewhere.
void ThawGridRow(ElementType type, int64_t k, const std::byte* row, std::byte* thawed);

}  // namespace thaw
