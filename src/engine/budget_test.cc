#include "engine/budget.h"

#include <gmock/gmock.h>

namespace thaw {
namespace {

using ::testing::HasSubstr;
using Base = BudgetRequest::Base;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(Budget, IsParsedInEveryForm) {
  const struct {
    const char* text;
    Base base;
    uint64_t bytes;
    double fraction;
  } cases[] = {
      {"1000000", Base::kNothing, 1000000, 0},
      {"450MiB", Base::kNothing, 450 * kMiB, 0},
      {"2.5GiB", Base::kNothing, 2560 * kMiB, 0},
      {"64KiB", Base::kNothing, 65536, 0},
      {"3GB", Base::kNothing, 3000000000, 0},
      {"7B", Base::kNothing, 7, 0},
      {"50%", Base::kNothing, 0, 0.5},
      {"floor", Base::kFloor, 0, 0},
      {"floor+20MiB", Base::kFloor, 20 * kMiB, 0},
      {"floor+50%", Base::kFloor, 0, 0.5},
  };
  for (const auto& c : cases) {
    const auto parsed = ParseBudget(c.text);
    ASSERT_TRUE(parsed) << c.text;
    EXPECT_EQ(parsed->base, c.base) << c.text;
    EXPECT_EQ(parsed->bytes, c.bytes) << c.text;
    EXPECT_DOUBLE_EQ(parsed->fraction, c.fraction) << c.text;
  }
}

TEST(Budget, RefusesWhatIsNoSizeAndSaysWhatIs) {
  for (const char* text : {"", "-1", "x", "450 MiB", "450Mib", "nan", "inf", "1e400", "floor-1",
                           "floor+", "floor 3", "9e30GiB", "50%%", "++1"}) {
    const auto parsed = ParseBudget(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("floor+20MiB"));
  }
}

TEST(Budget, IsRelativeToWhatItNames) {
  const BudgetBases bases = {
      .available_bytes = 1000, .default_bytes = 900, .floor_bytes = 100, .weight_bytes = 600};
  EXPECT_EQ(BudgetBytes({}, bases), 900);
  EXPECT_EQ(BudgetBytes(*ParseBudget("50%"), bases), 500);
  EXPECT_EQ(BudgetBytes(*ParseBudget("123"), bases), 123);
  EXPECT_EQ(BudgetBytes(*ParseBudget("floor"), bases), 100);
  EXPECT_EQ(BudgetBytes(*ParseBudget("floor+7"), bases), 107);
  EXPECT_EQ(BudgetBytes(*ParseBudget("floor+50%"), bases), 400);
}

TEST(Budget, WhatIsLeftIsBoundedByTheMachineAndByTheCgroup) {
  SystemInfo system;
  system.memory_available = 1000 * kMiB;
  EXPECT_EQ(AvailableBytes(system, 5 * kMiB), 1005 * kMiB);
  system.cgroup_limit = 300 * kMiB;
  system.cgroup_used = 120 * kMiB;
  EXPECT_EQ(AvailableBytes(system, 5 * kMiB), 185 * kMiB);
  // The system takes page cache back when it needs the memory.
  system.cgroup_page_cache = 100 * kMiB;
  EXPECT_EQ(AvailableBytes(system, 5 * kMiB), 285 * kMiB);
  system.memory_available = 50 * kMiB;
  EXPECT_EQ(AvailableBytes(system, 5 * kMiB), 55 * kMiB);
}

TEST(Budget, TheDefaultLeavesAMargin) {
  SystemInfo system;
  system.memory_available = 3200 * kMiB;
  EXPECT_EQ(DefaultBudget(system, 0), 3100 * kMiB);
  system.memory_available = 100 * kMiB;
  EXPECT_EQ(DefaultBudget(system, 0), 92 * kMiB);
  system.memory_available = 3 * kMiB;
  EXPECT_EQ(DefaultBudget(system, 0), 0);
}

}  // namespace
}  // namespace thaw
