#include "tensor/packed_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/blocks.h"

namespace thaw {
namespace {

constexpr ElementType kPackable[] = {
    ElementType::kF32,         ElementType::kF16,           ElementType::kBF16,
    ElementType::kQ4_0,        ElementType::kQ4_1,          ElementType::kQ5_0,
    ElementType::kQ5_1,        ElementType::kQ8_0,          ElementType::kQ2_K,
    ElementType::kQ3_K,        ElementType::kQ4_K,          ElementType::kQ5_K,
    ElementType::kQ6_K,        ElementType::kIQ4_NL,        ElementType::kIQ4_XS,
    ElementType::kMXFP4,       ElementType::kNVFP4,         ElementType::kTQ1_0,
    ElementType::kTQ2_0,       ElementType::kIQ1_S,         ElementType::kIQ1_M,
    ElementType::kIQ2_XXS,     ElementType::kIQ2_XS,        ElementType::kIQ2_S,
    ElementType::kIQ3_XXS,     ElementType::kIQ3_S,         ElementType::kThawedIQ2_XXS,
    ElementType::kThawedIQ2_S, ElementType::kThawedIQ3_XXS, ElementType::kThawedIQ3_S,
    ElementType::kThawedIQ1_S, ElementType::kThawedIQ1_M,
};

std::vector<std::byte> RandomBytes(int64_t n, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::byte> Packed(ElementType type, int64_t k, int64_t n_rows,
                              const std::vector<std::byte>& rows) {
  std::vector<std::byte> packed(rows.size());
  std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(type, k)));
  PackRows(type, k, n_rows, rows.data(), packed.data(), scratch.data());
  return packed;
}

TEST(PackedRows, EveryRowComesBackBitForBit) {
  std::mt19937 random(1);
  for (const ElementType type : kPackable) {
    const int64_t block = std::max<int64_t>(Info(type).block_elements, 2);
    for (const int64_t blocks : {1, 2, 3, 4, 5, 9}) {
      for (const int64_t n_rows : {1, 15, 16, 17, 48, 50}) {
        const int64_t k = blocks * block;
        ASSERT_TRUE(CanPackRows(type, k));
        const int64_t row_bytes = RowBytes(type, k);
        const std::vector<std::byte> rows = RandomBytes(n_rows * row_bytes, random);
        const std::vector<std::byte> packed = Packed(type, k, n_rows, rows);
        std::vector<std::byte> row(static_cast<size_t>(row_bytes));
        for (int64_t r = 0; r < n_rows; ++r) {
          CopyPackedRow(type, k, n_rows, packed.data(), r, row.data());
          ASSERT_EQ(0, std::memcmp(row.data(), rows.data() + r * row_bytes, row.size()))
              << Info(type).name << " row " << r << " of " << n_rows << ", k " << k;
        }
      }
    }
  }
}

TEST(PackedRows, RowsArePackedWhereTheyLieAndFromAbove) {
  std::mt19937 random(2);
  constexpr int64_t kLength = 768;
  constexpr int64_t kRows = 37;
  for (const ElementType type : kPackable) {
    const std::vector<std::byte> rows = RandomBytes(kRows * RowBytes(type, kLength), random);
    const std::vector<std::byte> expected = Packed(type, kLength, kRows, rows);
    std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(type, kLength)));
    for (const size_t lead : {0, 1, 32, 512, 4064}) {
      std::vector<std::byte> memory(rows.size() + lead);
      std::memcpy(memory.data() + lead, rows.data(), rows.size());
      PackRows(type, kLength, kRows, memory.data() + lead, memory.data(), scratch.data());
      ASSERT_EQ(0, std::memcmp(memory.data(), expected.data(), expected.size()))
          << Info(type).name << " from " << lead << " bytes above";
    }
  }
}

// The layout itself, as the header states it: a unit of blocks, and numbers of five bits.
TEST(PackedRows, LieAsDocumented) {
  std::mt19937 random(3);
  constexpr int64_t kBlocks = 3;
  const std::vector<std::byte> rows =
      RandomBytes(16 * kBlocks * int64_t{sizeof(BlockQ5_0)}, random);
  const std::vector<std::byte> packed = Packed(ElementType::kQ5_0, kBlocks * 32, 16, rows);
  const auto byte_at = [&](int64_t at) {
    return static_cast<uint8_t>(packed[static_cast<size_t>(at)]);
  };
  constexpr int64_t kBlockBodyBytes = 16 * 20;
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t index = 0; index < kBlocks; ++index) {
      BlockQ5_0 b;
      std::memcpy(&b, rows.data() + (row * kBlocks + index) * int64_t{sizeof(b)}, sizeof(b));
      const int64_t unit = index / 2 * 2 * 16 * int64_t{sizeof(BlockQ5_0)};
      const int64_t blocks_in_unit = index < 2 ? 2 : 1;
      const int64_t d = unit + index % 2 * 32 + 2 * row;
      EXPECT_EQ(byte_at(d) | byte_at(d + 1) << 8, b.d);
      const int64_t body = unit + blocks_in_unit * 32 + index % 2 * kBlockBodyBytes;
      for (int64_t i = 0; i < 4; ++i) {
        const auto n = [&](int64_t j) {
          const int64_t element = 4 * j + i;
          const int low = b.qs[element % 16] >> (element / 16 * 4) & 15;
          return low | (b.qh[element / 8] >> (element % 8) & 1) << 4;
        };
        const auto line = [&](int64_t l) { return int{byte_at(body + 64 * l + 4 * row + i)}; };
        EXPECT_EQ(line(0), n(0) | (n(5) & 7) << 5);
        EXPECT_EQ(line(1), n(1) | (n(6) & 7) << 5);
        EXPECT_EQ(line(2), n(2) | (n(7) & 7) << 5);
        EXPECT_EQ(line(3), n(3) | n(5) >> 3 << 5 | (n(7) >> 3 & 1) << 7);
        EXPECT_EQ(line(4), n(4) | n(6) >> 3 << 5 | n(7) >> 4 << 7);
      }
    }
  }
}

