#include "kernels/lines_in_turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace thaw {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr uintptr_t kPages = kPagesInTurn * kPageBytes;
constexpr uintptr_t kFirst = 5 * kPages;  // where some pages begin

uintptr_t AskedAt(uintptr_t place) { return reinterpret_cast<uintptr_t>(TurnAhead(place)); }

TEST(LinesInTurn, GoFromPageToPageOfTheNextFour) {
  EXPECT_EQ(AskedAt(kFirst), kFirst + kPages);
  EXPECT_EQ(AskedAt(kFirst + kTurnBytes), kFirst + kPages + kPageBytes);
  EXPECT_EQ(AskedAt(kFirst + 3 * kTurnBytes), kFirst + kPages + 3 * kPageBytes);
  EXPECT_EQ(AskedAt(kFirst + 4 * kTurnBytes), kFirst + kPages + kTurnBytes);
  EXPECT_EQ(AskedAt(kFirst + kPages - kTurnBytes), kFirst + 2 * kPages - kTurnBytes);
}

TEST(LinesInTurn, AreAskedForOnceAndFarEnoughAhead) {
  std::set<uintptr_t> asked;
  for (uintptr_t place = kFirst; place < kFirst + kPages; place += kTurnBytes) {
    const uintptr_t turn = AskedAt(place);
    EXPECT_THAT(turn - place, AllOf(Ge(kPageBytes), Le(kPages + 3 * kPageBytes))) << place;
    EXPECT_EQ(turn % kTurnBytes, 0U);
    asked.insert(turn);
  }
  EXPECT_EQ(asked.size(), kPages / kTurnBytes);
  EXPECT_EQ(*asked.begin(), kFirst + kPages);
  EXPECT_EQ(*asked.rbegin(), kFirst + 2 * kPages - kTurnBytes);
}

}  // namespace
}  // namespace thaw
