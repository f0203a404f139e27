// Every way in which the directory of a file can be wrong, and what is said about it.
#include <gmock/gmock.h>

#include <limits>

#include "gguf/array_place.h"
#include "gguf/directory.h"
#include "gguf/directory_bytes.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 63;

Error ErrorOf(std::string_view text) {
  const MemoryFile file("bad.gguf", text);
  const auto directory = ReadDirectory(file);
  EXPECT_FALSE(directory);
  return directory ? Error() : directory.error();
}

std::string MessageOf(std::string_view text) { return ErrorOf(text).message; }
std::string MessageOf(const DirectoryBytes& bytes) { return MessageOf(bytes.text); }

TEST(HostileHeader, IsRefusedWhenTheFileIsEmpty) {
  EXPECT_EQ(MessageOf(""), "bad.gguf: not a GGUF file: it is empty");
}

TEST(HostileHeader, IsRefusedWithWhatTheFileBeginsWith) {
  EXPECT_EQ(MessageOf("PK\x03\x04 and so on"),
            "bad.gguf: not a GGUF file: it begins with 50 4b 03 04 (\"PK\\x03\\x04\"), "
            "47 47 55 46 (\"GGUF\") is expected");
  EXPECT_EQ(MessageOf("GG"),
            "bad.gguf: not a GGUF file: it begins with 47 47 (\"GG\"), 47 47 55 46 (\"GGUF\") is "
            "expected");
}

TEST(HostileHeader, IsRefusedWhenItIsCut) {
  EXPECT_EQ(MessageOf("GGUF"),
            "bad.gguf: the header: the version needs 4 bytes at offset 4, the file ends at 4");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 0).text.substr(0, 20)),
            "bad.gguf: the header: the number of fields needs 8 bytes at offset 16, the file ends "
            "at 20");
}

TEST(HostileHeader, IsRefusedInVersionsThatAreNotRead) {
  for (const uint32_t version : {0u, 1u, 4u, 70000u}) {
    const Error error = ErrorOf(DirectoryBytes().Header(0, 0, version).text);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.message,
              fmt::format("bad.gguf: the header: GGUF version {} at offset 4 is not supported, "
                          "versions 2 and 3 are",
                          version));
  }
}

TEST(HostileHeader, IsRefusedInTheOtherByteOrder) {
  const Error error = ErrorOf(DirectoryBytes().Header(0, 0, 0x03000000).text);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_EQ(error.message,
            "bad.gguf: the header: the file is big-endian (version 0x03000000 at offset 4), "
            "little-endian files are supported");
}

TEST(HostileHeader, IsRefusedWithMoreEntriesThanTheFileCanHold) {
  EXPECT_EQ(
      MessageOf(DirectoryBytes().Header(kHuge, 0)),
      "bad.gguf: the header: 9223372036854775808 tensors are declared, each takes at least 25 "
      "bytes, and the file has 0 left");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 3).Data(41)),
            "bad.gguf: the header: 3 fields are declared, each takes at least 14 bytes, and the "
            "file has 41 left");
}

TEST(HostileHeader, IsRefusedWithMoreEntriesThanAnyModelHas) {
  const uint64_t count = kMaxDirectoryEntries + 1;
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, count).Data(count * 14)),
            "bad.gguf: the header: 4194305 fields are declared, at most 4194304 are supported");
}

TEST(HostileField, IsRefusedWithALongerKeyThanTheFile) {
  EXPECT_EQ(
      MessageOf(DirectoryBytes().Header(0, 1).Number(kHuge).Data(20)),
      "bad.gguf: field 1 of 1: the key needs 9223372036854775808 bytes at offset 32, the file "
      "ends at 52");
}

TEST(HostileField, IsRefusedWithALongerKeyThanTheFormatAllows) {
  const std::string key(65536, 'k');
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key(key, GgufType::kBool).Data(1)),
            "bad.gguf: field 1 of 1: the key at offset 24 is 65536 bytes long, at most 65535 are "
            "allowed");
}

