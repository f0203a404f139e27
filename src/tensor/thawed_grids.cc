#include "tensor/thawed_grids.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/load.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/spread_bits.h"

namespace thaw {
namespace {

constexpr int kGroups = 8;  // of 32 elements, in a block
constexpr int kOctets = 4;  // in a group

constexpr auto kSignsOfSeven = [] {
  std::array<uint8_t, 128> signs{};
  for (uint32_t seven = 0; seven < signs.size(); ++seven) signs[seven] = SignsWithParity(seven);
  return signs;
}();

// The signs of four octets, whose sevens of bits follow each other.
uint32_t SignsOfSevens(uint32_t sevens) {
  uint32_t signs = 0;
  for (int octet = 0; octet < kOctets; ++octet) {
    signs |= static_cast<uint32_t>(kSignsOfSeven[sevens >> 7 * octet & 0x7f]) << 8 * octet;
  }
  return signs;
}

void StoreWord(uint32_t word, uint8_t* to) { std::memcpy(to, &word, sizeof(word)); }

uint32_t LoadWord(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The numbers of a group of 32 elements, two bits each; point(octet) is that of eight.
template <typename Codes, typename Point>
void StorePairs(const Codes& codes, const Point& point, uint8_t* qs) {
  const auto octet = [&](int i) {
    const size_t at = point(i);
    return SpreadPairs(codes.first[at]) | SpreadPairs(codes.second[at]) << 2;
  };
  StoreWord(octet(0) | octet(1) << 4, qs);
  StoreWord(octet(2) | octet(3) << 4, qs + 4);
}

// The numbers of a group, three bits and a sign each; point(quad) is that of four elements.
template <typename Codes, typename Point>
void StoreNibbles(const Codes& codes, const Point& point, uint32_t signs, uint8_t* qs) {
  const auto quad = [&](int i) {
    return SpreadNibbles(codes[point(i)]) | SpreadFourBits(signs >> 4 * i) << 3;
  };
  for (int i = 0; i < 4; ++i) StoreWord(quad(i) | quad(4 + i) << 4, qs + 4 * i);
}

void ThawBlock(const BlockIQ2_XXS& block, BlockThawedIQ2_XXS& thawed) {
  thawed.d = block.d;
  uint32_t scales = 0;
  for (int g = 0; g < kGroups; ++g) {
    const BlockIQ2_XXS::Group& group = block.groups[g];
    const uint32_t word = LoadWord(group.signs_and_scale);
    scales |= word >> 28 << 4 * g;
    StorePairs(
        kIQ2_XXSCodeBytes, [&](int octet) { return group.grid[octet]; }, thawed.qs + 8 * g);
    StoreWord(SpreadBits(SignsOfSevens(word)), thawed.signs + 4 * g);
  }
  StoreWord(scales, thawed.scales);
}

void ThawBlock(const BlockIQ2_XS& block, BlockThawedIQ2_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const uint16_t* qs = block.qs + kOctets * g;
    StorePairs(
        kIQ2_XSCodeBytes, [&](int octet) { return qs[octet] & 0x1ff; }, thawed.qs + 8 * g);
    uint32_t sevens = 0;
    for (int octet = 0; octet < kOctets; ++octet) {
      sevens |= static_cast<uint32_t>(qs[octet] >> 9) << 7 * octet;
    }
    StoreWord(SpreadBits(SignsOfSevens(sevens)), thawed.signs + 4 * g);
  }
}

void ThawBlock(const BlockIQ2_S& block, BlockThawedIQ2_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const auto point = [&](int octet) {
      return block.qs[kOctets * g + octet] | (block.qh[g] >> 2 * octet & 3) << 8;
    };
    StorePairs(kIQ2_SCodeBytes, point, thawed.qs + 8 * g);
    StoreWord(SpreadBits(LoadWord(block.signs + 4 * g)), thawed.signs + 4 * g);
  }
}

void ThawBlock(const BlockIQ3_XXS& block, BlockThawedIQ3_XXS& thawed) {
  thawed.d = block.d;
  uint32_t scales = 0;
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t word = LoadWord(block.signs_and_scale[g]);
    scales |= word >> 28 << 4 * g;
    StoreNibbles(
        kIQ3_XXSCodes, [&](int quad) { return block.qs[8 * g + quad]; }, SignsOfSevens(word),
        thawed.qs + 16 * g);
  }
  StoreWord(scales, thawed.scales);
}

