#include "cli/statistics_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

RunReport Example() {
  RunReport report;
  report.model = "m.gguf";
  report.kernels = "avx2";
  report.threads = 2;
  report.finish = FinishReason::kEndOfGeneration;
  report.generation = {.prompt_tokens = 12,
                       .reused_tokens = 2,
                       .prompt_seconds = 0.5,
                       .ttft_seconds = 0.25,
                       .decode_tokens = 3,
                       .step_seconds = {0.25, 0.25},
                       .decode_bytes_read = 100};
  report.plan = {.budget_bytes = 200, .floor_bytes = 120, .kv_bytes = 16, .context = 64};
  report.cache.policy = "planned";
  report.cache.reader = "io_uring";
  report.cache.hits = 30;
  report.cache.misses = 10;
  report.cache.hit_bytes = 900;
  report.cache.miss_bytes = 100;
  report.cache.bytes_read = 1000;
  report.cache.read_seconds = 2;
  report.cache.thaw_seconds = 0.5;
  report.coded_product_seconds = 1.25;
  report.cache.shares = {
      .resident_bytes = 50, .visited_bytes_per_token = 100, .read_bytes_per_token = 50};
  report.cache.weight_bytes = 100;
  report.cache.resident_bytes = 60;
  report.hottest = {{.name = "w.weight", .bytes = 40, .visits = 4, .hits = 1, .read_seconds = 0.5}};
  report.peak_resident_bytes = uint64_t{180} << 20;
  return report;
}

TEST(StatisticsLine, SaysWhatMattersOnOneLine) {
  EXPECT_EQ(
      StatisticsLine(Example()),
      "prompt 12 tokens 20 tok/s | answer 3 tokens 4 tok/s | first token 0.25 s | peak memory "
      "180.0 MiB | budget 200 B: 60 B of 100 B of weights in memory, 50 B read a token | kernels "
      "avx2, 2 threads");
}

TEST(StatisticsLine, SaysNothingOfABudgetThatHoldsEverything) {
  RunReport report = Example();
  report.generation.decode_bytes_read = 0;
  EXPECT_THAT(StatisticsLine(report), Not(HasSubstr("budget")));
}

TEST(StatisticsLine, LeavesOutRatesThatWereNotMeasured) {
  RunReport report = Example();
  report.interrupted = true;
  report.threads = 1;
  report.generation = GenerationStatistics();
  report.generation.prompt_tokens = 1;
  report.generation.reused_tokens = 1;
  report.generation.decode_tokens = 1;
  EXPECT_EQ(
      StatisticsLine(report),
      "interrupted | prompt 1 token | answer 1 token | first token 0.00 s | peak memory 180.0 "
      "MiB | kernels avx2, 1 thread");
}

TEST(StatisticsJson, HasEveryKeyOfTheCommandLinesDefinition) {
  const Json json = StatisticsJson(Example());
  for (const char* key : {"model", "kernels", "threads", "budget_bytes", "floor_bytes",
                          "peak_rss_bytes", "prompt_tokens", "prompt_tok_per_s", "decode_tokens",
                          "decode_tok_per_s", "decode_ms", "ttft_s", "cache"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"p50", "p99", "cv"}) EXPECT_TRUE(json["decode_ms"].contains(key)) << key;
  for (const char* key : {"instance_id",
                          "policy",
                          "hits",
                          "misses",
                          "hit_bytes",
                          "miss_bytes",
                          "hit_rate",
                          "hit_rate_bytes",
                          "evictions",
                          "bytes_read",
                          "bytes_read_per_token",
                          "stall_s",
                          "thaw_s",
                          "coded_product_s",
                          "time_saved_s",
                          "resident_bytes",
                          "pinned_bytes",
                          "planned_bytes",
                          "weight_bytes",
                          "best_possible_hit_rate_bytes",
                          "reader",
                          "disk_bytes",
                          "page_cache_bytes",
                          "rows_read",
                          "row_hits",
                          "row_bytes_read",
                          "capacity_bytes"}) {
    EXPECT_TRUE(json["cache"].contains(key)) << key;
  }
}

TEST(StatisticsJson, DerivesItsRates) {
  const Json json = StatisticsJson(Example());
  EXPECT_EQ(json["prompt_tok_per_s"], 20);  // the reused ones were not computed
  EXPECT_EQ(json["decode_tok_per_s"], 4);
  EXPECT_EQ(json["decode_ms"]["p50"], 250);
  const Json& cache = json["cache"];
  EXPECT_EQ(cache["hit_rate"], 0.75);
  EXPECT_EQ(cache["hit_rate_bytes"], 0.9);
  EXPECT_EQ(cache["bytes_read_per_token"], 50);
  EXPECT_EQ(cache["thaw_s"], 0.5);
  EXPECT_EQ(cache["coded_product_s"], 1.25);
  EXPECT_EQ(cache["time_saved_s"], 1.8);  // 900 bytes at 500 bytes/s
  EXPECT_EQ(cache["best_possible_hit_rate_bytes"], 0.5);
  EXPECT_EQ(json["budget_bytes"], 200);
  EXPECT_EQ(json["floor_bytes"], 120);
}