TEST(HostileField, IsRefusedWithAnEmptyKey) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key("", GgufType::kUint32).Number(1)),
            "bad.gguf: field 1 of 1: the key at offset 24 is empty");
}

TEST(HostileField, IsRefusedWhenItsKeyIsNotUtf8) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key("bad\xff", GgufType::kUint32).Number(1)),
            "bad.gguf: field 1 of 1: the key at offset 24 is not valid UTF-8: \"bad\xef\xbf\xbd\"");
}

TEST(HostileField, IsRefusedWhenItsStringIsNotUtf8) {
  EXPECT_EQ(
      MessageOf(DirectoryBytes().Header(0, 1).Key("name", GgufType::kString).String("a\xc3(b")),
      "bad.gguf: field \"name\": the string at offset 40 is not valid UTF-8: \"a\xef\xbf\xbd(b\"");
}

TEST(HostileField, IsRefusedWithAnUnknownType) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key("name", GgufType{13}).Data(8)),
            "bad.gguf: field \"name\": the value type at offset 36 is 13, 0 to 12 are expected");
}

TEST(HostileField, IsRefusedWhenItsValueIsCut) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key("name", GgufType::kUint64).Data(7)),
            "bad.gguf: field \"name\": the value needs 8 bytes at offset 40, the file ends at 47");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(0, 1).Key("name", GgufType::kString).Number(kHuge)),
            "bad.gguf: field \"name\": the string needs 9223372036854775808 bytes at offset 48, "
            "the file ends at 48");
}

TEST(HostileField, IsRefusedWhenItsBoolIsNeither0Nor1) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("flag", GgufType::kBool).Number<uint8_t>(2);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"flag\": the bool at offset 40 is 2, 0 or 1 is expected");
}

TEST(HostileField, IsRefusedWhenItsKeyIsThereAlready) {
  DirectoryBytes bytes;
  bytes.Header(0, 3).Key("twice", GgufType::kUint32).Number(1);
  bytes.Key("other", GgufType::kUint32).Number(1).Key("twice", GgufType::kUint32).Number(2);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"twice\": there are two of this key, the second has its value at "
            "offset 83");
}

TEST(HostileArray, IsRefusedWhenItIsLongerThanTheFile) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("ids", GgufType::kArray).ArrayHead(GgufType::kInt32, kHuge).Data(100);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"ids\": an array of 9223372036854775808 elements of type int32 needs "
            "at least 4 bytes each at offset 51, 100 bytes are left in the file");
}

TEST(HostileArray, IsRefusedWhenItsBytesOverflow) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("ids", GgufType::kArray).ArrayHead(GgufType::kInt64, kHuge / 4 + 1);
  EXPECT_THAT(MessageOf(bytes.Data(64)),
              ::testing::HasSubstr("needs at least 8 bytes each at offset 51, 64 bytes are left"));
}

TEST(HostileArray, IsRefusedWithMoreStringsThanTheFileCanHold) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("tokens", GgufType::kArray).ArrayHead(GgufType::kString, 3);
  EXPECT_EQ(MessageOf(bytes.String("a").String("b")),
            "bad.gguf: field \"tokens\": an array of 3 elements of type string needs at least 8 "
            "bytes each at offset 54, 18 bytes are left in the file");
}

TEST(HostileArray, IsRefusedWhenAStringInItReachesBeyondTheFile) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("tokens", GgufType::kArray).ArrayHead(GgufType::kString, 2);
  bytes.String("a").Number<uint64_t>(std::numeric_limits<uint64_t>::max()).Data(9);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"tokens\": a string of the array needs 18446744073709551615 bytes at "
            "offset 71, the file ends at 80");
}

TEST(HostileArray, IsRefusedWithAnUnknownElementType) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("ids", GgufType::kArray).ArrayHead(GgufType{99}, 1).Data(8);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"ids\": the value type at offset 39 is 99, 0 to 12 are expected");
}

TEST(HostileArray, IsRefusedWhenItIsNestedTooDeep) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("deep", GgufType::kArray);
  for (int i = 0; i < kMaxArrayDepth; ++i) bytes.ArrayHead(GgufType::kArray, 1);
  bytes.ArrayHead(GgufType::kUint8, 0);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: field \"deep\": arrays are nested deeper than 8 at offset 136");
}

