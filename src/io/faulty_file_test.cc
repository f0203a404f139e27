#include "io/faulty_file.h"

#include <gmock/gmock.h>

#include <array>
#include <thread>
#include <vector>

#include "io/memory_file.h"
#include "io/temporary_directory.h"

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

TEST(FaultyFile, SaysThatTheFileWasChanged) {
  const FaultyFile whole(TenBytes(), {});
  EXPECT_TRUE(whole.CheckUnchanged());
  const FaultyFile changed(TenBytes(), {.changed = true});
  const auto checked = changed.CheckUnchanged();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(checked.error().message, "ten.bin: the file has changed since it was opened");
}

TEST(FaultyFile, BeginsToFailWhenTold) {
  FaultyFile file(TenBytes(), {});
  std::array<std::byte, 10> out = {};
  EXPECT_TRUE(ReadExactlyAt(file, 0, out));
  file.SetFaults({.broken_byte = 5, .changed = true});
  EXPECT_FALSE(ReadExactlyAt(file, 0, out));
  EXPECT_FALSE(file.CheckUnchanged());
  file.SetFaults({});
  EXPECT_TRUE(ReadExactlyAt(file, 0, out));
  EXPECT_TRUE(file.CheckUnchanged());
}

TEST(FaultyFile, HoldsReadersUntilTheGateOpens) {
  const auto gate = std::make_shared<ReadGate>();
  const FaultyFile file(TenBytes(), {.gate = gate});
  std::atomic<int> done = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::array<std::byte, 4> out = {};
      EXPECT_TRUE(ReadExactlyAt(file, 5, out));
      EXPECT_EQ(out[0], std::byte{'5'});
      ++done;
    });
  }
  gate->AwaitReaders(3);
  EXPECT_EQ(done, 0);
  gate->Open();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(done, 3);
  std::array<std::byte, 4> out = {};
  EXPECT_TRUE(ReadExactlyAt(file, 0, out));
}

TEST(FaultyFile, OffersNoWayAroundItsFaults) {
  const TemporaryDirectory dir;
  const auto inner = OpenFile(dir.Write("ten.bin", "0123456789"));
  ASSERT_TRUE(inner);
  const FaultyFile file(*inner, {});
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(file.IsCached(0, 10), (*inner)->IsCached(0, 10));
}

}  // namespace
}  // namespace thaw
