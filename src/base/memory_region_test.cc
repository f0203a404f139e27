#include "base/memory_region.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/process.h"
#include "base/sanitizer_test_support.h"

namespace thaw {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

MemoryRegion Reserved(size_t bytes) {
  auto region = MemoryRegion::Reserve(bytes, "a test");
  EXPECT_TRUE(region) << region.error().message;
  return *std::move(region);
}

// How much more is resident than `before`, at least 0.
uint64_t ResidentBeyond(uint64_t before) {
  const uint64_t now = ResidentBytes();
  return now - std::min(now, before);
}

TEST(MemoryRegion, BeginsOnAHugePageAndHoldsZeroes) {
  for (const size_t bytes : {size_t{1}, size_t{4097}, kHugePageBytes, 5 * kMiB + 1}) {
    MemoryRegion region = Reserved(bytes);
    EXPECT_EQ(region.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region.data()) % kHugePageBytes, 0u);
    EXPECT_EQ(region.data()[0], std::byte{0});
    EXPECT_EQ(region.data()[bytes - 1], std::byte{0});
    std::memset(region.data(), 1, bytes);
  }
}

TEST(MemoryRegion, OfNoBytesHoldsNothing) {
  MemoryRegion region = Reserved(0);
  EXPECT_EQ(region.size(), 0u);
  region.Release(0, 0);
}

TEST(MemoryRegion, TakesMemoryWhenItIsTouched) {
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report the resident set";
  if (kHasThreadSanitizer)
    GTEST_SKIP() << "SKIP: what ThreadSanitizer notes of memory is resident too";
  MemoryRegion region = Reserved(256 * kMiB);
  EXPECT_LT(ResidentBeyond(before), 16 * kMiB);
  std::memset(region.data(), 1, 64 * kMiB);
  EXPECT_GE(ResidentBeyond(before), 64 * kMiB);
  EXPECT_LT(ResidentBeyond(before), 80 * kMiB);
}

TEST(MemoryRegion, GivesBackWhatIsReleased) {
  MemoryRegion region = Reserved(64 * kMiB);
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report the resident set";
  if (kHasThreadSanitizer)
    GTEST_SKIP() << "SKIP: what ThreadSanitizer notes of memory is resident too";
  std::memset(region.data(), 1, region.size());
  ASSERT_GE(ResidentBeyond(before), 64 * kMiB);
  region.Release(16 * kMiB, 40 * kMiB);
  EXPECT_GE(ResidentBeyond(before), 24 * kMiB);
  EXPECT_LT(ResidentBeyond(before), 28 * kMiB);
  region.Release(0, 64 * kMiB);
  EXPECT_LT(ResidentBeyond(before), 4 * kMiB);
}

TEST(MemoryRegion, ReleasesWholePagesAlone) {
  MemoryRegion region = Reserved(4 * kMiB);
  std::memset(region.data(), 7, region.size());
  region.Release(100, kMiB);
  // Pages of 4 to 64 KiB: the parts of the range's first and last one stay, with what is outside.
  EXPECT_EQ(region.data()[99], std::byte{7});
  EXPECT_EQ(region.data()[100], std::byte{7});
  EXPECT_EQ(region.data()[65'536], std::byte{0});
  EXPECT_EQ(region.data()[kMiB - 1], std::byte{0});
  EXPECT_EQ(region.data()[kMiB], std::byte{7});
  region.Release(kMiB + 1, 4094);
  EXPECT_EQ(region.data()[kMiB + 1], std::byte{7});
}

TEST(MemoryRegion, CanBeUsedAgainAfterARelease) {
  MemoryRegion region = Reserved(4 * kMiB);
  for (int round = 1; round < 4; ++round) {
    std::memset(region.data(), round, region.size());
    EXPECT_EQ(region.data()[region.size() - 1], std::byte(round));
    region.Release(0, region.size());
    EXPECT_EQ(region.data()[region.size() - 1], std::byte{0});
  }
}

TEST(MemoryRegion, GivesEverythingBackWithItsOwner) {
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report the resident set";
  if (kHasThreadSanitizer)
    GTEST_SKIP() << "SKIP: what ThreadSanitizer notes of memory is resident too";
  {
    MemoryRegion region = Reserved(64 * kMiB);
    std::memset(region.data(), 1, region.size());
    MemoryRegion moved = std::move(region);
    EXPECT_EQ(moved.data()[0], std::byte{1});
    MemoryRegion assigned;
    assigned = std::move(moved);
    EXPECT_EQ(assigned.size(), 64 * kMiB);
    EXPECT_GE(ResidentBeyond(before), 64 * kMiB);
  }
  EXPECT_LT(ResidentBeyond(before), 4 * kMiB);
}

TEST(MemoryRegion, SaysWhatTheAddressesWereFor) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 60}) {
    const auto region = MemoryRegion::Reserve(bytes, "the weights");
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(region.error().message, ::testing::HasSubstr("no addresses for the weights"));
  }
}

}  // namespace
}  // namespace thaw
