// What rows of grids look like with their points looked up; that their values are the same is shown
// in kernels/dequantize_test.cc.
#include "tensor/thawed_grids.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/spread_bits.h"

namespace thaw {
namespace {

template <typename Block, typename Thawed>
Thawed ThawedBlock(ElementType type, const Block& block) {
  Thawed thawed;
  ThawGridRow(type, Block::kElements, reinterpret_cast<const std::byte*>(&block),
              reinterpret_cast<std::byte*>(&thawed));
  return thawed;
}

TEST(SpreadBits, PutsEachWhereVectorsFindIt) {
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(SpreadBits(1U << i), 1U << (8 * (i % 4) + i / 4)) << i;
  }
  EXPECT_EQ(SpreadFourBits(0b1101), 0x01010001U);
  EXPECT_EQ(SpreadPairs(0b11'10'01'00), 0x03020100U);
  EXPECT_EQ(SpreadNibbles(0xf9a5), 0x0f090a05U);
}

TEST(ThawedGridType, IsTheTypeItselfWhereThereAreNoPoints) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const ElementTypeInfo& thawed = Info(ThawedGridType(info.type));
    EXPECT_EQ(ThawedGridType(thawed.type), thawed.type) << info.name;
    if (thawed.type == info.type) continue;
    EXPECT_TRUE(IsInFiles(info.type)) << info.name;
    EXPECT_FALSE(IsInFiles(thawed.type)) << info.name;
    EXPECT_EQ(thawed.block_elements, info.block_elements) << info.name;
    // Some more bytes, or nobody would keep points.
    EXPECT_GT(thawed.block_bytes, info.block_bytes) << info.name;
    EXPECT_LE(thawed.block_bytes, info.block_bytes * 8 / 5) << info.name;
  }
}

// Of one point in an otherwise empty block: where its numbers lie, and the signs.
TEST(ThawGridRow, LaysNumbersAndSignsOutByWords) {
  constexpr int kOctet = 5;  // elements 40 to 47: the second octet of the second group
  constexpr int kPoint = 1000;
  BlockIQ2_S block = {};
  block.d = 0x3c00;
  block.scales[3] = 0x9a;
  block.qs[kOctet] = kPoint & 0xff;
  block.qh[1] = kPoint >> 8 << 2;
  block.signs[kOctet] = 0b10010001;
  const auto thawed = ThawedBlock<BlockIQ2_S, BlockThawedIQ2_S>(ElementType::kIQ2_S, block);
  EXPECT_EQ(thawed.d, 0x3c00);
  EXPECT_EQ(thawed.scales[3], 0x9a);
  for (int i = 0; i < 8; ++i) {
    const int element = 8 * kOctet + i;
    const int number = thawed.qs[element / 16 * 4 + element % 4] >> (2 * (element % 16 / 4)) & 3;
    EXPECT_EQ(kIQ2Magnitudes[static_cast<size_t>(number)], kIQ2_SGrid[kPoint].elements[i]) << i;
    const int sign = thawed.signs[element / 32 * 4 + element % 4] >> (element % 32 / 4) & 1;
    EXPECT_EQ(sign, block.signs[kOctet] >> i & 1) << i;
  }
  int negative = 0;
  for (const uint8_t signs : thawed.signs) negative += std::popcount(signs);
  EXPECT_EQ(negative, 3);
}

TEST(ThawGridRow, PutsScalesThatLieApartTogether) {
  BlockIQ2_XXS block = {};
  for (int g = 0; g < 8; ++g) {
    block.groups[g].signs_and_scale[3] = static_cast<uint8_t>((15 - g) << 4);
  }
  const auto thawed = ThawedBlock<BlockIQ2_XXS, BlockThawedIQ2_XXS>(ElementType::kIQ2_XXS, block);
  for (int g = 0; g < 8; ++g) EXPECT_EQ(thawed.scales[g / 2] >> (4 * (g % 2)) & 15, 15 - g);

  BlockIQ1_M ones = {};
  const uint16_t d = 0x3a5c;
  for (int i = 0; i < 4; ++i) {
    ones.scales[i] = static_cast<uint16_t>((d >> 4 * i & 15) << 12 | 0b111'010'101'001);
  }
  for (uint8_t& bits : ones.qh) bits = 0x08;  // the first octet of each two is less
  const auto thawed_ones = ThawedBlock<BlockIQ1_M, BlockThawedIQ1_M>(ElementType::kIQ1_M, ones);
  EXPECT_EQ(thawed_ones.d, d);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(thawed_ones.scales[2 * i], 0x51);
    EXPECT_EQ(thawed_ones.scales[2 * i + 1], 0x72);
  }
  for (const uint8_t less : thawed_ones.less) EXPECT_EQ(less, 0x55);
}

TEST(ThawGridRowDeathTest, RefusesWhatIsNoGridAndPartBlocks) {
  std::byte bytes[256] = {};
  EXPECT_DEATH(ThawGridRow(ElementType::kQ4_K, 256, bytes, bytes), "grid");
  EXPECT_DEATH(ThawGridRow(ElementType::kIQ3_S, 128, bytes, bytes), "block_elements");
}

}  // namespace
}  // namespace thaw
