// Heads of frozen tensors: written and read, and refused where they break the format.
#include "codec/frozen_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"

namespace thaw {
namespace {

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

TEST(FrozenTensor, ABlobThatEndsInItsHeadIsRefused) {
  auto bytes = BlobOf(SmallTensor());
  bytes.resize(7 + 64 + 30);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("expected more than its directory"));
  bytes.resize(7 + 60);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("has 60 bytes, expected 64 or more"));
}

}  // namespace
}  // namespace thaw
