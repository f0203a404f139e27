#include "io/direct_read.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/aligned_buffer.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

using State = DirectRead::State;

// A read of 3000 bytes at 1000 in blocks of 512: the span is [512, 4096).
class DirectReadOf : public ::testing::Test {
 protected:
  MemoryFile file_{"file.bin", ""};
  AlignedBuffer buffer_ = *AlignedBuffer::Allocate(3584, "a test", 512);
  ReadRequest request_ = {&file_, 1000, 3000, buffer_.data(), 0};
  DirectRead read_{request_, {.descriptor = 5, .alignment = 512}};
};

TEST_F(DirectReadOf, AsksForWholeBlocks) {
  EXPECT_EQ(read_.descriptor(), 5);
  EXPECT_EQ(read_.offset(), 512u);
  EXPECT_EQ(read_.bytes(), 3584u);
  EXPECT_EQ(read_.memory(), buffer_.data());
}

TEST_F(DirectReadOf, IsCompleteWhenTheSpanIsThere) {
  EXPECT_EQ(read_.Take(3584), State::kComplete);
  EXPECT_EQ(read_.disk_bytes(), 3584u);
}

TEST_F(DirectReadOf, IsCompleteWhenTheFileEndsBehindThePayload) {
  EXPECT_EQ(read_.Take(3488), State::kComplete);
  EXPECT_EQ(read_.disk_bytes(), 3584u);
}

TEST_F(DirectReadOf, GoesOnAfterAPart) {
  EXPECT_EQ(read_.Take(1024), State::kPending);
  EXPECT_EQ(read_.offset(), 1536u);
  EXPECT_EQ(read_.bytes(), 2560u);
  EXPECT_EQ(read_.memory(), buffer_.data() + 1024);
  EXPECT_EQ(read_.Take(2560), State::kComplete);
  EXPECT_EQ(read_.disk_bytes(), 3584u);
}

TEST_F(DirectReadOf, GoesOnAfterAnInterruption) {
  EXPECT_EQ(read_.Take(-EINTR), State::kPending);
  EXPECT_EQ(read_.offset(), 512u);
  EXPECT_EQ(read_.bytes(), 3584u);
}

TEST_F(DirectReadOf, IsRefusedWhereTheFileEndsWithinThePayload) {
  EXPECT_EQ(read_.Take(3487), State::kRefused);
}

TEST_F(DirectReadOf, IsRefusedAtTheEndOfTheFile) {
  EXPECT_EQ(read_.Take(1024), State::kPending);
  EXPECT_EQ(read_.Take(0), State::kRefused);
}

TEST_F(DirectReadOf, IsRefusedByEveryOtherError) {
  for (const int error : {EINVAL, EIO, ENOMEM, EAGAIN, ECANCELED}) {
    DirectRead read = read_;
    EXPECT_EQ(read.Take(-error), State::kRefused) << error;
    EXPECT_EQ(read.disk_bytes(), 0u);
  }
}

// One call of the kernel gives less than 2 GiB.
TEST(DirectRead, AsksForLargeRangesInPieces) {
  const MemoryFile file("large.bin", "");
  const uint64_t bytes = (uint64_t{3} << 30) + 1;
  // No byte of it is touched: only addresses are computed.
  auto* buffer = reinterpret_cast<std::byte*>(uint64_t{1} << 40);
  DirectRead read({&file, 0, bytes, buffer, 0}, {.descriptor = 5, .alignment = 4096});
  uint64_t asked = 0;
  int pieces = 0;
  for (auto state = State::kPending; state == State::kPending; ++pieces) {
    EXPECT_EQ(read.offset(), asked);
    EXPECT_EQ(read.bytes() % 4096, 0u);
    asked += read.bytes();
    state = read.Take(read.bytes());
  }
  EXPECT_EQ(asked, (uint64_t{3} << 30) + 4096);
  EXPECT_EQ(pieces, 4);
}

}  // namespace
}  // namespace thaw
