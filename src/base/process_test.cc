#include "base/process.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

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

}  // namespace
}  // namespace thaw
