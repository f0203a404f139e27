#include "gguf/gguf_file.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "gguf/directory_bytes.h"
#include "gguf/window_reader.h"
#include "io/faulty_file.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A field, a vocabulary of `token_count` tokens, and one tensor "w" of 4 floats.
DirectoryBytes SmallModel(uint64_t token_count = 3) {
  DirectoryBytes bytes;
  bytes.Header(1, 2).Key("general.name", GgufType::kString).String("small");
  bytes.Key("tokens", GgufType::kArray).ArrayHead(GgufType::kString, token_count);
  for (uint64_t i = 0; i < token_count; ++i) bytes.String(fmt::format("token {}", i));
  bytes.Tensor("w", {4}, 0).PadTo(32);
  for (int i = 0; i < 4; ++i) bytes.Number(static_cast<float>(i));
  return bytes;
}

std::shared_ptr<const File> InMemory(const DirectoryBytes& bytes) {
  return std::make_shared<MemoryFile>("model.gguf", bytes.text);
}

TEST(GgufFile, OpensAPath) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("model.gguf", SmallModel().text);
  const auto model = GgufFile::Open(path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->path(), path);
  EXPECT_EQ(model->file_count(), 1);
  EXPECT_EQ(*model->GetString("general.name"), "small");
  EXPECT_EQ(model->ReadStrings("tokens")->at(2), "token 2");
}

TEST(GgufFile, NamesAPathThatIsNoFile) {
  const TemporaryDirectory dir;
  EXPECT_THAT(GgufFile::Open(dir.path().string()).error().message,
              HasSubstr("a regular file is expected, this is a directory"));
  EXPECT_THAT(GgufFile::Open(dir.PathOf("none.gguf")).error().message,
              HasSubstr("none.gguf: no such file"));
}

TEST(GgufFile, ReadsAnyPartOfATensor) {
  const auto model = GgufFile::Open(InMemory(SmallModel()));
  ASSERT_TRUE(model);
  const TensorInfo* tensor = model->FindTensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(model->FindTensor("v"), nullptr);
  std::array<float, 2> values = {};
  ASSERT_TRUE(model->ReadTensor(*tensor, 8, std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values[0], 2.0f);
  EXPECT_EQ(values[1], 3.0f);
}

TEST(GgufFile, RefusesToReadBeyondATensor) {
  const auto model = GgufFile::Open(InMemory(SmallModel()));
  ASSERT_TRUE(model);
  std::array<std::byte, 8> out = {};
  const auto read = model->ReadTensor(*model->FindTensor("w"), 12, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "model.gguf: tensor \"w\": 8 bytes from its byte 12 on are wanted, it has 16");
  EXPECT_FALSE(model->ReadTensor(*model->FindTensor("w"), UINT64_MAX, out));
}

TEST(GgufFile, RefusesTwoTensorsOfOneName) {
  DirectoryBytes bytes;
  bytes.Header(2, 0).Tensor("w", {1}, 0).Tensor("w", {1}, 32).PadTo(32).Data(64);
  const auto model = GgufFile::Open(InMemory(bytes));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            "model.gguf: tensor \"w\": there are two of this name, the second has its data at "
            "offset 128");
}

TEST(GgufFile, OpensThroughShortReads) {
  for (const size_t most : {1, 3, 7, 4096}) {
    const auto file = std::make_shared<FaultyFile>(InMemory(SmallModel()),
                                                   FileFaults{.most_bytes_per_read = most});
    const auto model = GgufFile::Open(file);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(*model->GetString("general.name"), "small");
    EXPECT_EQ(model->ReadStrings("tokens")->size(), 3u);
  }
}

TEST(GgufFile, NamesTheFieldThatABrokenDiskBlockIsIn) {
  const DirectoryBytes bytes = SmallModel(100000);
  // In the middle of the vocabulary, several windows in.
  const FileFaults faults = {.broken_byte = bytes.text.size() / 2};
  const auto model = GgufFile::Open(std::make_shared<FaultyFile>(InMemory(bytes), faults));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kIo);
  EXPECT_THAT(model.error().message,
              AllOf(HasSubstr("model.gguf: reading"), HasSubstr("Input/output error"),
                    HasSubstr("(while reading field \"tokens\")")));
}

