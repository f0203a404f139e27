// Rows of quantized tensors as small integers.
//
// Every quantized element type, from Q4_0 to the codebook types, holds values that are exactly
//
//   value[i] = scales[i / 16] * quants[i] + offsets[i / 16]
//
// with int8 quants and one float scale and offset per 16 consecutive elements. An unpacker rewrites
// a row in that form, so that products and dequantization need one implementation for all types.
// Scales and offsets are what the format's own formula computes, in the same order of operations.
// Which bits are what is described in tensor/blocks.h.
//
// Unpackers are pure, allocate nothing and accept any bytes at any alignment: there is no invalid
// block, only scales that are infinite or NaN. The result is 1.25 to 1.5 bytes an element, meant
// for buffers of a few rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/element_type.h"

namespace thaw {

// Elements that share a scale and an offset. Every quantized block is a multiple of twice this.
inline constexpr int64_t kUnpackGroup = 16;

// Unpacks k elements, a multiple of the type's block_elements, from RowBytes(type, k) bytes.
// quants [k], scales [k / 16], offsets [k / 16] (only written when has_offsets, else may be null).
// Quants lie in [-127, 127], except that -128 in a Q8_0 row stays -128.
using UnpackRowFunction = void (*)(const std::byte* row, int64_t k, int8_t* quants, float* scales,
                                   float* offsets);

struct RowUnpacker {
  ElementType type;
  bool has_offsets;  // false: every offset is 0
  UnpackRowFunction unpack;
};

// nullptr for types that are not quantized.
const RowUnpacker* FindRowUnpacker(ElementType type);

}  // namespace thaw
