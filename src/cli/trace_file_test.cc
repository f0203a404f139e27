#include "cli/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

#include "cli/json_text.h"
#include "cli/text_input.h"
#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::HasSubstr;

VisitEvent Example() {
  return {.pass = 3,
          .tile = 17,
          .matrix = "blk.0.\"odd\".weight",
          .layer = 2,
          .bytes = 512,
          .hit = false,
          .stall_ns = 12500,
          .resident_bytes = 300,
          .capacity_bytes = 400};
}

TEST(TraceLine, IsAnObjectThatNamesTheWeight) {
  const auto json = ParseJson(TraceLine(Example(), 0.5), "line");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json, (Json{{"pass", 3},
                         {"layer", 2},
                         {"weight", "blk.0.\"odd\".weight"},
                         {"tile", 17},
                         {"result", "MISS"},
                         {"bytes", 512},
                         {"stall_us", 12.5},
                         {"resident_bytes", 300},
                         {"capacity_bytes", 400},
                         {"fullness", 0.75},
                         {"hit_rate", 0.5}}));
}

TEST(TraceLine, HasNumbersForACacheWithoutCapacity) {
  const auto json = ParseJson(TraceLine(VisitEvent(), 0), "line");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["fullness"], 0);
}

TEST(TraceFile, KeepsEveryLineOfManyThreadsWholeAndCountsAsItGoes) {
  constexpr int kThreads = 4;
  constexpr int kVisits = 500;
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("t.jsonl");
  auto trace = TraceFile::Create(path);
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kVisits; ++i) {
        VisitEvent visit = Example();
        visit.hit = true;
        (*trace)->Write(visit);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*trace)->Write(Example());
  ASSERT_TRUE((*trace)->Close());

  const auto text = ReadTextFile(path);
  ASSERT_TRUE(text);
  std::istringstream lines(*text);
  std::string line;
  Json last;
  int count = 0;
  while (std::getline(lines, line)) {
    const auto json = ParseJson(line, "line");
    ASSERT_TRUE(json) << line;
    last = *json;
    ++count;
  }
  EXPECT_EQ(count, kThreads * kVisits + 1);
  EXPECT_EQ(last["result"], "MISS");
  EXPECT_NEAR(last["hit_rate"].get<double>(), 2000.0 / 2001, 1e-4);
}

TEST(TraceFile, SaysWhereItCannotBeMade) {
  const auto trace = TraceFile::Create("/no/such/folder/t.jsonl");
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().message, HasSubstr("/no/such/folder/t.jsonl: cannot be written"));
}

TEST(TraceFile, TellsOfAFullDiskAtTheEnd) {
  auto trace = TraceFile::Create("/dev/full");
  ASSERT_TRUE(trace) << trace.error().message;
  for (int i = 0; i < 1000; ++i) (*trace)->Write(Example());
  const auto closed = (*trace)->Close();
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().message, HasSubstr("/dev/full: cannot be written: No space left"));
}

}  // namespace
}  // namespace thaw::cli
