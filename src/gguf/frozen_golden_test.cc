// Frozen tensors of files that another program wrote from docs/format.md: what they decode to, by
// every decoder, and what must be refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "codec/frozen_tile.h"
#include "gguf/gguf_file.h"
#include "io/memory_file.h"
#include "support/paths.h"
#include "support/read_file.h"

namespace thaw {
namespace {

std::filesystem::path Folder() { return GoldenDir() / "frozen"; }

// All rows as they would lie in a file, and the first error.
struct Decoded {
  std::vector<std::byte> rows;
  std::string message;
};

Decoded Decode(const GgufFile& file, const TensorInfo& tensor, const TileDecoder& decoder) {
  Decoded decoded;
  for (size_t i = 0; i < tensor.frozen->tiles.size(); ++i) {
    const auto rows =
        ReadFrozenTile(*file.file(tensor.file_index), tensor.name, *tensor.frozen, i, decoder);
    if (!rows) {
      decoded.message = rows.error().message;
      return decoded;
    }
    decoded.rows.insert(decoded.rows.end(), rows->begin(), rows->end());
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
      EXPECT_EQ(decoded.message, "");
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
    const auto stage = expected.at("stage").get<std::string>();
    const auto file = GgufFile::Open(path);
    ASSERT_EQ(!file.has_value(), stage == "open");
    if (!file) {
      EXPECT_THAT(file.error().message, testing::HasSubstr(path));
      continue;
    }
    for (const TensorInfo& tensor : file->tensors()) {
      if (tensor.frozen == nullptr) continue;
      const std::string message = Decode(*file, tensor, *GetParam()).message;
      EXPECT_THAT(message, testing::HasSubstr(path + ": frozen tensor 'w', tile"));
      EXPECT_EQ(message.find("its hash is") != std::string::npos, stage == "read") << message;
    }
  }
}

// Of the bytes of the blob; what a GGUF says of it is its directory's to check.
TEST(FrozenFile, EveryChangedByteOfATensorIsNoticed) {
  const std::string good = ReadFile(Folder() / "experts.gguf");
  const auto opened = GgufFile::Open((Folder() / "experts.gguf").string());
  ASSERT_TRUE(opened);
  const TensorInfo& tensor = opened->tensors()[0];
  ASSERT_NE(tensor.frozen, nullptr);
  for (uint64_t at = tensor.offset; at < tensor.offset + tensor.bytes; ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x04);
    const auto bytes = std::as_bytes(std::span(changed));
    const auto file = GgufFile::Open(std::make_shared<MemoryFile>(
        "changed", std::vector<std::byte>(bytes.begin(), bytes.end())));
    if (!file) continue;
    EXPECT_THAT(Decode(*file, file->tensors()[0], PortableDecoder()).message,
                testing::HasSubstr("its hash is"))
        << at - tensor.offset;
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryDecoder, FrozenGoldens, testing::ValuesIn(AllTileDecoders()),
                         [](const auto& decoder) { return std::string(decoder.param->name); });

}  // namespace
}  // namespace thaw
