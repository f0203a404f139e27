#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 100 MB of weights a token, 40 of them read, and 20 MB of keys and values; two runs of ten tokens
// in 1 s and 2 s.
BenchReport Example() {
  BenchReport report = {.model = "m.gguf",
                        .cpu = "A CPU",
                        .kernels = "avx2",
                        .threads = 2,
                        .policy = "planned",
                        .reader = "io_uring",
                        .peak_resident_bytes = 49 * kMiB};
  report.plan.budget_bytes = 50 * kMiB;
  report.speed = {.first_prompt_tokens = 7,
                  .ttft_cold_seconds = 1.5,
                  .ttft_warm_seconds = 0.25,
                  .memory_bytes_per_second = 4e9,
                  .memory_buffer_bytes = 60'000'000,
                  .disk_bytes_per_second = 1e9,
                  .int8 = Int8Rate{.instruction = "vpdpbusd", .operations_per_second = 3e9}};
  WorkloadReport decode = {.phase = Phase::kDecode,
                           .tokens = 10,
                           .after = 33,
                           .runs = 2,
                           .run_seconds = {1, 2},
                           .step_seconds = {0.1, 0.2},
                           .hit_bytes = 1'200'000'000,
                           .miss_bytes = 800'000'000,
                           .visited_bytes = 2'000'000'000,
                           .stall_seconds = 0.5,
                           .run_kv_bytes = 200'000'000,
                           .run_operations = 2'000'000'000};
  WorkloadReport prefill = decode;
  prefill.phase = Phase::kPrefill;
  prefill.after = 0;
  prefill.step_seconds.clear();
  report.speed.workloads = {prefill, decode};
  return report;
}

TEST(BenchJson, HasEveryKeyOfTheCommandLinesDefinition) {
  const Json json = BenchJson(Example());
  for (const char* key : {"memory_gb_per_s", "disk_gb_per_s", "int8_tops", "cpu", "kernels"}) {
    EXPECT_TRUE(json["machine"].contains(key)) << key;
  }
  EXPECT_EQ(json["model"]["path"], "m.gguf");
  ASSERT_EQ(json["runs"].size(), 2);
  for (const char* key :
       {"what", "tokens", "after", "threads", "budget_bytes", "tok_per_s", "bytes_per_token",
        "gb_per_s", "share_of_memory_rate", "tops", "share_of_int8_rate", "bytes_read_per_token",
        "hit_rate_bytes", "policy", "reader", "peak_rss_bytes", "stall_s_per_token"}) {
    EXPECT_TRUE(json["runs"][0].contains(key)) << key;
  }
}

TEST(BenchJson, HasNoNumberForARateThatWasNotMeasured) {
  BenchReport report = Example();
  report.speed.int8.reset();
  const Json json = BenchJson(report);
  EXPECT_TRUE(json["machine"]["int8_tops"].is_null());
  EXPECT_TRUE(json["machine"]["int8_instruction"].is_null());
  EXPECT_TRUE(json["runs"][1]["share_of_int8_rate"].is_null());
  EXPECT_FALSE(json.contains("simulation"));
  EXPECT_THAT(BenchTable(report), HasSubstr("int8 rate     not measured"));
}

TEST(BenchJson, RatesAndSharesFollowFromTheMedian) {
  const Json decode = BenchJson(Example())["runs"][1];
  EXPECT_EQ(decode["what"], "decode");
  EXPECT_EQ(decode["after"], 33);
  EXPECT_DOUBLE_EQ(decode["tok_per_s"]["median"], 7.5);
  EXPECT_DOUBLE_EQ(decode["tok_per_s"]["min"], 5);
  EXPECT_DOUBLE_EQ(decode["tok_per_s"]["max"], 10);
  EXPECT_DOUBLE_EQ(decode["bytes_per_token"], 120e6);
  EXPECT_DOUBLE_EQ(decode["kv_bytes_per_token"], 20e6);
  EXPECT_DOUBLE_EQ(decode["bytes_read_per_token"], 40e6);
  EXPECT_DOUBLE_EQ(decode["hit_rate_bytes"], 0.6);
  EXPECT_DOUBLE_EQ(decode["stall_s_per_token"], 0.025);
  EXPECT_DOUBLE_EQ(decode["gb_per_s"], 0.9);
  EXPECT_DOUBLE_EQ(decode["share_of_memory_rate"], 0.9 / 4);
  EXPECT_TRUE(decode["memory_gb_per_s"].is_null());
  EXPECT_DOUBLE_EQ(decode["share_of_disk_rate"], 0.3);
  EXPECT_DOUBLE_EQ(decode["tops"], 0.0015);
  EXPECT_DOUBLE_EQ(decode["share_of_int8_rate"], 0.5);
  EXPECT_DOUBLE_EQ(decode["decode_ms"]["p50"], 100);
}

TEST(BenchJson, ADecodeBesideReadingsOfMemoryTellsTheShareOfItsMedianStep) {
  BenchReport report = Example();
  WorkloadReport& decode = report.speed.workloads[1];
  decode.step_seconds = {0.1, 0.2, 0.4};
  decode.step_memory_rates = {2e9, 1.2e9, 1e9};
  EXPECT_DOUBLE_EQ(BenchJson(report)["runs"][1]["share_of_memory_rate"], 0.12 / 0.2 / 1.2);
  EXPECT_DOUBLE_EQ(BenchJson(report)["runs"][1]["memory_gb_per_s"], 1.2);
  EXPECT_DOUBLE_EQ(BenchJson(report)["machine"]["memory_gb_per_s"], 4);
}

TEST(BenchReport, SaysWhenTheRateOfMemoryIsTheCaches) {
  BenchReport report = Example();
  EXPECT_EQ(BenchJson(report)["machine"]["memory_rate_is_of_cache"], false);
  report.last_level_cache = 32 * kMiB;
  EXPECT_EQ(BenchJson(report)["machine"]["memory_rate_is_of_cache"], false);
  EXPECT_THAT(BenchTable(report), Not(HasSubstr("cache of")));
  report.last_level_cache = 64 * kMiB;
  EXPECT_EQ(BenchJson(report)["machine"]["memory_rate_is_of_cache"], true);
  EXPECT_THAT(BenchTable(report), HasSubstr("again and again: the rate of the cache of 64.0 MiB"));
}

TEST(BenchJson, OnlyDecodeHasSteps) {
  EXPECT_TRUE(BenchJson(Example())["runs"][0]["kv_bytes_per_token"].is_null());
  EXPECT_FALSE(BenchJson(Example())["runs"][0].contains("decode_ms"));
}

TEST(BenchJson, NamesTheShapeOfAGeneratedModel) {
  BenchReport report = Example();
  EXPECT_FALSE(BenchJson(report)["model"].contains("shape"));
  report.shape = "tinyllama-1.1b";
  report.type = "Q4_0";
  EXPECT_EQ(BenchJson(report)["model"]["shape"], "tinyllama-1.1b");
  EXPECT_EQ(BenchJson(report)["model"]["type"], "Q4_0");
}

TEST(BenchJson, APolicyThatDoesNotFitHasNoHitRate) {
  BenchReport report = Example();
  report.simulation = {.capacity_bytes = 5,
                       .passes = 50,
                       .policies = {{.policy = "lru", .hit_rate = 0.5, .hit_rate_bytes = 0.25},
                                    {.policy = "keep-all", .fits = false}}};
  const Json policies = BenchJson(report)["simulation"]["policies"];
  EXPECT_EQ(policies[0]["hit_rate_bytes"], 0.25);
  EXPECT_TRUE(policies[1]["hit_rate"].is_null());
  EXPECT_THAT(BenchTable(report), HasSubstr("keep-all   needs more memory\n"));
}

TEST(BenchTable, HasALineForEveryRun) {
  const std::string table = BenchTable(Example());
  EXPECT_THAT(table, HasSubstr("memory rate   4.00 GB/s"));
  EXPECT_THAT(table, HasSubstr("disk rate     1.00 GB/s"));
  EXPECT_THAT(table, HasSubstr("int8 rate     0.00 TOPS by vpdpbusd"));
  EXPECT_THAT(table, HasSubstr("\nprefill     10      0     7.50     5.00    10.00"));
  EXPECT_THAT(table,
              HasSubstr("\ndecode      10     33     7.50     5.00    10.00   100.00   200.00"));
  EXPECT_THAT(table, Not(HasSubstr("simulated")));
}

}  // namespace
}  // namespace thaw::cli
