#include "sampling/reproducible_exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace thaw {
namespace {

constexpr double kRelativeError = 1e-15;

TEST(ReproducibleExp, AgreesWithTheCLibraryOverItsRange) {
  for (int step = 0; step <= 220'000; ++step) {
    const double x = step * (-700.0 / 220'000);
    const double expected = std::exp(x);
    ASSERT_NEAR(ReproducibleExp(x), expected, expected * kRelativeError) << "x = " << x;
  }
}

TEST(ReproducibleExp, IsExactAtZeroAndZeroFarBelow) {
  EXPECT_EQ(ReproducibleExp(0.0), 1.0);
  EXPECT_EQ(ReproducibleExp(-0.0), 1.0);
  EXPECT_EQ(ReproducibleExp(-701.0), 0.0);
  EXPECT_EQ(ReproducibleExp(-1e300), 0.0);
  EXPECT_EQ(ReproducibleExp(-INFINITY), 0.0);
}

TEST(ReproducibleExp, GivesTheseBitsOnEveryMachine) {
  uint64_t digest = 0;
  for (int step = 0; step <= 1900; ++step) {
    digest = digest * 31 + std::bit_cast<uint64_t>(ReproducibleExp(step * -0.37));
  }
  EXPECT_EQ(digest, 13773305000097523532U);
}

}  // namespace
}  // namespace thaw
