// Floats as bfloat16, for code that is compiled for an instruction set of its own.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <bit>
#include <cstdint>

namespace thaw {
namespace {

// To the nearest, ties to even, as F32ToBF16; a NaN stays one and becomes quiet.
inline uint16_t RoundToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x0040 : rounded >> 16);
}

}  // namespace
}  // namespace thaw
