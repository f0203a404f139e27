// Private to kernels/unpack*.cc: from one block to a row, and the lists of unpackers by family.
//
// A format is decoded by one function of one block; UnpackRow makes the row function from it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/load.h"
#include "kernels/unpack.h"

namespace thaw {

// A RowUnpacker's function for types without offsets. kUnpackBlock writes Block::kElements quants
// and Block::kElements / 16 scales.
template <typename Block, void (*kUnpackBlock)(const Block&, int8_t* quants, float* scales)>
void UnpackRow(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* /*offsets*/) {
  for (int64_t i = 0; i < k; i += Block::kElements, row += sizeof(Block)) {
    kUnpackBlock(LoadAs<Block>(row), quants + i, scales + i / kUnpackGroup);
  }
}

// The same for types with offsets.
template <typename Block,
          void (*kUnpackBlock)(const Block&, int8_t* quants, float* scales, float* offsets)>
void UnpackRowWithOffsets(const std::byte* row, int64_t k, int8_t* quants, float* scales,
                          float* offsets) {
  for (int64_t i = 0; i < k; i += Block::kElements, row += sizeof(Block)) {
    const int64_t group = i / kUnpackGroup;
    kUnpackBlock(LoadAs<Block>(row), quants + i, scales + group, offsets + group);
  }
}

// quants[j] = the low nibble of bytes[j], quants[j + n] = the high one, for n bytes.
inline void SplitNibbles(const uint8_t* bytes, int n, int8_t* quants) {
  for (int j = 0; j < n; ++j) {
    quants[j] = static_cast<int8_t>(bytes[j] & 0x0f);
    quants[j + n] = static_cast<int8_t>(bytes[j] >> 4);
  }
}

// The same with each nibble looked up in a table of levels.
inline void LookUpNibbles(const uint8_t* bytes, int n, const std::array<int8_t, 16>& levels,
                          int8_t* quants) {
  for (int j = 0; j < n; ++j) {
    quants[j] = levels[bytes[j] & 0x0f];
    quants[j + n] = levels[bytes[j] >> 4];
  }
}

// The 2-bit numbers of 64 bytes in the order of Q2_K: of each 32 bytes the lowest bits of all, then
// the next bits of all. quants [256].
inline void SplitTwoBits(const uint8_t* bytes, int8_t* quants) {
  for (int half = 0; half < 2; ++half, bytes += 32) {
    for (int shift = 0; shift < 8; shift += 2, quants += 32) {
      for (int j = 0; j < 32; ++j) quants[j] = static_cast<int8_t>(bytes[j] >> shift & 0x03);
    }
  }
}

// Nibble `index` of a run of bytes, the low one of each byte first.
inline int NibbleAt(const uint8_t* bytes, int index) {
  return bytes[index / 2] >> (4 * (index % 2)) & 0x0f;
}

std::span<const RowUnpacker> SmallBlockUnpackers();  // Q4_0 to Q8_0, IQ4_NL, MXFP4, NVFP4
std::span<const RowUnpacker> KQuantUnpackers();      // Q2_K to Q6_K, IQ4_XS
std::span<const RowUnpacker> TernaryUnpackers();     // TQ1_0, TQ2_0
std::span<const RowUnpacker> GridUnpackers();        // IQ1_S to IQ3_S, and thawed

}  // namespace thaw
