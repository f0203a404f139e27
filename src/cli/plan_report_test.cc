#include "cli/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

MemoryPlan Example() {
  return {.budget_bytes = 100 * kMiB,
          .floor_bytes = 40 * kMiB,
          .program_bytes = 20 * kMiB,
          .growth_bytes = 4 * kMiB,
          .kernel_bytes = 1 * kMiB,
          .kv_bytes = 10 * kMiB,
          .scratch_bytes = 3 * kMiB,
          .logits_bytes = 2 * kMiB,
          .row_cache_bytes = 1 * kMiB,
          .weight_capacity_bytes = 58 * kMiB,
          .context = 4096,
          .prefill_chunk = 128,
          .weight_bytes = 200 * kMiB,
          .slot_bytes = 8 * kMiB,
          .shares = {.resident_bytes = 50 * kMiB,
                     .streamed_bytes = 150 * kMiB,
                     .visited_bytes_per_token = 200.0 * kMiB,
                     .read_bytes_per_token = 150.0 * kMiB}};
}

TEST(PlanJson, HasEveryKeyOfTheCommandLinesDefinition) {
  const Json json = PlanJson(Example());
  for (const char* key :
       {"floor_bytes", "budget_bytes", "resident_bytes", "streamed_bytes", "weight_bytes",
        "kv_bytes", "scratch_bytes", "logits_bytes", "row_cache_bytes", "program_bytes",
        "growth_bytes", "kernel_bytes", "slot_bytes", "context", "prefill_chunk"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["bytes_read_per_token"], 150 * kMiB);
  EXPECT_EQ(json["best_possible_hit_rate_bytes"], 0.25);
}

PlanReport ExampleReport() {
  PlanReport report{.plan = Example()};
  report.speed = {.decode_tok_per_s = 20, .disk_seconds = 0.04, .bound_by = "disk"};
  report.curve = {{40 * kMiB, 190 * kMiB, 2}, {200 * kMiB, 10 * kMiB, 46}, {220 * kMiB, 0, 50}};
  report.rates.memory_bytes_per_second = 40e9;
  report.rates.Set(DiskRate{.device = "254:0", .bytes_per_second = 3e9});
  report.device = "254:0";
  return report;
}

TEST(Forecast, IsAddedToThePlanWithItsCurveAndKnee) {
  Json json = PlanJson(Example());
  AddForecast(ExampleReport(), json);
  EXPECT_EQ(json["predicted_tok_per_s"], 20);
  EXPECT_EQ(json["bound_by"], "disk");
  EXPECT_EQ(json["knee_budget_bytes"], 200 * kMiB);
  ASSERT_EQ(json["curve"].size(), 3);
  EXPECT_EQ(json["curve"][0]["bytes_read_per_token"], 190 * kMiB);
  EXPECT_EQ(json["machine"]["memory_gb_per_s"], 40);
  EXPECT_EQ(json["machine"]["disk_gb_per_s"], 3);
}

TEST(Forecast, IsATableThatMarksTheKnee) {
  const std::string table = ForecastTable(ExampleReport());
  EXPECT_THAT(table, HasSubstr("20.0 tok/s predicted, bound by disk"));
  EXPECT_THAT(table, HasSubstr("200.0 MiB      46.0 tok/s    10.0 MiB read  <- 90 %"));
}

TEST(PlanTable, NamesEachShareAndWhatIsLeft) {
  const std::string table = PlanTable(Example());
  EXPECT_THAT(table, HasSubstr("budget         100.0 MiB\n"));
  EXPECT_THAT(table, HasSubstr("\n  KV cache      10.0 MiB  4096 positions\n"));
  EXPECT_THAT(table, HasSubstr("\n  row cache      1.0 MiB  embeddings"));
  EXPECT_THAT(table, HasSubstr("\n  weights       58.0 MiB  8.0 MiB of it slots"));
  EXPECT_THAT(table, HasSubstr("\n  unused         1.0 MiB\n"));
  EXPECT_THAT(table, HasSubstr("\n  resident      50.0 MiB  25.0 %\n"));
  EXPECT_THAT(table, EndsWith("\n  streamed     150.0 MiB  for every token\n"));
}

TEST(PlanTable, LeavesNothingNegativeWhereTheProgramGrew) {
  MemoryPlan plan = Example();
  plan.program_bytes = 30 * kMiB;
  EXPECT_THAT(PlanTable(plan), HasSubstr("\n  unused             0 B\n"));
}

TEST(PlanLine, MentionsStreamingOnlyWhereThereIsSome) {
  MemoryPlan plan = Example();
  EXPECT_EQ(PlanLine(plan),
            "budget 100.0 MiB: program 25.0 MiB, KV cache 10.0 MiB, activations 6.0 MiB, weights "
            "58.0 MiB | 50.0 MiB of 200.0 MiB of weights resident, 150.0 MiB streamed for every "
            "token");
  plan.shares.streamed_bytes = 0;
  EXPECT_THAT(PlanLine(plan), Not(HasSubstr("streamed")));
}

TEST(PlanTable, SaysOfExpertsWhatUniformUseGivesAndThatItIsAnEstimate) {
  MemoryPlan plan = Example();
  plan.shares = {.resident_bytes = 50 * kMiB,
                 .expert_bytes = 150 * kMiB,
                 .kept_bytes = 60 * kMiB,
                 .visited_bytes_per_token = 80.0 * kMiB,
                 .read_bytes_per_token = 18.0 * kMiB};
  const std::string table = PlanTable(plan);
  EXPECT_THAT(table, HasSubstr("\n  streamed           0 B\n"));
  EXPECT_THAT(table,
              HasSubstr("\n  experts      150.0 MiB  60.0 MiB of them kept by use; at uniform "
                        "use 77.5 % of what a token visits is in memory and 18.0 MiB are "
                        "read (an estimate)\n"));
  EXPECT_THAT(PlanLine(plan), HasSubstr(", 60.0 MiB of 150.0 MiB of experts kept by use"));
}

}  // namespace
}  // namespace thaw::cli