TEST(StatisticsJson, HasNumbersWhereNothingHappened) {
  const Json json = StatisticsJson(RunReport());
  EXPECT_EQ(json["decode_tok_per_s"], 0);
  EXPECT_EQ(json["cache"]["hit_rate"], 0);
  EXPECT_EQ(json["cache"]["time_saved_s"], 0);
  EXPECT_EQ(json["cache"]["best_possible_hit_rate_bytes"], 1);  // nothing can be missed
}

TEST(StatisticsTable, HoldsAlignedLines) {
  const std::string table = StatisticsTable(Example());
  EXPECT_THAT(table,
              HasSubstr("\nprompt        12 tokens, 2 of them reused, 20 tok/s in 0.500 s\n"));
  EXPECT_THAT(table, HasSubstr("\nthawing       0.500 s for what was read, 1.250 s in products "
                               "of coded weights\n"));
  EXPECT_THAT(table, HasSubstr("\nanswer        3 tokens 4 tok/s, end of generation\n"));
  EXPECT_THAT(table,
              HasSubstr("\nhottest       w.weight, 40 B, 1 of 4 visits hit, read for 0.500"));
}

TEST(StatisticsTable, SaysWhyReadingGoesAnotherWay) {
  RunReport report = Example();
  EXPECT_THAT(StatisticsTable(report), HasSubstr(", by io_uring\n"));
  report.cache.reader = "pread";
  report.reader_note = "io_uring: Operation not permitted";
  EXPECT_THAT(StatisticsTable(report),
              HasSubstr(", by pread (io_uring: Operation not permitted)\n"));
}

TEST(Hottest, PutsTheLongestReadFirstAndThenTheMostVisited) {
  const auto names = [](const std::vector<MatrixStatistics>& list) {
    std::vector<std::string_view> result;
    for (const MatrixStatistics& m : list) result.push_back(m.name);
    return result;
  };
  EXPECT_THAT(names(Hottest({{.name = "idle"},
                             {.name = "often", .visits = 9},
                             {.name = "slow", .visits = 1, .read_seconds = 2},
                             {.name = "seldom", .visits = 2}})),
              ElementsAre("slow", "often", "seldom"));
  EXPECT_EQ(Hottest(std::vector<MatrixStatistics>(50, {.name = "w", .visits = 1})).size(), 5U);
}

TEST(AddGeneration, SumsAnswersAndKeepsTheFirstTimeToAToken) {
  GenerationStatistics total;
  AddGeneration(Example().generation, total);
  GenerationStatistics second = Example().generation;
  second.ttft_seconds = 9;
  AddGeneration(second, total);
  EXPECT_EQ(total.prompt_tokens, 24);
  EXPECT_EQ(total.reused_tokens, 4);
  EXPECT_EQ(total.decode_tokens, 6);
  EXPECT_EQ(total.step_seconds.size(), 4U);
  EXPECT_EQ(total.ttft_seconds, 0.25);
  EXPECT_EQ(total.decode_bytes_read, 200U);
}

TEST(PublishReport, WritesAFileThatHoldsTheObject) {
  const TemporaryDirectory folder;
  ReportOptions options;
  options.quiet = true;
  options.statistics_file = folder.PathOf("s.json");
  ASSERT_TRUE(PublishReport(Example(), options));
  const auto read = ReadJsonFile(options.statistics_file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, StatisticsJson(Example()));
}

TEST(PublishReport, AddsTheProfileWhereItIsAskedFor) {
  const TemporaryDirectory folder;
  ReportOptions options;
  options.quiet = true;
  options.profile = true;
  options.statistics_file = folder.PathOf("s.json");
  RunReport report = Example();
  report.profile.prompts.total = 0.5;
  testing::internal::CaptureStderr();
  const auto published = PublishReport(report, options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), ProfileTable(report.profile));
  ASSERT_TRUE(published) << published.error().message;
  const auto read = ReadJsonFile(options.statistics_file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)["profile"], ProfileJson(report.profile));
}

TEST(PublishReport, SaysWhenTheFileCannotBeWritten) {
  ReportOptions options;
  options.quiet = true;
  options.statistics_file = "/no/such/folder/s.json";
  const auto published = PublishReport(Example(), options);
  ASSERT_FALSE(published);
  EXPECT_THAT(published.error().message, HasSubstr("/no/such/folder/s.json"));
}

TEST(RandomSeed, Varies) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 8; ++i) seeds.insert(RandomSeed());
  EXPECT_GT(seeds.size(), 1U);
}

}  // namespace
}  // namespace thaw::cli