// A file whose size is only claimed: reads find zeros.
class SparseFile final : public File {
 public:
  SparseFile(std::string front, uint64_t size) : front_("bad.gguf", front), size_(size) {}
  const std::string& path() const override { return front_.path(); }
  uint64_t size() const override { return size_; }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    THAW_TRY(front_.ReadSomeAt(offset, out));
    return static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset));
  }

 private:
  MemoryFile front_;
  uint64_t size_;
};

TEST(HostileArray, IsRefusedWhenVisitingItsStringsWouldTakeMinutes) {
  DirectoryBytes bytes;
  bytes.Header(0, 1)
      .Key("tokens", GgufType::kArray)
      .ArrayHead(GgufType::kString, uint64_t{1} << 36);
  const SparseFile file(bytes.text, uint64_t{1} << 40);
  const auto directory = ReadDirectory(file);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().message,
            "bad.gguf: field \"tokens\": the array at offset 54 has 68719476736 elements of type "
            "string, at most 67108864 are read");
}

TEST(HostileField, IsRefusedWhenItsStringWouldFillTheMemory) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("name", GgufType::kString).Number(uint64_t{1} << 36);
  const SparseFile file(bytes.text, uint64_t{1} << 40);
  const auto directory = ReadDirectory(file);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().message,
            "bad.gguf: field \"name\": the string at offset 40 is 68719476736 bytes long, at most "
            "67108864 are allowed");
}

TEST(HostileAlignment, IsRefusedUnlessAPowerOfTwo) {
  for (const uint32_t alignment : {0u, 3u, 24u, 33u, 0xffffffffu}) {
    DirectoryBytes bytes;
    bytes.Header(0, 1).Key("general.alignment", GgufType::kUint32).Number(alignment);
    EXPECT_EQ(MessageOf(bytes),
              fmt::format("bad.gguf: the header: field \"general.alignment\" is {}, a power of two "
                          "is expected",
                          alignment));
  }
}

TEST(HostileAlignment, IsRefusedInAnotherType) {
  DirectoryBytes bytes;
  bytes.Header(0, 1).Key("general.alignment", GgufType::kUint64).Number<uint64_t>(32);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: the header: field \"general.alignment\" is uint64, uint32 is expected");
}

TEST(HostileTensor, IsRefusedWhenItsInfoIsCut) {
  const std::string whole = DirectoryBytes().Header(1, 0).Tensor("weight", {1, 1}, 0).text;
  EXPECT_EQ(MessageOf(whole.substr(0, whole.size() - 3)),
            "bad.gguf: tensor \"weight\": the offset needs 8 bytes at offset 62, the file ends at "
            "67");
}

TEST(HostileTensor, IsRefusedWithABadName) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("", {1}, 0)),
            "bad.gguf: tensor 1 of 1: the name at offset 24 is empty");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor(std::string(65, 'n'), {1}, 0)),
            "bad.gguf: tensor 1 of 1: the name at offset 24 is 65 bytes long, at most 64 are "
            "allowed");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("\xed\xa0\x80", {1}, 0)),
            "bad.gguf: tensor 1 of 1: the name at offset 24 is not valid UTF-8: "
            "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(HostileTensor, IsRefusedWithTooManyDimensions) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {1, 1, 1, 1, 1}, 0)),
            "bad.gguf: tensor \"w\": the number of dimensions at offset 33 is 5, at most 4 are "
            "allowed");
}

TEST(HostileTensor, IsRefusedWithADimensionAbove63Bits) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {4, kHuge}, 0)),
            "bad.gguf: tensor \"w\": dimension 1 at offset 45 is 9223372036854775808, at most "
            "2^63 - 1 is allowed");
}

