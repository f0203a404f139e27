#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace thaw::cli {
namespace {

std::string Plain(uint64_t count) { return fmt::format("{}", count); }

TEST(FormatProgress, FillsTheBarByTheShareThatIsDone) {
  EXPECT_EQ(FormatProgress("loading", 0, 10, Plain),
            "loading [..............................] 0 %, 0 of 10");
  EXPECT_EQ(FormatProgress("loading", 5, 10, Plain),
            "loading [###############...............] 50 %, 5 of 10");
  EXPECT_EQ(FormatProgress("loading", 10, 10, Plain),
            "loading [##############################] 100 %, 10 of 10");
}

TEST(FormatProgress, StaysWithinTheBarForOddTotals) {
  EXPECT_EQ(FormatProgress("x", 0, 0, Plain), "x [##############################] 100 %, 0 of 0");
  EXPECT_EQ(FormatProgress("x", 7, 5, Plain), "x [##############################] 100 %, 7 of 5");
}

TEST(FormatProgress, PutsADetailBehindAShorterBar) {
  EXPECT_EQ(FormatProgress("x", 1, 2, Plain, "9/s"), "x [#####.....] 50 %, 1 of 2, 9/s");
}

TEST(FormatProgress, FitsANarrowTerminal) {
  EXPECT_LE(FormatProgress("verifying", 70000, 70000, Plain, "1000.0 M/s, 100:00 left").size(),
            79U);
  EXPECT_LE(
      FormatProgress("loading", uint64_t{1023} << 30, uint64_t{1023} << 30, FormatBytes).size(),
      79U);
}

TEST(ProgressBar, DrawsNothingWhereNobodyLooks) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar("loading", Plain, /*visible=*/false);
    bar.Show(1, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressBar, DrawsOverItsLineAndWipesItAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar("loading", Plain, /*visible=*/true);
    bar.Show(1, 2);
    bar.Show(2, 2);  // within a tenth of a second: not drawn
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "\rloading [###############...............] 50 %, 1 of 2\x1b[K\r\x1b[K");
}

}  // namespace
}  // namespace thaw::cli
