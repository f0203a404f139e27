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

constexpr uintptr_t kLine = 64;
constexpr uintptr_t kPages = kPagesInTurn * kPageBytes;
constexpr uintptr_t kFirst = 5 * kPages;  // where some pages begin

uintptr_t AskedAt(uintptr_t place) {
  const auto* line = LineInTurn(reinterpret_cast<const std::byte*>(place));
  return reinterpret_cast<uintptr_t>(line);
}

TEST(LineInTurn, GoesFromPageToPageOfTheNextFour) {
  EXPECT_EQ(AskedAt(kFirst), kFirst + kPages);
  EXPECT_EQ(AskedAt(kFirst + kLine), kFirst + kPages + kPageBytes);
  EXPECT_EQ(AskedAt(kFirst + 3 * kLine), kFirst + kPages + 3 * kPageBytes);
  EXPECT_EQ(AskedAt(kFirst + 4 * kLine), kFirst + kPages + kLine);
  EXPECT_EQ(AskedAt(kFirst + kPages - kLine), kFirst + 2 * kPages - kLine);
}

TEST(LineInTurn, AsksForEveryLineOnceAndFarEnoughAhead) {
  std::set<uintptr_t> asked;
  for (uintptr_t place = kFirst; place < kFirst + kPages; place += kLine) {
    const uintptr_t line = AskedAt(place);
    EXPECT_THAT(line - place, AllOf(Ge(kPageBytes), Le(kPages + 3 * kPageBytes))) << place;
    EXPECT_EQ(line % kLine, 0U);
    asked.insert(line);
  }
  EXPECT_EQ(asked.size(), kPages / kLine);
  EXPECT_EQ(*asked.begin(), kFirst + kPages);
  EXPECT_EQ(*asked.rbegin(), kFirst + 2 * kPages - kLine);
}

TEST(LineInTurn, TakesAnyPlaceWithinALine) {
  EXPECT_EQ(AskedAt(kFirst + 7 * kLine + 63), AskedAt(kFirst + 7 * kLine));
}

}  // namespace
}  // namespace thaw
