#include "model/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace thaw {
namespace {

std::vector<ExpertChoice> Choose(const ExpertConfig& config, std::vector<float> logits,
                                 const std::vector<float>& bias = {}) {
  std::vector<float> scratch(logits.size());
  std::vector<ExpertChoice> chosen(static_cast<size_t>(config.n_used));
  ChooseExperts(config, logits, bias, scratch, chosen);
  return chosen;
}

std::vector<int32_t> Indexes(const std::vector<ExpertChoice>& chosen) {
  std::vector<int32_t> indexes;
  for (const ExpertChoice& choice : chosen) indexes.push_back(choice.expert);
  return indexes;
}

using Ids = std::vector<int32_t>;

TEST(ExpertsTest, SoftmaxIsOfAllAndTheLargestAreChosenAscending) {
  const auto chosen = Choose({.n = 4, .n_used = 2}, {0, 3, 1, 2});
  EXPECT_EQ(Indexes(chosen), (Ids{1, 3}));
  const float sum = 1 + std::exp(3.0F) + std::exp(1.0F) + std::exp(2.0F);
  EXPECT_NEAR(chosen[0].weight, std::exp(3.0F) / sum, 1e-6);
  EXPECT_NEAR(chosen[1].weight, std::exp(2.0F) / sum, 1e-6);
}

TEST(ExpertsTest, RenormalizedWeightsAddUpToTheScale) {
  const auto chosen =
      Choose({.n = 4, .n_used = 2, .renormalizes = true, .weight_scale = 2.5}, {0, 3, 1, 2});
  EXPECT_NEAR(chosen[0].weight + chosen[1].weight, 2.5, 1e-6);
  EXPECT_NEAR(chosen[0].weight / chosen[1].weight, std::exp(1.0F), 1e-5);
}

TEST(ExpertsTest, SoftmaxOfTheChosenIsThatOfTheirLogits) {
  const auto chosen =
      Choose({.n = 4, .n_used = 2, .gating = Gating::kSoftmaxOfChosen}, {0, 3, 1, 2});
  EXPECT_EQ(Indexes(chosen), (Ids{1, 3}));
  EXPECT_NEAR(chosen[0].weight, 1 / (1 + std::exp(-1.0F)), 1e-6);
}

TEST(ExpertsTest, TheBiasChoosesButDoesNotWeigh) {
  const auto chosen =
      Choose({.n = 3, .n_used = 1, .gating = Gating::kSigmoid}, {1, 2, 3}, {5, 0, 0});
  EXPECT_EQ(Indexes(chosen), (Ids{0}));
  EXPECT_NEAR(chosen[0].weight, 1 / (1 + std::exp(-1.0F)), 1e-6);
}

TEST(ExpertsTest, OnlyExpertsOfTheBestGroupsAreChosen) {
  const ExpertConfig config{
      .n = 6, .n_used = 2, .gating = Gating::kSigmoid, .n_groups = 3, .n_groups_used = 1};
  // The best expert is in the last group, but the two best of the second are worth more.
  EXPECT_EQ(Indexes(Choose(config, {0, 0, 3, 3, -9, 5})), (Ids{2, 3}));
  // Of equal groups the first is kept.
  EXPECT_EQ(Indexes(Choose(config, {1, 1, 1, 1, 1, 1})), (Ids{0, 1}));
}

TEST(ExpertsTest, EqualsGoToTheLowestIndex) {
  EXPECT_EQ(Indexes(Choose({.n = 5, .n_used = 3}, {7, 7, 7, 7, 7})), (Ids{0, 1, 2}));
}

TEST(ExpertsTest, WhatIsNoNumberStillChoosesDifferentExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Indexes(Choose({.n = 3, .n_used = 2, .gating = Gating::kSigmoid}, {nan, 1, nan})),
            (Ids{0, 1}));
  EXPECT_EQ(Indexes(Choose({.n = 3, .n_used = 3}, {nan, 1, nan})), (Ids{0, 1, 2}));
}

TEST(ExpertsTest, ASumOfWeightsThatVanishesDividesNothingByZero) {
  const auto chosen =
      Choose({.n = 2, .n_used = 1, .gating = Gating::kSigmoid, .renormalizes = true}, {-200, -300});
  EXPECT_EQ(chosen[0].weight, 0);
}

}  // namespace
}  // namespace thaw
