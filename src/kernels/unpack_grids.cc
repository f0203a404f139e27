#include <array>
#include <cstring>

#include "kernels/unpack_block.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// For each byte of signs, what it makes of 8 elements x: (x ^ mask) - mask with masks of 0 where
// the bit is clear, which keeps x, and -1 where it is set, which negates.
constexpr std::array<GridPoint8, 256> kSignMasks = [] {
  std::array<GridPoint8, 256> masks = {};
  for (int signs = 0; signs < 256; ++signs) {
    for (int j = 0; j < 8; ++j) masks[signs].elements[j] = static_cast<int8_t>(-(signs >> j & 1));
  }
  return masks;
}();

void CopySigned(const GridPoint8& point, uint8_t signs, int8_t* quants) {
  const GridPoint8& masks = kSignMasks[signs];
  for (int j = 0; j < 8; ++j) {
    const int8_t mask = masks.elements[j];
    quants[j] = static_cast<int8_t>((point.elements[j] ^ mask) - mask);
  }
}

// The octet of two points.
GridPoint8 Join(const GridPoint4& low, const GridPoint4& high) {
  GridPoint8 octet;
  std::copy_n(low.elements.data(), 4, octet.elements.data());
  std::copy_n(high.elements.data(), 4, octet.elements.data() + 4);
  return octet;
}

// Four times 7 bits of signs and a 4-bit scale: the 32-bit number of IQ2_XXS and IQ3_XXS.
struct SignsAndScale {
  explicit SignsAndScale(const uint8_t (&bytes)[4]) { std::memcpy(&word, bytes, sizeof(word)); }

  uint8_t Signs(int octet) const { return SignsWithParity(word >> (7 * octet) & 0x7f); }
  float HalfPlusScale() const { return 0.5f + static_cast<float>(word >> 28); }

  uint32_t word;
};

void UnpackIQ2_XXS(const BlockIQ2_XXS& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    const BlockIQ2_XXS::Group& group = block.groups[g];
    const SignsAndScale packed(group.signs_and_scale);
    for (int octet = 0; octet < 4; ++octet, quants += 8) {
      CopySigned(kIQ2_XXSGrid[group.grid[octet]], packed.Signs(octet), quants);
    }
    std::fill_n(scales + 2 * g, 2, d * packed.HalfPlusScale() * 0.25f);
  }
}

// The scales of IQ2_XS and IQ2_S: a nibble for each 16 elements.
template <typename Block>
void UnpackIQ2Scales(const Block& block, float* scales) {
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 16; ++group) {
    scales[group] = d * (0.5f + static_cast<float>(NibbleAt(block.scales, group))) * 0.25f;
  }
}

void UnpackIQ2_XS(const BlockIQ2_XS& block, int8_t* quants, float* scales) {
  for (int octet = 0; octet < 32; ++octet, quants += 8) {
    const uint8_t signs = SignsWithParity(block.qs[octet] >> 9);
    CopySigned(kIQ2_XSGrid[block.qs[octet] & 0x1ff], signs, quants);
  }
  UnpackIQ2Scales(block, scales);
}

void UnpackIQ2_S(const BlockIQ2_S& block, int8_t* quants, float* scales) {
  for (int octet = 0; octet < 32; ++octet, quants += 8) {
    const int high = block.qh[octet / 4] >> (2 * (octet % 4)) & 0x03;
    CopySigned(kIQ2_SGrid[block.qs[octet] | high << 8], block.signs[octet], quants);
  }
  UnpackIQ2Scales(block, scales);
}

void UnpackIQ3_XXS(const BlockIQ3_XXS& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 8; ++group) {
    const SignsAndScale packed(block.signs_and_scale[group]);
    for (int octet = 0; octet < 4; ++octet, quants += 8) {
      const uint8_t* points = block.qs + 8 * group + 2 * octet;
      CopySigned(Join(kIQ3_XXSGrid[points[0]], kIQ3_XXSGrid[points[1]]), packed.Signs(octet),
                 quants);
    }
    std::fill_n(scales + 2 * group, 2, d * packed.HalfPlusScale() * 0.5f);
  }
}

