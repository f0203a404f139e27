#include "tensor/codebooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

namespace thaw {
namespace {

using ::testing::ElementsAre;

template <typename Grid>
auto PointsOf(const Grid& grid) {
  std::set<decltype(grid[0].elements)> points;
  for (const auto& point : grid) points.insert(point.elements);
  return points;
}

template <typename Grid>
std::set<int> LevelsOf(const Grid& grid) {
  std::set<int> levels;
  for (const auto& point : grid) levels.insert(point.elements.begin(), point.elements.end());
  return levels;
}

TEST(CodebooksTest, NoGridHoldsAPointTwice) {
  EXPECT_EQ(PointsOf(kIQ2_XXSGrid).size(), kIQ2_XXSGrid.size());
  EXPECT_EQ(PointsOf(kIQ2_XSGrid).size(), kIQ2_XSGrid.size());
  EXPECT_EQ(PointsOf(kIQ2_SGrid).size(), kIQ2_SGrid.size());
  EXPECT_EQ(PointsOf(kIQ3_XXSGrid).size(), kIQ3_XXSGrid.size());
  EXPECT_EQ(PointsOf(kIQ3_SGrid).size(), kIQ3_SGrid.size());
  EXPECT_EQ(PointsOf(kIQ1Grid).size(), kIQ1Grid.size());
}

TEST(CodebooksTest, EveryGridUsesAllLevelsOfItsFormat) {
  EXPECT_THAT(LevelsOf(kIQ2_XXSGrid), ElementsAre(8, 25, 43));
  EXPECT_THAT(LevelsOf(kIQ2_XSGrid), ElementsAre(8, 25, 43));
  EXPECT_THAT(LevelsOf(kIQ2_SGrid), ElementsAre(8, 25, 43));
  EXPECT_THAT(LevelsOf(kIQ3_XXSGrid), ElementsAre(4, 12, 20, 28, 36, 44, 52, 62));
  EXPECT_THAT(LevelsOf(kIQ3_SGrid), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(LevelsOf(kIQ1Grid), ElementsAre(-1, 0, 1));
}

TEST(CodebooksTest, SignsKeepTheirSevenBitsAndMakeTheNumberOfNegativesEven) {
  for (uint32_t seven = 0; seven < 128; ++seven) {
    const uint8_t signs = SignsWithParity(seven);
    EXPECT_EQ(signs & 0x7f, seven);
    EXPECT_EQ(std::popcount(signs) % 2, 0) << seven;
  }
}

TEST(CodebooksTest, IQ4ValuesAscend) { EXPECT_TRUE(std::ranges::is_sorted(kIQ4Values)); }

}  // namespace
}  // namespace thaw
