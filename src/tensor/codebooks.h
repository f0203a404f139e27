// The number tables that codebook element types refer to.
//
// They are part of the formats: ggml's quantizers chose these points once, and every file made
// since depends on them (ggml-common.h). Constant data without any initialization at run time, 63
// KiB in all; which table belongs to which format is said in tensor/blocks.h, which has that of
// IQ4.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/blocks.h"

namespace thaw {

// Twice the values of the 4-bit float E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6, then their negatives):
// MXFP4 and NVFP4.
inline constexpr std::array<int8_t, 16> kDoubledE2M1Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                              0, -1, -2, -3, -4, -6, -8, -12};

// The eight sign bits of an IQ2_XXS, IQ2_XS or IQ3_XXS octet from the seven stored ones: the number
// of negative elements is always even, so the eighth is the parity of the others.
constexpr uint8_t SignsWithParity(uint32_t seven_bits) {
  return static_cast<uint8_t>(seven_bits | (std::popcount(seven_bits) & 1u) << 7);
}

// Points of 8 or 4 elements; those with signs of their own in the block hold magnitudes.
struct alignas(8) GridPoint8 {
  std::array<int8_t, 8> elements;
};
struct alignas(4) GridPoint4 {
  std::array<int8_t, 4> elements;
};

extern const std::array<GridPoint8, 256> kIQ2_XXSGrid;  // elements 8, 25, 43
extern const std::array<GridPoint8, 512> kIQ2_XSGrid;   // elements 8, 25, 43
extern const std::array<GridPoint8, 1024> kIQ2_SGrid;   // elements 8, 25, 43
extern const std::array<GridPoint4, 256> kIQ3_XXSGrid;  // elements 4, 12, 20, ..., 52, 62
extern const std::array<GridPoint4, 512> kIQ3_SGrid;    // elements 1, 3, 5, ..., 15
extern const std::array<GridPoint8, 2048> kIQ1Grid;     // elements -1, 0, 1: IQ1_S and IQ1_M

// The points of four as codes of 16 bits: the numbers of the elements' levels, their ranks among
// those listed above, with 4 bits each, element 0 lowest.
extern const std::array<uint16_t, 256> kIQ3_XXSCodes;
extern const std::array<uint16_t, 512> kIQ3_SCodes;

// Such codes, of points of eight with 2 bits for each element, taken apart for vectors that look up
// bytes: elements 0 to 3, or 0 and 1 of four, and the others.
template <size_t kPoints>
struct CodeBytes {
  std::array<uint8_t, kPoints> first;
  std::array<uint8_t, kPoints> second;
};
extern const CodeBytes<256> kIQ2_XXSCodeBytes;
extern const CodeBytes<512> kIQ2_XSCodeBytes;
extern const CodeBytes<1024> kIQ2_SCodeBytes;
extern const CodeBytes<256> kIQ3_XXSCodeBytes;
extern const CodeBytes<512> kIQ3_SCodeBytes;
extern const CodeBytes<2048> kIQ1CodeBytes;

// Such codes spread over words: that of element i is in byte i % 4, of eight elements with two bits
// behind each other.
template <size_t kPoints>
using CodeWords = std::array<uint32_t, kPoints>;
extern const CodeWords<256> kIQ2_XXSCodeWords;
extern const CodeWords<512> kIQ2_XSCodeWords;
extern const CodeWords<1024> kIQ2_SCodeWords;
extern const CodeWords<256> kIQ3_XXSCodeWords;
extern const CodeWords<512> kIQ3_SCodeWords;
extern const CodeWords<2048> kIQ1CodeWords;

}  // namespace thaw
