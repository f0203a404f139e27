#include "kernels/table_choice.h"

#include <gmock/gmock.h>

#include <vector>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Gt;

class TwoTables : public ::testing::Test {
 protected:
  const KernelTable first_ = *AllKernelTables().back();
  const KernelTable second_ = first_;
};

TEST_F(TwoTables, TheFasterOneIsTaken) {
  const KernelChoice second = ChooseByTime(
      first_, second_, [&](const KernelTable& table) { return &table == &first_ ? 3.0 : 2.0; });
  EXPECT_EQ(second.table, &second_);
  EXPECT_EQ(second.slower, &first_);
  EXPECT_THAT(second.speedup, DoubleEq(1.5));
  const KernelChoice first = ChooseByTime(
      first_, second_, [&](const KernelTable& table) { return &table == &first_ ? 2.0 : 5.0; });
  EXPECT_EQ(first.table, &first_);
  EXPECT_EQ(first.slower, &second_);
  EXPECT_THAT(first.speedup, DoubleEq(2.5));
}

TEST_F(TwoTables, TheFirstIsTakenWhereBothAreAsFast) {
  const KernelChoice choice = ChooseByTime(first_, second_, [](const KernelTable&) { return 2.0; });
  EXPECT_EQ(choice.table, &first_);
  EXPECT_THAT(choice.speedup, DoubleEq(1));
}

TEST_F(TwoTables, AreTimedInTurnAndCountByTheirLeastTimes) {
  // Disturbed but for one time each.
  const double times[] = {9, 8, 7, 9, 4, 9, 9, 3, 8, 7};
  std::vector<const KernelTable*> timed;
  const KernelChoice choice = ChooseByTime(first_, second_, [&](const KernelTable& table) {
    timed.push_back(&table);
    return times[timed.size() - 1];
  });
  EXPECT_THAT(timed, ElementsAre(&first_, &second_, &first_, &second_, &first_, &second_, &first_,
                                 &second_, &first_, &second_));
  EXPECT_EQ(choice.table, &second_);
  EXPECT_THAT(choice.speedup, DoubleEq(4.0 / 3));
}

class TimedKernels : public EachKernelTable {};

TEST_P(TimedKernels, TakeSomeTimeForProductsHoweverOften) {
  ProductTimer seconds;
  EXPECT_THAT(seconds(table()), Gt(0));
  EXPECT_THAT(seconds(table()), Gt(0));
  EXPECT_THAT(seconds(*AllKernelTables().back()), Gt(0));
}

INSTANTIATE_FOR_KERNEL_TABLES(TimedKernels, AllAndEmulatedKernelTables());

}  // namespace
}  // namespace thaw
