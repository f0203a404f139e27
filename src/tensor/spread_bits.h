// Bits that are spread over the bytes of words, where vectors find them.
#pragma once

#include <cstdint>

namespace thaw {

// Bit i of four is bit 0 of byte i.
constexpr uint32_t SpreadFourBits(uint32_t bits) { return (bits & 15) * 0x00204081U & 0x01010101U; }

// Bit 4 j + b is bit 8 b + j.
constexpr uint32_t SpreadBits(uint32_t bits) {
  uint32_t spread = 0;
  for (int j = 0; j < 8; ++j) spread |= SpreadFourBits(bits >> 4 * j) << j;
  return spread;
}

// Number i, of two bits, of a byte is in byte i.
constexpr uint32_t SpreadPairs(uint32_t pairs) {
  const uint32_t halves = (pairs | pairs << 12) & 0x000f000fU;
  return (halves | halves << 6) & 0x03030303U;
}

// Nibble i of the lower half is in byte i.
constexpr uint32_t SpreadNibbles(uint32_t nibbles) {
  const uint32_t halves = (nibbles | nibbles << 8) & 0x00ff00ffU;
  return (halves | halves << 4) & 0x0f0f0f0fU;
}

}  // namespace thaw
