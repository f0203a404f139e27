// Heads of frozen tensors: written and read, and refused where they break the format.
#include "codec/frozen_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"

namespace thaw {
namespace {

using testing::AllOf;
using testing::HasSubstr;

FrozenTensor SmallTensor() {
  FrozenTensor tensor{.kind = FrozenKind::kEcq,
                      .dimensions = 3,
                      .cols = 64,
                      .rows = 80,
                      .matrices = 2,
                      .rows_per_stream = 16,
                      .streams_per_tile = 2,
                      .tiles = {}};
  auto offset = static_cast<uint64_t>(FrozenHeadBytes(6));
  for (uint64_t i = 0; i < 6; ++i) {
    tensor.tiles.push_back({.offset = offset, .bytes = 64 * (i + 1), .hash = i});
    offset += 64 * (i + 1);
  }
  return tensor;
}

// The blob of the tensor, its tiles all zeros, and 7 bytes before it.
std::vector<std::byte> BlobOf(const FrozenTensor& tensor) {
  std::vector<std::byte> bytes(7);
  const std::vector<std::byte> head = FrozenHead(tensor);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.resize(7 + tensor.tiles.back().offset + tensor.tiles.back().bytes);
  return bytes;
}

std::string ErrorOf(std::vector<std::byte> bytes) {
  const uint64_t size = bytes.size() - 7;
  const MemoryFile file("x.gguf", std::move(bytes));
  const auto read = ReadFrozenTensor(file, "w", 7, size);
  return read ? "" : read.error().message;
}

TEST(FrozenTensor, ComesBackAsItWasWritten) {
  const FrozenTensor made = SmallTensor();
  auto bytes = BlobOf(made);
  const uint64_t size = bytes.size() - 7;
  const MemoryFile file("x.gguf", std::move(bytes));
  const auto read = ReadFrozenTensor(file, "w", 7, size);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->dimensions, 3);
  EXPECT_EQ(read->cols, 64);
  EXPECT_EQ(read->rows, 80);
  EXPECT_EQ(read->matrices, 2);
  EXPECT_EQ(read->tiles_per_matrix(), 3);
  ASSERT_EQ(read->tiles.size(), 6U);
  EXPECT_EQ(read->tiles[5].offset, made.tiles[5].offset + 7);
  EXPECT_EQ(read->tiles[5].hash, 5U);
}

TEST(FrozenTensor, EveryChangedByteOfItsHeadIsNoticed) {
  const auto good = BlobOf(SmallTensor());
  ASSERT_EQ(ErrorOf(good), "");
  for (size_t i = 7; i < 7 + 64 + 6 * 24; ++i) {
    auto changed = good;
    changed[i] ^= std::byte{0x10};
    EXPECT_THAT(ErrorOf(changed), HasSubstr("x.gguf: frozen tensor 'w' at offset")) << i;
  }
}

TEST(FrozenTensor, WhatBreaksTheFormatIsNamed) {
  FrozenTensor tensor = SmallTensor();
  tensor.cols = 48;
  EXPECT_THAT(ErrorOf(BlobOf(tensor)), HasSubstr("cols is 48, expected a multiple of 32"));
  tensor = SmallTensor();
  tensor.rows = 8;
  EXPECT_THAT(ErrorOf(BlobOf(tensor)), HasSubstr("rows is 8"));
  tensor = SmallTensor();
  tensor.dimensions = 2;
  EXPECT_THAT(ErrorOf(BlobOf(tensor)), HasSubstr("matrices is 2, expected 1"));
  tensor = SmallTensor();
  tensor.tiles[1].offset += 64;
  EXPECT_THAT(ErrorOf(BlobOf(tensor)), HasSubstr("tile 1 begins at byte"));
  tensor = SmallTensor();
  tensor.tiles[1].bytes = 100;
  EXPECT_THAT(ErrorOf(BlobOf(tensor)), HasSubstr("bytes of tile 1 is 100"));
  auto longer = BlobOf(SmallTensor());
  longer.resize(longer.size() + 64);
  EXPECT_THAT(ErrorOf(longer), HasSubstr("the tiles end at byte"));
}

TEST(FrozenTensor, RowsThatBeginAndEndWithATileAreATensorOfTheirOwn) {
  const FrozenTensor whole = SmallTensor();  // of 80 rows, tiles of 32, 32 and 16
  struct Case {
    int64_t first, rows;       // asked for
    size_t tile, tiles;        // expected: of these tiles
    int64_t of_one, matrices;  // rows of each matrix
  };
  for (const Case& c :
       {Case{0, 80, 0, 3, 80, 1}, Case{0, 32, 0, 1, 32, 1}, Case{32, 48, 1, 2, 48, 1},
        Case{64, 16, 2, 1, 16, 1}, Case{80, 64, 3, 2, 64, 1}, Case{80, 80, 3, 3, 80, 1},
        Case{0, 160, 0, 6, 80, 2}}) {
    SCOPED_TRACE(fmt::format("rows {} to {}", c.first, c.first + c.rows));
    const auto part = RowsOfFrozen(whole, c.first, c.rows);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->rows, c.of_one);
    EXPECT_EQ(part->matrices, c.matrices);
    EXPECT_EQ(part->rows_per_tile(), 32);
    ASSERT_EQ(part->tiles.size(), c.tiles);
    EXPECT_EQ(part->tiles_per_matrix() * part->matrices, static_cast<int64_t>(c.tiles));
    for (size_t i = 0; i < c.tiles; ++i) {
      EXPECT_EQ(part->tiles[i].offset, whole.tiles[c.tile + i].offset);
    }
  }
}

TEST(FrozenTensor, RowsThatShareATileWithOthersAreRefused) {
  const FrozenTensor whole = SmallTensor();
  for (const auto& [first, rows, at] :
       {std::tuple(16, 64, "row 16"), {0, 48, "row 48"}, {96, 64, "row 96"}, {80, 16, "row 96"}}) {
    const auto part = RowsOfFrozen(whole, first, rows);
    ASSERT_FALSE(part) << at;
    EXPECT_THAT(part.error().message, AllOf(HasSubstr("every 32 rows"), HasSubstr(at)));
  }
}

TEST(FrozenTensor, ABlobThatEndsInItsHeadIsRefused) {
  auto bytes = BlobOf(SmallTensor());
  bytes.resize(7 + 64 + 30);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("expected more than its directory"));
  bytes.resize(7 + 60);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("has 60 bytes, expected 64 or more"));
}

}  // namespace
}  // namespace thaw