void ThawBlock(const BlockIQ3_S& block, BlockThawedIQ3_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const auto point = [&](int quad) {
      return block.qs[8 * g + quad] | (block.qh[g] >> quad & 1) << 8;
    };
    StoreNibbles(kIQ3_SCodes, point, LoadWord(block.signs + 4 * g), thawed.qs + 16 * g);
  }
}

void ThawBlock(const BlockIQ1_S& block, BlockThawedIQ1_S& thawed) {
  thawed.d = block.d;
  uint32_t scales = 0;
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t qh = block.qh[g];
    scales |= qh >> 12 << 4 * g;
    const auto point = [&](int octet) {
      return block.qs[kOctets * g + octet] | (qh >> 3 * octet & 7) << 8;
    };
    StorePairs(kIQ1CodeBytes, point, thawed.qs + 8 * g);
  }
  StoreWord(scales, thawed.scales);
}

void ThawBlock(const BlockIQ1_M& block, BlockThawedIQ1_M& thawed) {
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = block.scales[i];
    d |= word >> 12 << 4 * i;
    // Four numbers of three bits in the lower nibbles.
    const uint32_t scales =
        (word & 7) | (word & 0x38) << 1 | (word & 0x1c0) << 2 | (word & 0xe00) << 3;
    thawed.scales[2 * i] = static_cast<uint8_t>(scales);
    thawed.scales[2 * i + 1] = static_cast<uint8_t>(scales >> 8);
  }
  thawed.d = static_cast<uint16_t>(d);
  uint32_t less = 0;
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t nibbles = block.qh[2 * g] | block.qh[2 * g + 1] << 8;
    for (int octet = 0; octet < kOctets; ++octet) {
      less |= (nibbles >> (4 * octet + 3) & 1) << (4 * g + octet);
    }
    const auto point = [&](int octet) {
      return block.qs[kOctets * g + octet] | (nibbles >> 4 * octet & 7) << 8;
    };
    StorePairs(kIQ1CodeBytes, point, thawed.qs + 8 * g);
  }
  StoreWord(less, thawed.less);
}

template <typename Block, typename Thawed>
void ThawRow(int64_t k, const std::byte* row, std::byte* thawed) {
  for (int64_t i = 0; i < k; i += Block::kElements) {
    Thawed block;
    ThawBlock(LoadAs<Block>(row), block);
    std::memcpy(thawed, &block, sizeof(block));
    row += sizeof(Block);
    thawed += sizeof(block);
  }
}

struct Grid {
  ElementType type;
  ElementType thawed;
  void (*thaw_row)(int64_t k, const std::byte* row, std::byte* thawed);
};

constexpr auto kGrids = std::to_array<Grid>({
    {ElementType::kIQ1_S, ElementType::kThawedIQ1_S, ThawRow<BlockIQ1_S, BlockThawedIQ1_S>},
    {ElementType::kIQ1_M, ElementType::kThawedIQ1_M, ThawRow<BlockIQ1_M, BlockThawedIQ1_M>},
    {ElementType::kIQ2_XXS, ElementType::kThawedIQ2_XXS, ThawRow<BlockIQ2_XXS, BlockThawedIQ2_XXS>},
    {ElementType::kIQ2_XS, ElementType::kThawedIQ2_S, ThawRow<BlockIQ2_XS, BlockThawedIQ2_S>},
    {ElementType::kIQ2_S, ElementType::kThawedIQ2_S, ThawRow<BlockIQ2_S, BlockThawedIQ2_S>},
    {ElementType::kIQ3_XXS, ElementType::kThawedIQ3_XXS, ThawRow<BlockIQ3_XXS, BlockThawedIQ3_XXS>},
    {ElementType::kIQ3_S, ElementType::kThawedIQ3_S, ThawRow<BlockIQ3_S, BlockThawedIQ3_S>},
});

const Grid* FindGrid(ElementType type) {
  const auto* const found = std::ranges::find(kGrids, type, &Grid::type);
  return found == kGrids.end() ? nullptr : found;
}

}  // namespace

ElementType ThawedGridType(ElementType type) {
  const Grid* grid = FindGrid(type);
  return grid == nullptr ? type : grid->thawed;
}

void ThawGridRow(ElementType type, int64_t k, const std::byte* row, std::byte* thawed) {
  const Grid* grid = FindGrid(type);
  THAW_CHECK(grid != nullptr && k % Info(type).block_elements == 0);
  grid->thaw_row(k, row, thawed);
}

}  // namespace thaw