TEST(GgufFile, NamesTheTensorThatABrokenDiskBlockIsIn) {
  const DirectoryBytes bytes = SmallModel();
  const auto good = GgufFile::Open(InMemory(bytes));
  ASSERT_TRUE(good);
  const TensorInfo tensor = *good->FindTensor("w");
  // Reads stop short of the broken byte, so that the directory before it can be had.
  const FileFaults faults = {.broken_byte = tensor.offset + 15, .most_bytes_per_read = 16};
  const auto model = GgufFile::Open(std::make_shared<FaultyFile>(InMemory(bytes), faults));
  ASSERT_TRUE(model) << model.error().message;
  std::array<std::byte, 16> out = {};
  const auto read = model->ReadTensor(tensor, 0, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_THAT(read.error().message, HasSubstr("(while reading tensor \"w\")"));
}

TEST(GgufFile, NamesTheFieldWhereAFileThatShrankEnds) {
  const DirectoryBytes bytes = SmallModel(100000);
  const FileFaults faults = {.truncated_to = 1000000};
  const auto model = GgufFile::Open(std::make_shared<FaultyFile>(InMemory(bytes), faults));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(model.error().message,
              HasSubstr("field \"tokens\": the length of a string needs 8 bytes at offset 1000009, "
                        "but the file has shrunk: 0 are there"));
}

TEST(GgufFile, NamesTheTensorWhereAFileThatShrankEnds) {
  const TemporaryDirectory dir;
  const DirectoryBytes bytes = SmallModel();
  const std::string path = dir.Write("model.gguf", bytes.text);
  const auto model = GgufFile::Open(path);
  ASSERT_TRUE(model);
  std::filesystem::resize_file(path, bytes.text.size() - 6);
  std::array<std::byte, 16> out = {};
  const auto read = model->ReadTensor(*model->FindTensor("w"), 0, out);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              AllOf(HasSubstr("16 bytes are wanted"), HasSubstr("10 are there"),
                    HasSubstr("(while reading tensor \"w\")")));
}

// A file of 40 GB that takes no disk: two tensors of 20 GB each, all holes.
TEST(GgufFile, OpensAFileOf40GigabytesByReadingItsDirectoryAlone) {
  constexpr uint64_t kElements = 5'000'000'000;
  constexpr uint64_t kTensorBytes = kElements * 4;
  DirectoryBytes bytes;
  bytes.Header(2, 1).Key("tokens", GgufType::kArray).ArrayHead(GgufType::kString, 50000);
  for (int i = 0; i < 50000; ++i) bytes.String(fmt::format("token {}", i));
  bytes.Tensor("front", {1000, kElements / 1000}, 0);
  bytes.Tensor("back", {1000, kElements / 1000}, kTensorBytes).PadTo(32);
  const uint64_t data_offset = bytes.text.size();

  const TemporaryDirectory dir;
  const std::string path = dir.Write("large.gguf", bytes.text);
  std::filesystem::resize_file(path, data_offset + 2 * kTensorBytes);

  const auto on_disk = OpenFile(path);
  ASSERT_TRUE(on_disk);
  const auto counted = std::make_shared<FaultyFile>(*on_disk, FileFaults{});
  const auto model = GgufFile::Open(counted);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE(counted->farthest_end(), data_offset + WindowReader::kWindowBytes);
  EXPECT_LE(counted->bytes_read(), 2 * data_offset);

  const TensorInfo* back = model->FindTensor("back");
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->offset, data_offset + kTensorBytes);
  std::array<std::byte, 8> out = {std::byte{1}};
  ASSERT_TRUE(model->ReadTensor(*back, kTensorBytes - 8, out));
  EXPECT_EQ(out[0], std::byte{0});
}

TEST(GgufFile, JumpsOverLargeArraysOfNumbers) {
  DirectoryBytes bytes;
  bytes.Header(0, 2).Key("scores", GgufType::kArray).ArrayHead(GgufType::kFloat32, 1 << 20);
  bytes.Data(4 << 20).Key("after", GgufType::kUint8).Number<uint8_t>(9);
  const auto counted = std::make_shared<FaultyFile>(InMemory(bytes), FileFaults{});
  const auto model = GgufFile::Open(counted);
  ASSERT_TRUE(model);
  EXPECT_EQ(*model->GetUint("after"), 9u);
  EXPECT_LE(counted->bytes_read(), 2 * WindowReader::kWindowBytes);
}

}  // namespace
}  // namespace thaw
