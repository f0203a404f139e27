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
    ElementType::kF32,     ElementType::kF16,     ElementType::kBF16,   ElementType::kQ4_0,
    ElementType::kQ4_1,    ElementType::kQ5_0,    ElementType::kQ5_1,   ElementType::kQ8_0,
    ElementType::kQ2_K,    ElementType::kQ3_K,    ElementType::kQ4_K,   ElementType::kQ5_K,
    ElementType::kQ6_K,    ElementType::kIQ4_NL,  ElementType::kIQ4_XS, ElementType::kMXFP4,
    ElementType::kNVFP4,   ElementType::kTQ1_0,   ElementType::kTQ2_0,  ElementType::kIQ1_S,
    ElementType::kIQ1_M,   ElementType::kIQ2_XXS, ElementType::kIQ2_XS, ElementType::kIQ2_S,
    ElementType::kIQ3_XXS, ElementType::kIQ3_S,
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

// The layout itself, as the header states it, on a type with every kind of element but one byte.
TEST(PackedRows, LieAsDocumented) {
  std::mt19937 random(3);
  constexpr int64_t kBlocks = 3;
  const std::vector<std::byte> rows =
      RandomBytes(16 * kBlocks * int64_t{sizeof(BlockQ5_0)}, random);
  const std::vector<std::byte> packed = Packed(ElementType::kQ5_0, kBlocks * 32, 16, rows);
  const auto block = [&](int64_t row, int64_t index) {
    BlockQ5_0 b;
    std::memcpy(&b, rows.data() + (row * kBlocks + index) * int64_t{sizeof(b)}, sizeof(b));
    return b;
  };
  const auto byte_at = [&](int64_t at) {
    return static_cast<uint8_t>(packed[static_cast<size_t>(at)]);
  };
  constexpr int64_t kBlockBodyBytes = 16 * 20;
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t index = 0; index < kBlocks; ++index) {
      const BlockQ5_0 b = block(row, index);
      const int64_t unit = index / 2 * 2 * 16 * int64_t{sizeof(BlockQ5_0)};
      const int64_t blocks_in_unit = index < 2 ? 2 : 1;
      const int64_t d = unit + index % 2 * 32 + 2 * row;
      EXPECT_EQ(byte_at(d) | byte_at(d + 1) << 8, b.d);
      const int64_t body = unit + blocks_in_unit * 32 + index % 2 * kBlockBodyBytes;
      for (int64_t element = 0; element < 32; ++element) {
        const int64_t j = element / 4;
        const int64_t within = element % 4;
        const int bit = byte_at(body + 4 * row + within) >> j & 1;
        EXPECT_EQ(bit, b.qh[element / 8] >> (element % 8) & 1) << "element " << element;
      }
      for (int64_t i = 0; i < 16; ++i) {
        EXPECT_EQ(byte_at(body + 64 + i / 4 * 64 + 4 * row + i % 4), b.qs[i]);
      }
    }
  }
}

// Two fields by turns, and what of the longer one is left.
TEST(PackedRows, LieByTurnsAsDocumented) {
  std::mt19937 random(4);
  const std::vector<std::byte> rows = RandomBytes(16 * int64_t{sizeof(BlockQ6_K)}, random);
  const std::vector<std::byte> packed = Packed(ElementType::kQ6_K, 256, 16, rows);
  for (size_t row = 0; row < 16; ++row) {
    BlockQ6_K b;
    std::memcpy(&b, rows.data() + row * sizeof(b), sizeof(b));
    // Byte i of the line that begins at `line`, of this row.
    const auto byte_at = [&](size_t line, size_t i) {
      return static_cast<uint8_t>(packed[16 * sizeof(b.d) + 64 * line + 4 * row + i]);
    };
    for (size_t half = 0; half < 2; ++half) {
      const size_t first = 4 + 24 * half;  // behind four lines of scales
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_EQ(byte_at(first + 2 * (i / 4), i % 4), b.qh[32 * half + i]);
        EXPECT_EQ(byte_at(first + 2 * (i / 4) + 1, i % 4), b.ql[64 * half + i]);
        EXPECT_EQ(byte_at(first + 16 + i / 4, i % 4), b.ql[64 * half + 32 + i]);
      }
    }
  }
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