// Calls check(block, step, i, line) for every byte i of a step of a row: line(l) is that byte of
// line l.
template <typename Block, typename Check>
void ForEachByteOfSteps(ElementType type, int64_t first_line, int bits, const Check& check) {
  std::mt19937 random(4);
  constexpr int64_t kBlockBytes = sizeof(Block);
  const std::vector<std::byte> rows = RandomBytes(16 * kBlockBytes, random);
  const std::vector<std::byte> packed = Packed(type, 256, 16, rows);
  const int64_t lead = 16 * (kBlockBytes - 4 * (first_line + int64_t{8} * bits));
  for (int64_t row = 0; row < 16; ++row) {
    Block block;
    std::memcpy(&block, rows.data() + row * kBlockBytes, sizeof(block));
    for (int step = 0; step < 8; ++step) {
      for (int i = 0; i < 4; ++i) {
        check(block, step, i, [&](int64_t l) {
          const int64_t line = first_line + bits * step + l;
          return static_cast<int>(packed[static_cast<size_t>(lead + 64 * line + 4 * row + i)]);
        });
      }
    }
  }
}

TEST(PackedRows, NumbersOfTwoBitsLieAsDocumented) {
  const auto check = [](const auto& b, int step, int i, const auto& line) {
    const auto n = [&](int j) { return b.qs[step / 4 * 32 + 4 * j + i] >> (step % 4 * 2) & 3; };
    EXPECT_EQ(line(0), n(0) | n(1) << 2 | n(2) << 4 | n(3) << 6);
    EXPECT_EQ(line(1), n(4) | n(5) << 2 | n(6) << 4 | n(7) << 6);
  };
  ForEachByteOfSteps<BlockQ2_K>(ElementType::kQ2_K, 4, 2, check);
  ForEachByteOfSteps<BlockTQ2_0>(ElementType::kTQ2_0, 0, 2, check);
}

TEST(PackedRows, NumbersOfThreeBitsLieAsDocumented) {
  ForEachByteOfSteps<BlockQ3_K>(
      ElementType::kQ3_K, 3, 3, [](const BlockQ3_K& b, int step, int i, const auto& line) {
        const auto n = [&](int j) {
          const int low = b.qs[step / 4 * 32 + 4 * j + i] >> (step % 4 * 2) & 3;
          return low | (b.hmask[4 * j + i] >> step & 1) << 2;
        };
        EXPECT_EQ(line(0), n(0) | n(1) << 3 | (n(6) & 3) << 6);
        EXPECT_EQ(line(1), n(2) | n(3) << 3 | (n(7) & 3) << 6);
        EXPECT_EQ(line(2), n(4) | n(5) << 3 | n(6) >> 2 << 6 | n(7) >> 2 << 7);
      });
}

TEST(PackedRows, NumbersOfSixBitsLieAsDocumented) {
  ForEachByteOfSteps<BlockQ6_K>(
      ElementType::kQ6_K, 4, 6, [](const BlockQ6_K& b, int step, int i, const auto& line) {
        const auto n = [&](int j) {
          const int element = 4 * j + i;
          const int half = step / 4;
          const int of_half = step % 4;
          const int low = b.ql[64 * half + of_half % 2 * 32 + element] >> (of_half / 2 * 4) & 15;
          return low | (b.qh[32 * half + element] >> (2 * of_half) & 3) << 4;
        };
        for (int l = 0; l < 6; ++l) {
          EXPECT_EQ(line(l), n(l) | (n(6 + l / 3) >> (l % 3 * 2) & 3) << 6);
        }
      });
}

TEST(PackedRows, AreNotForEveryTypeNorForHalvesOfOddLength) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const bool expected = std::ranges::find(kPackable, info.type) != std::end(kPackable);
    EXPECT_EQ(CanPackRows(info.type, 256), expected) << info.name;
  }
  EXPECT_FALSE(CanPackRows(ElementType::kF16, 33));
  EXPECT_FALSE(CanPackRows(ElementType::kBF16, 1));
  EXPECT_TRUE(CanPackRows(ElementType::kF32, 33));
}

}  // namespace
}  // namespace thaw
