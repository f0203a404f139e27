#include "gguf/directory.h"

#include <gmock/gmock.h>

#include "gguf/directory_bytes.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;

// Fails the test, and gives an empty directory, when the bytes are refused.
GgufDirectory Read(const DirectoryBytes& bytes) {
  const MemoryFile file("made.gguf", bytes.text);
  auto directory = ReadDirectory(file);
  EXPECT_TRUE(directory) << directory.error().message;
  return directory ? *std::move(directory) : GgufDirectory();
}

TEST(ReadDirectory, ReadsVersions2And3) {
  EXPECT_EQ(Read(DirectoryBytes().Header(0, 0, 2)).version, 2);
  EXPECT_EQ(Read(DirectoryBytes().Header(0, 0, 3)).version, 3);
}

TEST(ReadDirectory, ReadsAVocabularyWithoutTensors) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("tokenizer.ggml.tokens", GgufType::kArray);
  bytes.ArrayHead(GgufType::kString, 2).String("a").String("\xff\xfe");
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.fields.size(), 1u);
  EXPECT_TRUE(directory.tensors.empty());
  EXPECT_EQ(directory.fields[0].TypeName(), "array of string");
  EXPECT_EQ(directory.fields[0].array()->count, 2u);
  EXPECT_EQ(directory.fields[0].array()->bytes, 8u + 1 + 8 + 2);
}

TEST(ReadDirectory, KeepsTheOrderOfFieldsAndTheirPlaces) {
  DirectoryBytes bytes;
  bytes.Header(0, 3);
  bytes.Key("z", GgufType::kUint16).Number<uint16_t>(7);
  bytes.Key("a", GgufType::kInt32).Number<int32_t>(-7);
  bytes.Key("m", GgufType::kString).String("text");
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.fields.size(), 3u);
  EXPECT_EQ(directory.fields[0].key, "z");
  EXPECT_EQ(directory.fields[1].key, "a");
  EXPECT_EQ(directory.fields[2].key, "m");
  EXPECT_EQ(directory.Find("a"), &directory.fields[1]);
  EXPECT_EQ(directory.Find("b"), nullptr);
  // 24 bytes of header, then 8 + 1 of key and 4 of type.
  EXPECT_EQ(directory.fields[0].value_offset, 37u);
  EXPECT_EQ(directory.fields[0].value_bytes, 2u);
  EXPECT_EQ(directory.fields[2].value_bytes, 12u);
  EXPECT_EQ(std::get<int64_t>(directory.fields[1].value), -7);
}

TEST(ReadDirectory, AcceptsEveryPowerOfTwoAsAlignment) {
  for (const uint32_t alignment : {1u, 2u, 8u, 32u, 64u, 4096u, 65536u}) {
    DirectoryBytes bytes;
    bytes.Header(2, 1).Key("general.alignment", GgufType::kUint32).Number(alignment);
    bytes.Tensor("first", {3}, 0);
    bytes.Tensor("second", {1}, (12 + alignment - 1) / alignment * alignment);
    bytes.PadTo(alignment);
    const uint64_t data_offset = bytes.text.size();
    bytes.Data(12).PadTo(alignment).Data(4);
    const GgufDirectory directory = Read(bytes);
    ASSERT_EQ(directory.tensors.size(), 2u) << alignment;
    EXPECT_EQ(directory.alignment, alignment);
    EXPECT_EQ(directory.tensors[0].offset, data_offset);
    EXPECT_EQ(directory.tensors[1].offset, bytes.text.size() - 4);
  }
}

TEST(ReadDirectory, AcceptsTensorDataInAnyOrderAndWithGaps) {
  DirectoryBytes bytes;
  bytes.Header(2, 0).Tensor("last", {4}, 128).Tensor("first", {4}, 0).PadTo(32);
  const uint64_t data_offset = bytes.text.size();
  bytes.Data(128 + 16);
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.tensors.size(), 2u);
  EXPECT_EQ(directory.tensors[0].offset, data_offset + 128);
  EXPECT_EQ(directory.tensors[1].offset, data_offset);
}

TEST(ReadDirectory, ReadsDimensionsWithTheContiguousOneFirst) {
  DirectoryBytes bytes;
  bytes.Header(1, 0).Tensor("w", {64, 3, 2}, 0, 2 /* Q4_0 */).PadTo(32).Data(64 / 32 * 18 * 6);
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.tensors.size(), 1u);
  const TensorInfo& tensor = directory.tensors[0];
  EXPECT_EQ(tensor.type, ElementType::kQ4_0);
  EXPECT_EQ(tensor.n_dims, 3);
  EXPECT_THAT(tensor.dims, ElementsAre(64, 3, 2, 1));
  EXPECT_EQ(tensor.elements(), 384);
  EXPECT_EQ(tensor.rows(), 6);
  EXPECT_EQ(tensor.bytes, 216u);
}

TEST(ReadDirectory, TakesATensorWithoutDimensionsAsOneElement) {
  DirectoryBytes bytes;
  bytes.Header(1, 0).Tensor("scalar", {}, 0).PadTo(32).Data(4);
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.tensors.size(), 1u);
  EXPECT_EQ(directory.tensors[0].n_dims, 0);
  EXPECT_EQ(directory.tensors[0].bytes, 4u);
}

TEST(ReadDirectory, AcceptsEmptyTensorsBesideOthersAndAtTheEnd) {
  DirectoryBytes bytes;
  bytes.Header(3, 0).Tensor("none", {8, 0}, 0).Tensor("one", {1}, 0).Tensor("end", {0}, 32);
  bytes.PadTo(32).Data(4);
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.tensors.size(), 3u);
  EXPECT_EQ(directory.tensors[0].bytes, 0u);
  EXPECT_EQ(directory.tensors[0].elements(), 0);
  EXPECT_EQ(directory.tensors[1].bytes, 4u);
  EXPECT_EQ(directory.tensors[2].bytes, 0u);
}

TEST(ReadDirectory, MeasuresArraysInsideArrays) {
  DirectoryBytes bytes;
  bytes.Header(0, 2).Key("nested", GgufType::kArray).ArrayHead(GgufType::kArray, 2);
  bytes.ArrayHead(GgufType::kUint16, 3).Number<uint16_t>(1).Number<uint16_t>(2).Number<uint16_t>(3);
  bytes.ArrayHead(GgufType::kString, 1).String("inner");
  bytes.Key("after", GgufType::kBool).Number<uint8_t>(1);
  const GgufDirectory directory = Read(bytes);
  ASSERT_EQ(directory.fields.size(), 2u);
  EXPECT_EQ(directory.fields[0].array()->bytes, 12u + 6 + 12 + 13);
  EXPECT_TRUE(std::get<bool>(directory.fields[1].value));
}

}  // namespace
}  // namespace thaw
