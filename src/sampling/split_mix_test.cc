#include "sampling/split_mix.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thaw {
namespace {

TEST(SplitMix64, GivesThePublishedSequence) {
  // The first outputs of the reference implementation for this seed.
  SplitMix64 random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317U);
  EXPECT_EQ(random.Next(), 3203168211198807973U);
  EXPECT_EQ(random.Next(), 9817491932198370423U);
  EXPECT_EQ(random.Next(), 4593380528125082431U);
  EXPECT_EQ(random.Next(), 16408922859458223821U);
}

TEST(SplitMix64, UnitsStayBelowOneAndFillTheInterval) {
  SplitMix64 random(7);
  double sum = 0;
  double lowest = 1;
  double highest = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double unit = random.NextUnit();
    ASSERT_GE(unit, 0);
    ASSERT_LT(unit, 1);
    sum += unit;
    lowest = std::min(lowest, unit);
    highest = std::max(highest, unit);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // five standard errors of the mean
  EXPECT_LT(lowest, 1e-3);
  EXPECT_GT(highest, 1 - 1e-3);
}

}  // namespace
}  // namespace thaw