TEST(HostileTensor, IsRefusedWhenItsDimensionsOverflow) {
  const uint64_t large = uint64_t{1} << 32;
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {large, large}, 0)),
            "bad.gguf: tensor \"w\": the dimensions 4294967296 x 4294967296 x 1 x 1 overflow 63 "
            "bits");
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {large, 1 << 30}, 0)),
            "bad.gguf: tensor \"w\": 4611686018427387904 blocks of 4 bytes overflow 63 bits");
}

TEST(HostileTensor, IsRefusedWithAnUnknownElementType) {
  for (const uint32_t type : {4u, 41u, 0xffffffffu}) {
    const Error error = ErrorOf(DirectoryBytes().Header(1, 0).Tensor("w", {1}, 0, type).text);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(
        error.message,
        fmt::format("bad.gguf: tensor \"w\": the element type {} at offset 45 is not known", type));
  }
}

TEST(HostileTensor, IsRefusedWhenItsRowsHoldNoWholeNumberOfBlocks) {
  EXPECT_EQ(MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {33, 2}, 0, 2 /* Q4_0 */)),
            "bad.gguf: tensor \"w\": a row has 33 elements, a multiple of 32 (a block of Q4_0) is "
            "expected");
}

TEST(HostileTensor, IsRefusedWhenItsDataAreMisaligned) {
  EXPECT_EQ(
      MessageOf(DirectoryBytes().Header(1, 0).Tensor("w", {1}, 4).PadTo(32).Data(64)),
      "bad.gguf: tensor \"w\": its data offset 4 is misaligned, a multiple of 32 is expected");
}

TEST(HostileTensor, IsRefusedWhenItsDataReachBeyondTheFile) {
  DirectoryBytes bytes;
  bytes.Header(1, 0).Tensor("w", {100}, 32).PadTo(32).Data(64);
  EXPECT_EQ(MessageOf(bytes),
            "bad.gguf: tensor \"w\": its 400 bytes at offset 96 reach beyond the end of the file "
            "at 128; the file is incomplete or its directory is wrong");
}

TEST(HostileTensor, IsRefusedWhenItsOffsetIsFarBeyondTheFile) {
  DirectoryBytes bytes;
  bytes.Header(1, 0).Tensor("w", {1}, uint64_t{1} << 62).PadTo(32).Data(64);
  EXPECT_THAT(MessageOf(bytes), ::testing::HasSubstr("reach beyond the end of the file at 128"));
  DirectoryBytes wrapping;
  wrapping.Header(1, 0).Tensor("w", {1}, uint64_t{0} - 32).PadTo(32).Data(64);
  EXPECT_EQ(MessageOf(wrapping),
            "bad.gguf: tensor \"w\": its data offset 18446744073709551584 overflows 64 bits");
}

TEST(HostileTensor, IsRefusedWhenItsDataOverlapAnothers) {
  DirectoryBytes bytes;
  bytes.Header(3, 0).Tensor("c", {8}, 96).Tensor("b", {9}, 32).Tensor("a", {8}, 64).PadTo(32);
  EXPECT_EQ(
      MessageOf(bytes.Data(128)),
      "bad.gguf: tensor \"a\": its data at offset 192 overlap those of tensor \"b\", 36 bytes "
      "at offset 160");
}

TEST(HostileFile, IsRefusedWhereverItIsCut) {
  DirectoryBytes bytes;
  bytes.Header(2, 3).Key("name", GgufType::kString).String("text");
  bytes.Key("ids", GgufType::kArray).ArrayHead(GgufType::kUint16, 2).Number<uint32_t>(1);
  bytes.Key("tokens", GgufType::kArray).ArrayHead(GgufType::kString, 2).String("a").String("bc");
  bytes.Tensor("v", {2}, 0).Tensor("w", {2, 3}, 32).PadTo(32).Data(32 + 24);
  for (size_t size = 0; size < bytes.text.size(); ++size) {
    const Error error = ErrorOf(bytes.text.substr(0, size));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << size;
    EXPECT_TRUE(error.message.starts_with("bad.gguf: ")) << error.message;
  }
  EXPECT_TRUE(ReadDirectory(MemoryFile("good.gguf", bytes.text)));
}

}  // namespace
}  // namespace thaw
