// Frozen tensors of files that another program wrote from docs/format.md: what they decode to, by
// every decoder, and what must be refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "codec/frozen_tensor.h"
#include "codec/tile_decoder.h"
#include "gguf/gguf_file.h"
#include "support/paths.h"
#include "support/read_file.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

std::filesystem::path Folder() { return GoldenDir() / "frozen"; }

std::vector<std::byte> TileBytes(const File& file, const FrozenTileEntry& tile) {
  std::vector<std::byte> bytes(tile.bytes);
  EXPECT_TRUE(ReadExactlyAt(file, tile.offset, bytes));
  return bytes;
}

int64_t RowsOfTile(const FrozenTensor& tensor, size_t tile) {
  const int64_t of_matrix = static_cast<int64_t>(tile) % tensor.tiles_per_matrix();
  return std::min(tensor.rows_per_tile(), tensor.rows - of_matrix * tensor.rows_per_tile());
}

// All rows as they would lie in a file; the first error, of the stage at which it was found.
struct Decoded {
  std::vector<std::byte> rows;
  std::string stage;
  std::string message;
};

Decoded Decode(const GgufFile& file, const TensorInfo& tensor, const TileDecoder& decoder) {
  Decoded decoded;
  const FrozenTensor& frozen = *tensor.frozen;
  const ElementType type = ThawedType(frozen.kind);
  for (size_t i = 0; i < frozen.tiles.size(); ++i) {
    const auto bytes = TileBytes(*file.file(tensor.file_index), frozen.tiles[i]);
    if (XXH3_64bits(bytes.data(), bytes.size()) != frozen.tiles[i].hash) {
      decoded.stage = "read";
      return decoded;
    }
    const int64_t rows = RowsOfTile(frozen, i);
    std::vector<std::byte> packed(
        static_cast<size_t>(rows / 16 * ThawedGroupBytes(frozen.kind, frozen.cols)));
    if (const auto outcome = ThawTile(decoder, frozen.kind, frozen.cols, frozen.rows_per_stream,
                                      rows, bytes, packed.data());
        !outcome) {
      decoded.stage = "decode";
      decoded.message = outcome.error().message;
      return decoded;
    }
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<std::byte> one(static_cast<size_t>(RowBytes(type, frozen.cols)));
      CopyPackedRow(type, frozen.cols, rows, packed.data(), row, one.data());
      decoded.rows.insert(decoded.rows.end(), one.begin(), one.end());
    }
  }
  return decoded;
}

class FrozenGoldens : public testing::TestWithParam<const TileDecoder*> {
 protected:
  void SetUp() override {
    if (!GetParam()->is_available(HostCpu())) {
      GTEST_SKIP() << "this CPU cannot run the decoder " << GetParam()->name;
    }
  }
};

TEST_P(FrozenGoldens, DecodeToWhatWasEncoded) {
  int tensors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::Open(entry.path().string());
    ASSERT_TRUE(file) << file.error().message;
    for (const TensorInfo& tensor : file->tensors()) {
      if (tensor.frozen == nullptr) continue;
      SCOPED_TRACE(entry.path().string() + " " + tensor.name);
      const char* kind = tensor.frozen->kind == FrozenKind::kEcq ? "q8_0" : "bf16";
      const std::string expected = ReadFile(
          Folder() / fmt::format("{}.{}.{}", entry.path().stem().string(), tensor.name, kind));
      const Decoded decoded = Decode(*file, tensor, *GetParam());
      EXPECT_EQ(decoded.stage, "") << decoded.message;
      EXPECT_TRUE(std::ranges::equal(decoded.rows, std::as_bytes(std::span(expected))));
      ++tensors;
    }
  }
  EXPECT_GE(tensors, 27);
}

TEST_P(FrozenGoldens, WhatBreaksTheFormatIsRefused) {
  std::ifstream list(Folder() / "refused/refused.json");
  const auto refused = nlohmann::json::parse(list);
  EXPECT_GE(refused.size(), 100U);
  for (const auto& [name, expected] : refused.items()) {
    SCOPED_TRACE(name + ": " + expected.at("why").get<std::string>());
    const std::string path = (Folder() / "refused" / name).string();
    const auto file = GgufFile::Open(path);
    std::string stage;
    if (!file) {
      stage = "open";
      EXPECT_THAT(file.error().message, testing::HasSubstr(path));
    } else {
      for (const TensorInfo& tensor : file->tensors()) {
        if (tensor.frozen != nullptr && stage.empty()) {
          stage = Decode(*file, tensor, *GetParam()).stage;
        }
      }
    }
    EXPECT_EQ(stage, expected.at("stage").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryDecoder, FrozenGoldens, testing::ValuesIn(AllTileDecoders()),
                         [](const auto& decoder) { return std::string(decoder.param->name); });

}  // namespace
}  // namespace thaw
