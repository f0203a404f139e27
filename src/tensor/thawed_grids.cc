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

// Of a byte of signs, what of_signs makes of it; and of the seven bits that stand for one.
template <typename OfSigns>
struct SignTables {
  using Word = decltype(OfSigns()(0U));

  constexpr SignTables() {
    for (uint32_t signs = 0; signs < 256; ++signs) of_byte[signs] = OfSigns()(signs);
    for (uint32_t seven = 0; seven < 128; ++seven)
      of_seven[seven] = of_byte[SignsWithParity(seven)];
  }

  std::array<Word, 256> of_byte = {};
  std::array<Word, 128> of_seven = {};
};

// That of element i in byte i % 4, those of the last four behind those of the first.
constexpr SignTables<decltype([](uint32_t signs) {
  return SpreadFourBits(signs) | SpreadFourBits(signs >> 4) << 1;
})>
    kSignWords;

// That of element i is bit 3 of byte i.
constexpr SignTables<decltype([](uint32_t signs) {
  return uint64_t{SpreadFourBits(signs >> 4)} << 35 | uint64_t{SpreadFourBits(signs)} << 3;
})>
    kSignLongs;

template <typename Word>
void Store(Word word, uint8_t* to) {
  std::memcpy(to, &word, sizeof(word));
}

uint32_t LoadWord(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The numbers of a group of 32 elements, two bits each; point(octet) is that of eight.
template <typename Words, typename Point>
void StorePairs(const Words& words, const Point& point, uint8_t* qs) {
  const auto octet = [&](int i) { return words[static_cast<size_t>(point(i))]; };
  Store(octet(0) | octet(1) << 4, qs);
  Store(octet(2) | octet(3) << 4, qs + 4);
}

// Their signs; word(octet) is that of kSignWords.
template <typename Word>
void StoreSigns(const Word& word, uint8_t* signs) {
  Store(word(0) | word(1) << 2 | word(2) << 4 | word(3) << 6, signs);
}

// The numbers of a group, three bits and a sign each: point(quad) is that of four elements,
// sign(octet) the signs of eight as in kSignLongs.
template <typename Words, typename Point, typename Sign>
void StoreNibbles(const Words& words, const Point& point, const Sign& sign, uint8_t* qs) {
  const auto octet = [&](int i) {
    const uint64_t first = words[static_cast<size_t>(point(2 * i))];
    const uint64_t second = words[static_cast<size_t>(point(2 * i + 1))];
    return first | second << 32 | sign(i);
  };
  Store(octet(0) | octet(2) << 4, qs);
  Store(octet(1) | octet(3) << 4, qs + 8);
}

// Of four sevens of bits that follow each other, what a table has for each.
template <typename Tables>
auto OfSevens(const Tables& tables, uint32_t sevens) {
  return [&tables, sevens](int octet) { return tables.of_seven[sevens >> 7 * octet & 0x7f]; };
}

void ThawBlock(const BlockIQ2_XXS& block, BlockThawedIQ2_XXS& thawed) {
  thawed.d = block.d;
  uint32_t scales = 0;
  for (int g = 0; g < kGroups; ++g) {
    const BlockIQ2_XXS::Group& group = block.groups[g];
    const uint32_t word = LoadWord(group.signs_and_scale);
    scales |= word >> 28 << 4 * g;
    StorePairs(
        kIQ2_XXSCodeWords, [&](int octet) { return group.grid[octet]; }, thawed.qs + 8 * g);
    StoreSigns(OfSevens(kSignWords, word), thawed.signs + 4 * g);
  }
  Store(scales, thawed.scales);
}

void ThawBlock(const BlockIQ2_XS& block, BlockThawedIQ2_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const uint16_t* qs = block.qs + kOctets * g;
    StorePairs(
        kIQ2_XSCodeWords, [&](int octet) { return qs[octet] & 0x1ff; }, thawed.qs + 8 * g);
    StoreSigns([&](int octet) { return kSignWords.of_seven[qs[octet] >> 9]; },
               thawed.signs + 4 * g);
  }
}

void ThawBlock(const BlockIQ2_S& block, BlockThawedIQ2_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const auto point = [&](int octet) {
      return block.qs[kOctets * g + octet] | (block.qh[g] >> 2 * octet & 3) << 8;
    };
    StorePairs(kIQ2_SCodeWords, point, thawed.qs + 8 * g);
    StoreSigns([&](int octet) { return kSignWords.of_byte[block.signs[kOctets * g + octet]]; },
               thawed.signs + 4 * g);
  }
}

void ThawBlock(const BlockIQ3_XXS& block, BlockThawedIQ3_XXS& thawed) {
  thawed.d = block.d;
  uint32_t scales = 0;
  for (int g = 0; g < kGroups; ++g) {
    const uint32_t word = LoadWord(block.signs_and_scale[g]);
    scales |= word >> 28 << 4 * g;
    StoreNibbles(
        kIQ3_XXSCodeWords, [&](int quad) { return block.qs[8 * g + quad]; },
        OfSevens(kSignLongs, word), thawed.qs + 16 * g);
  }
  Store(scales, thawed.scales);
}

void ThawBlock(const BlockIQ3_S& block, BlockThawedIQ3_S& thawed) {
  thawed.d = block.d;
  std::ranges::copy(block.scales, thawed.scales);
  for (int g = 0; g < kGroups; ++g) {
    const auto point = [&](int quad) {
      return block.qs[8 * g + quad] | (block.qh[g] >> quad & 1) << 8;
    };
    StoreNibbles(
        kIQ3_SCodeWords, point,
        [&](int octet) { return kSignLongs.of_byte[block.signs[kOctets * g + octet]]; },
        thawed.qs + 16 * g);
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
    StorePairs(kIQ1CodeWords, point, thawed.qs + 8 * g);
  }
  Store(scales, thawed.scales);
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
    StorePairs(kIQ1CodeWords, point, thawed.qs + 8 * g);
  }
  Store(less, thawed.less);
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