void UnpackIQ3_S(const BlockIQ3_S& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int octet = 0; octet < 32; ++octet, quants += 8) {
    const int high = block.qh[octet / 4] >> (2 * (octet % 4));  // its bits 0 and 1
    const GridPoint4& first = kIQ3_SGrid[block.qs[2 * octet] | (high & 1) << 8];
    const GridPoint4& second = kIQ3_SGrid[block.qs[2 * octet + 1] | (high & 2) << 7];
    CopySigned(Join(first, second), block.signs[octet], quants);
  }
  for (int group = 0; group < 8; ++group) {
    const int scale = 1 + 2 * NibbleAt(block.scales, group);
    std::fill_n(scales + 2 * group, 2, d * static_cast<float>(scale));
  }
}

// IQ1 elements are -1, 0 or 1, plus or minus 1/8: eight times them is a whole number, and an eighth
// of the scale is exact.
void UnpackIQ1Octet(int point, bool delta_is_negative, int8_t* quants) {
  const int eight_deltas = delta_is_negative ? -1 : 1;
  for (int j = 0; j < 8; ++j) {
    quants[j] = static_cast<int8_t>(8 * kIQ1Grid[point].elements[j] + eight_deltas);
  }
}

// d * (1 + 2 s) / 8, s the lower three bits of `bits`.
float EighthOfOdd(float d, int bits) {
  return d * static_cast<float>(1 + 2 * (bits & 0x07)) * 0.125f;
}

void UnpackIQ1_S(const BlockIQ1_S& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 8; ++group) {
    const uint16_t qh = block.qh[group];
    for (int octet = 0; octet < 4; ++octet, quants += 8) {
      const int high = qh >> (3 * octet) & 0x07;
      UnpackIQ1Octet(block.qs[4 * group + octet] | high << 8, (qh & 0x8000) != 0, quants);
    }
    std::fill_n(scales + 2 * group, 2, EighthOfOdd(d, qh >> 12));
  }
}

void UnpackIQ1_M(const BlockIQ1_M& block, int8_t* quants, float* scales) {
  for (int octet = 0; octet < 32; ++octet, quants += 8) {
    const int nibble = NibbleAt(block.qh, octet);
    UnpackIQ1Octet(block.qs[octet] | (nibble & 0x07) << 8, (nibble & 0x08) != 0, quants);
  }
  uint32_t d_bits = 0;
  for (int n = 0; n < 4; ++n) d_bits |= static_cast<uint32_t>(block.scales[n] >> 12) << (4 * n);
  const float d = F16ToF32(static_cast<uint16_t>(d_bits));
  for (int group = 0; group < 16; ++group) {
    scales[group] = EighthOfOdd(d, block.scales[group / 4] >> (3 * (group % 4)));
  }
}

// ------------------------------------------------------------ with their points looked up

// Numbers of two bits, or single bits, as they lie in such blocks.
int TwoBitsAt(const uint8_t* qs, int i) {
  return qs[i / 16 * 4 + i % 4] >> (2 * (i % 16 / 4)) & 0x03;
}
bool BitAt(const uint8_t* bits, int i) {
  return (bits[i / 32 * 4 + i % 4] >> (i % 32 / 4) & 1) != 0;
}

template <typename Block>
void UnpackIQ2Numbers(const Block& block, int8_t* quants) {
  for (int i = 0; i < Block::kElements; ++i) {
    const int8_t magnitude = kIQ2Magnitudes[static_cast<size_t>(TwoBitsAt(block.qs, i))];
    quants[i] = static_cast<int8_t>(BitAt(block.signs, i) ? -magnitude : magnitude);
  }
}

void UnpackThawedIQ2_XXS(const BlockThawedIQ2_XXS& block, int8_t* quants, float* scales) {
  UnpackIQ2Numbers(block, quants);
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    const float half_plus = 0.5f + static_cast<float>(NibbleAt(block.scales, g));
    std::fill_n(scales + 2 * g, 2, d * half_plus * 0.25f);
  }
}

void UnpackThawedIQ2_S(const BlockThawedIQ2_S& block, int8_t* quants, float* scales) {
  UnpackIQ2Numbers(block, quants);
  UnpackIQ2Scales(block, scales);
}

