#include "base/process.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/memory_region.h"
#include "base/sanitizer_test_support.h"

namespace thaw {
namespace {

TEST(PeakResidentBytes, GrowsWithTouchedMemoryAndNeverShrinks) {
  const uint64_t before = PeakResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report a peak resident set";
  // Beyond whatever earlier tests of this program have used and freed again.
  const size_t size = before + (size_t{64} << 20);
  {
    std::vector<char> block(size);
    std::memset(block.data(), 1, size);
    EXPECT_GE(PeakResidentBytes(), size);
  }
  EXPECT_GE(PeakResidentBytes(), size);
}

TEST(ResidentBytes, FollowsTouchedMemoryUpAndDown) {
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report the resident set";
  constexpr size_t kBytes = size_t{64} << 20;
  {
    MemoryRegion region = *MemoryRegion::Reserve(kBytes, "a test");
    std::memset(region.data(), 1, kBytes);
    EXPECT_GE(ResidentBytes(), before + kBytes);
    EXPECT_LE(ResidentBytes(), PeakResidentBytes() + (size_t{1} << 20));
  }
  EXPECT_LT(ResidentBytes(), before + kBytes / 8);
}

TEST(ProcessCpuSeconds, GoesUpWithWork) {
  const double before = ProcessCpuSeconds();
  volatile int work = 0;
  while (ProcessCpuSeconds() == before) work = work + 1;
  EXPECT_GT(ProcessCpuSeconds(), before);
}

TEST(ReturnFreedMemory, GivesBackWhatSmallBlocksHeld) {
#ifdef __GLIBC__
  constexpr bool kIsOfLibrary = !kHasAddressSanitizer && !kHasThreadSanitizer;
#else
  constexpr bool kIsOfLibrary = false;
#endif
  if (!kIsOfLibrary) GTEST_SKIP() << "SKIP: the allocator is not the GNU C library's";
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "SKIP: the system does not report the resident set";
  // Blocks of 64 KiB stay with the C library when they are freed, above all below one in use.
  constexpr size_t kBlockBytes = 64 << 10;
  std::vector<std::unique_ptr<char[]>> blocks(1024);
  for (auto& block : blocks) {
    block = std::make_unique<char[]>(kBlockBytes);
    std::memset(block.get(), 1, kBlockBytes);
  }
  const auto last = std::make_unique<char[]>(kBlockBytes);
  blocks.clear();
  ASSERT_GE(ResidentBytes(), before + 32 * (size_t{1} << 20));
  ReturnFreedMemory();
  EXPECT_LT(ResidentBytes(), before + 4 * (size_t{1} << 20));
}

}  // namespace
}  // namespace thaw
