#include "engine/generation.h"

#include <gtest/gtest.h>

namespace thaw {
namespace {

TEST(SummarizeSteps, IsZeroWithoutSteps) {
  const StepSummary summary = SummarizeSteps({});
  EXPECT_EQ(summary.p50_ms, 0);
  EXPECT_EQ(summary.p99_ms, 0);
  EXPECT_EQ(summary.cv, 0);
}

TEST(SummarizeSteps, TakesNearestRanksAndTheSpreadOfAll) {
  std::vector<double> steps;
  for (int i = 100; i >= 1; --i) steps.push_back(i * 1e-3);
  const StepSummary summary = SummarizeSteps(steps);
  EXPECT_NEAR(summary.p50_ms, 50, 1e-9);
  EXPECT_NEAR(summary.p99_ms, 99, 1e-9);
  EXPECT_NEAR(summary.cv, 28.866 / 50.5, 1e-4);
}

TEST(GenerationStatistics, RatesCountOnlyWhatWasComputed) {
  GenerationStatistics s;
  EXPECT_EQ(s.PromptTokensPerSecond(), 0);
  EXPECT_EQ(s.DecodeTokensPerSecond(), 0);
  s.prompt_tokens = 30;
  s.reused_tokens = 10;
  s.prompt_seconds = 0.5;
  s.step_seconds = {0.1, 0.3};
  EXPECT_DOUBLE_EQ(s.PromptTokensPerSecond(), 40);
  EXPECT_DOUBLE_EQ(s.DecodeTokensPerSecond(), 5);
}

}  // namespace
}  // namespace thaw
