#include "model/indexer.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

namespace thaw {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Chosen(std::vector<float> scores, size_t n) {
  std::vector<int32_t> order(scores.size());
  std::vector<int32_t> chosen(n);
  ChooseKeys(scores, order, chosen);
  return chosen;
}

TEST(Indexer, ChoosesTheBestInTheOrderOfPositions) {
  EXPECT_THAT(Chosen({0.5F, -1, 3, 0, 2}, 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(Chosen({-3, -1, -2}, 1), ElementsAre(1));
  EXPECT_THAT(Chosen({1, 2, 3}, 3), ElementsAre(0, 1, 2));
}

TEST(Indexer, TheEarlierOfEqualScoresIsChosen) {
  EXPECT_THAT(Chosen({0, 1, 0, 0, 0, 1}, 4), ElementsAre(0, 1, 2, 5));
}

TEST(Indexer, WhatIsNoNumberIsChosenLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float least = -std::numeric_limits<float>::max();
  EXPECT_THAT(Chosen({nan, -7, nan, 4}, 2), ElementsAre(1, 3));
  EXPECT_THAT(Chosen({nan, nan, least}, 2), ElementsAre(0, 1));
}

TEST(Indexer, ChoosesOnlyWhereThereAreMoreKeysThanItMayTake) {
  const IndexerConfig config{.top_k = 16};
  EXPECT_FALSE(config.Chooses(15));
  EXPECT_TRUE(config.Chooses(16));
  EXPECT_FALSE(IndexerConfig{}.Chooses(1000));
}

}  // namespace
}  // namespace thaw