// The lower half of a table are the magnitudes, the upper half the same below zero.
constexpr std::array<int8_t, 16> WithNegatives(const std::array<int8_t, 8>& magnitudes) {
  std::array<int8_t, 16> levels = {};
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    levels[i] = magnitudes[i];
    levels[8 + i] = static_cast<int8_t>(-magnitudes[i]);
  }
  return levels;
}

void UnpackThawedIQ3_XXS(const BlockThawedIQ3_XXS& block, int8_t* quants, float* scales) {
  static constexpr std::array<int8_t, 16> kLevels = WithNegatives(kIQ3_XXSMagnitudes);
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    LookUpNibbles(block.qs + 16 * g, 16, kLevels, quants + 32 * g);
    const float half_plus = 0.5f + static_cast<float>(NibbleAt(block.scales, g));
    std::fill_n(scales + 2 * g, 2, d * half_plus * 0.5f);
  }
}

void UnpackThawedIQ3_S(const BlockThawedIQ3_S& block, int8_t* quants, float* scales) {
  static constexpr std::array<int8_t, 16> kLevels = WithNegatives(kIQ3_SMagnitudes);
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    LookUpNibbles(block.qs + 16 * g, 16, kLevels, quants + 32 * g);
    std::fill_n(scales + 2 * g, 2, d * static_cast<float>(1 + 2 * NibbleAt(block.scales, g)));
  }
}

void UnpackThawedIQ1_S(const BlockThawedIQ1_S& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    const int nibble = NibbleAt(block.scales, g);
    for (int i = 32 * g; i < 32 * (g + 1); ++i) {
      quants[i] = EightOfIQ1(TwoBitsAt(block.qs, i), (nibble & 0x08) != 0);
    }
    std::fill_n(scales + 2 * g, 2, EighthOfOdd(d, nibble));
  }
}

void UnpackThawedIQ1_M(const BlockThawedIQ1_M& block, int8_t* quants, float* scales) {
  for (int i = 0; i < BlockThawedIQ1_M::kElements; ++i) {
    const bool is_less = (NibbleAt(block.less, i / 32) >> (i % 32 / 8) & 1) != 0;
    quants[i] = EightOfIQ1(TwoBitsAt(block.qs, i), is_less);
  }
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 16; ++group) {
    scales[group] = EighthOfOdd(d, NibbleAt(block.scales, group));
  }
}

constexpr auto kGridUnpackers = std::to_array<RowUnpacker>({
    {ElementType::kIQ1_S, false, UnpackRow<BlockIQ1_S, UnpackIQ1_S>},
    {ElementType::kIQ1_M, false, UnpackRow<BlockIQ1_M, UnpackIQ1_M>},
    {ElementType::kIQ2_XXS, false, UnpackRow<BlockIQ2_XXS, UnpackIQ2_XXS>},
    {ElementType::kIQ2_XS, false, UnpackRow<BlockIQ2_XS, UnpackIQ2_XS>},
    {ElementType::kIQ2_S, false, UnpackRow<BlockIQ2_S, UnpackIQ2_S>},
    {ElementType::kIQ3_XXS, false, UnpackRow<BlockIQ3_XXS, UnpackIQ3_XXS>},
    {ElementType::kIQ3_S, false, UnpackRow<BlockIQ3_S, UnpackIQ3_S>},
    {ElementType::kThawedIQ2_XXS, false, UnpackRow<BlockThawedIQ2_XXS, UnpackThawedIQ2_XXS>},
    {ElementType::kThawedIQ2_S, false, UnpackRow<BlockThawedIQ2_S, UnpackThawedIQ2_S>},
    {ElementType::kThawedIQ3_XXS, false, UnpackRow<BlockThawedIQ3_XXS, UnpackThawedIQ3_XXS>},
    {ElementType::kThawedIQ3_S, false, UnpackRow<BlockThawedIQ3_S, UnpackThawedIQ3_S>},
    {ElementType::kThawedIQ1_S, false, UnpackRow<BlockThawedIQ1_S, UnpackThawedIQ1_S>},
    {ElementType::kThawedIQ1_M, false, UnpackRow<BlockThawedIQ1_M, UnpackThawedIQ1_M>},
});

}  // namespace

std::span<const RowUnpacker> GridUnpackers() { return kGridUnpackers; }

}  // namespace thaw
