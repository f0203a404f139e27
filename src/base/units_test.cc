#include "base/units.h"

#include <gtest/gtest.h>

namespace thaw {
namespace {

TEST(FormatBytes, PicksTheUnitThatReadsWell) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{14} << 30), "14.0 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace thaw
