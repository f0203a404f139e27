#include "io/faulty_file.h"

#include <gmock/gmock.h>

#include <array>

#include "io/memory_file.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const File> TenBytes() {
  return std::make_shared<MemoryFile>("ten.bin", "0123456789");
}

TEST(FaultyFile, WithoutFaultsReadsThroughAndCounts) {
  const FaultyFile file(TenBytes(), {});
  std::array<std::byte, 4> out = {};
  ASSERT_TRUE(ReadExactlyAt(file, 5, out));
  EXPECT_EQ(out[0], std::byte{'5'});
  EXPECT_EQ(file.path(), "ten.bin");
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(file.read_count(), 1u);
  EXPECT_EQ(file.bytes_read(), 4u);
  EXPECT_EQ(file.farthest_end(), 9u);
}

TEST(FaultyFile, FailsTheReadsThatTouchTheBrokenByte) {
  const FaultyFile file(TenBytes(), {.broken_byte = 5});
  std::array<std::byte, 3> out = {};
  EXPECT_TRUE(ReadExactlyAt(file, 2, out));
  EXPECT_TRUE(ReadExactlyAt(file, 6, out));
  for (const uint64_t offset : {3, 4, 5}) {
    const auto read = ReadExactlyAt(file, offset, out);
    ASSERT_FALSE(read) << offset;
    EXPECT_EQ(read.error().code, ErrorCode::kIo);
    EXPECT_THAT(read.error().message, HasSubstr("Input/output error"));
  }
}

TEST(FaultyFile, ShortReadsStillFillTheWholeSpan) {
  const FaultyFile file(TenBytes(), {.most_bytes_per_read = 3});
  std::array<std::byte, 10> out = {};
  ASSERT_TRUE(ReadExactlyAt(file, 0, out));
  EXPECT_EQ(out[9], std::byte{'9'});
  EXPECT_EQ(file.read_count(), 4u);
}

TEST(FaultyFile, TruncationKeepsTheSizeAndEndsTheReads) {
  const FaultyFile file(TenBytes(), {.truncated_to = 6});
  EXPECT_EQ(file.size(), 10u);
  std::array<std::byte, 6> out = {};
  EXPECT_TRUE(ReadExactlyAt(file, 0, out));
  const auto read = ReadExactlyAt(file, 4, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "ten.bin: the file ends early: 6 bytes are wanted at offset 4, 2 are there");
}

TEST(FaultyFile, DelaysEveryRead) {
  const FaultyFile file(TenBytes(), {.delay = std::chrono::milliseconds(2)});
  std::array<std::byte, 1> out = {};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(ReadExactlyAt(file, 0, out));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace thaw
