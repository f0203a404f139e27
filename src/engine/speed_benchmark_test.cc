#include "engine/speed_benchmark.h"

#include <gmock/gmock.h>

#include <string>

#include "io/temporary_directory.h"
#include "kernels/peak_rate.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kNoProgress = [](uint64_t, uint64_t) {};
constexpr auto kGoOn = [](uint64_t, uint64_t) { return true; };

std::unique_ptr<Engine> LoadTiny(EngineOptions options = {}) {
  const TemporaryDirectory directory;
  const std::string path = directory.PathOf("speed_benchmark_test.gguf");
  TinyModel().Write(path);
  options.threads = 2;
  options.reserved_bytes = kBenchmarkReserveBytes;
  auto engine = Engine::Load(path, options, kGoOn);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

// How long it takes is no matter of a test.
BenchmarkOptions Brief() {
  return {.prefill_tokens = {6}, .decode_tokens = {3, 5}, .runs = 2, .rate_seconds = 0.001};
}

TEST(RunBenchmark, ReportsEveryWorkloadAndTheMachine) {
  const auto engine = LoadTiny();
  const auto report = RunBenchmark(*engine, Brief(), kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_THAT(report->workloads, SizeIs(3));
  EXPECT_EQ(report->workloads[0].phase, Phase::kPrefill);
  EXPECT_THAT(report->workloads[0].step_seconds, IsEmpty());
  for (size_t i = 1; i < 3; ++i) {
    const WorkloadReport& decode = report->workloads[i];
    EXPECT_EQ(decode.phase, Phase::kDecode);
    EXPECT_THAT(decode.step_seconds, SizeIs(static_cast<size_t>(2 * decode.tokens)));
    EXPECT_THAT(decode.step_memory_rates, SizeIs(decode.step_seconds.size()));
    EXPECT_THAT(decode.step_memory_rates, Each(Gt(0)));
    EXPECT_GT(decode.ShareOfMemoryRate(), 0);
  }
  for (const WorkloadReport& workload : report->workloads) {
    EXPECT_EQ(workload.runs, 2);
    EXPECT_THAT(workload.run_seconds, SizeIs(2));
    const Spread rate = workload.TokensPerSecond();
    EXPECT_GT(rate.min, 0);
    EXPECT_LE(rate.min, rate.median);
    EXPECT_LE(rate.median, rate.max);
  }
  EXPECT_EQ(report->first_prompt_tokens, 6);
  EXPECT_GT(report->ttft_cold_seconds, 0);
  EXPECT_GT(report->ttft_warm_seconds, 0);
  EXPECT_GT(report->memory_bytes_per_second, 0);
  EXPECT_GT(report->disk_bytes_per_second, 0);
  const Int8PeakLoop* loop = FindInt8PeakLoop(HostCpu());
  ASSERT_EQ(report->int8.has_value(), loop != nullptr);
  if (loop == nullptr) return;
  EXPECT_STREQ(report->int8->instruction, loop->instruction);
  EXPECT_GT(report->int8->operations_per_second, 0);
}

TEST(RunBenchmark, ADecodedTokenVisitsEveryWeightOnceAndAPromptDoesOnceAChunk) {
  const auto engine = LoadTiny({.prefill_chunk = 3});
  const auto report = RunBenchmark(*engine, Brief(), kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  const auto weights = static_cast<double>(engine->weights().map().weight_bytes());
  const WorkloadReport& decode = report->workloads[1];
  EXPECT_EQ(decode.BytesPerToken(), weights + decode.KvBytesPerToken());
  EXPECT_EQ(report->workloads[1].BytesReadPerToken(), 0);
  EXPECT_EQ(report->workloads[1].HitRateBytes(), 1);
  // The output matrix is visited with the last chunk alone.
  EXPECT_LT(report->workloads[0].BytesPerToken(), weights / 3);
  EXPECT_GT(report->workloads[0].BytesPerToken(), weights / 6);
}

TEST(RunBenchmark, ADecodedTokenReadsTheKeysAndValuesThatItSees) {
  const auto engine = LoadTiny();
  const auto report = RunBenchmark(*engine, Brief(), kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  const double position = static_cast<double>(
      KvCache::BytesSeen(engine->config(), engine->options().kv_type, /*length=*/1));
  EXPECT_EQ(report->workloads[0].KvBytesPerToken(), 0);
  EXPECT_DOUBLE_EQ(report->workloads[1].KvBytesPerToken(), (2 + 3 + 4) * position / 3);
  EXPECT_DOUBLE_EQ(report->workloads[2].KvBytesPerToken(), (2 + 3 + 4 + 5 + 6) * position / 5);
}

TEST(RunBenchmark, DecodesAfterAsManyTokensAsItIsTold) {
  const auto engine = LoadTiny();
  BenchmarkOptions options = Brief();
  options.decode_after = 7;
  const auto report = RunBenchmark(*engine, options, kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->workloads[0].after, 0);
  const double position = static_cast<double>(
      KvCache::BytesSeen(engine->config(), engine->options().kv_type, /*length=*/1));
  const WorkloadReport& decode = report->workloads[1];
  EXPECT_EQ(decode.after, 7);
  EXPECT_DOUBLE_EQ(decode.KvBytesPerToken(), (8 + 9 + 10) * position / 3);
  EXPECT_EQ(decode.HitRateBytes(), 1);
  const auto weights = static_cast<double>(engine->weights().map().weight_bytes());
  EXPECT_EQ(decode.BytesPerToken(), weights + decode.KvBytesPerToken())
      << "weights that the tokens before visit do not count";
}

TEST(RunBenchmark, CountsWhatIsReadAgain) {
  const auto engine = LoadTiny({.policy = "off"});
  const auto report = RunBenchmark(*engine, Brief(), kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  const WorkloadReport& decode = report->workloads[1];
  EXPECT_EQ(decode.BytesReadPerToken(), decode.BytesPerToken() - decode.KvBytesPerToken());
  EXPECT_EQ(decode.HitRateBytes(), 0);
  EXPECT_THAT(decode.step_memory_rates, IsEmpty())
      << "a reader of weights would run ahead meanwhile";
  EXPECT_EQ(decode.ShareOfMemoryRate(), std::nullopt);
}

TEST(RunBenchmark, ProgressEndsWithAllTokensOfAllRuns) {
  const auto engine = LoadTiny();
  uint64_t last = 0;
  const auto report = RunBenchmark(*engine, Brief(), [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, (6 + 1 + 3 + 1 + 5) * 3);
    last = done;
  });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(last, (6 + 1 + 3 + 1 + 5) * 3);
}

TEST(RunBenchmark, WithoutWorkloadsStillTellsTheFirstTokenAndTheMachine) {
  const auto engine = LoadTiny();
  BenchmarkOptions options = Brief();
  options.prefill_tokens.clear();
  options.decode_tokens.clear();
  const auto report = RunBenchmark(*engine, options, kNoProgress);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->workloads, IsEmpty());
  EXPECT_EQ(report->first_prompt_tokens, 1);
  EXPECT_GT(report->disk_bytes_per_second, 0);
}

TEST(RunBenchmark, StopsWhenItIsTold) {
  const auto engine = LoadTiny();
  BenchmarkOptions options = Brief();
  const std::atomic<bool> cancel{true};
  options.cancel = &cancel;
  const auto report = RunBenchmark(*engine, options, kNoProgress);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
}

TEST(RunBenchmark, RefusesWhatTheContextDoesNotHold) {
  const auto engine = LoadTiny({.context = 5});
  const auto report = RunBenchmark(*engine, Brief(), kNoProgress);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(report.error().message, HasSubstr("6 positions, but the context holds 5"));
}

TEST(RunBenchmark, WhatIsReservedIsPartOfThePlan) {
  const MemoryPlan plan = LoadTiny()->plan();
  EXPECT_EQ(plan.reserved_bytes, kBenchmarkReserveBytes);
  EXPECT_LE(plan.claimed_bytes(), plan.budget_bytes);
  EXPECT_GT(plan.floor_bytes, plan.reserved_bytes + plan.program_bytes);
}

TEST(BenchmarkOptions, NeedPositionsForTheLongestWorkload) {
  EXPECT_EQ(BenchmarkOptions{}.PositionsNeeded(), 512);
  EXPECT_EQ((BenchmarkOptions{.prefill_tokens = {8}, .decode_tokens = {8}}).PositionsNeeded(), 9);
  EXPECT_EQ((BenchmarkOptions{.decode_tokens = {8}, .decode_after = 600}).PositionsNeeded(), 608);
  EXPECT_EQ((BenchmarkOptions{.prefill_tokens = {}, .decode_tokens = {}}).PositionsNeeded(), 1);
}

TEST(SpreadOf, TakesTheMiddleOrTheMeanOfTheTwoThere) {
  const auto numbers = [](const Spread& s) { return std::vector{s.median, s.min, s.max}; };
  EXPECT_THAT(numbers(SpreadOf({3, 1, 2})), ElementsAre(2, 1, 3));
  EXPECT_THAT(numbers(SpreadOf({4, 1, 3, 2})), ElementsAre(2.5, 1, 4));
  EXPECT_THAT(numbers(SpreadOf({})), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace thaw
