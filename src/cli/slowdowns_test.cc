#include "cli/slowdowns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Four CPUs on four cores, computing alone for half a second.
MachineState AtRest() {
  MachineState state = {.threads = 4, .wall_seconds = 0.5, .cpu_seconds = 2};
  state.system = {.memory_total = 16 * kGiB,
                  .memory_available = 12 * kGiB,
                  .cgroup_limit = 8 * kGiB,
                  .cgroup_used = 8 * kGiB,
                  .cgroup_page_cache = 7 * kGiB,
                  .last_level_cache = kGiB / 32,
                  .huge_pages = "madvise"};
  state.before = {.machine_cpus = 4,
                  .allowed_cpus = 4,
                  .allowed_cores = 4,
                  .quota_cpus = 4,
                  .quota_throttled_seconds = 1,
                  .busy_seconds = 100,
                  .steal_seconds = 10,
                  .load_average = 0.25,
                  .frequency_hz = 1e9,
                  .highest_frequency_hz = 4e9,
                  .frequency_governor = "schedutil",
                  .thermal_throttles = 5};
  state.after = state.before;
  *state.after.busy_seconds += 2.02;
  state.after.frequency_hz = 3.6e9;
  state.loop = {.least_seconds = 1e-3, .median_excess = 0.01, .p90_excess = 0.05};
  return state;
}

TEST(FindSlowdowns, FindsNoneOnAMachineAtRest) { EXPECT_THAT(FindSlowdowns(AtRest()), IsEmpty()); }

TEST(FindSlowdowns, SaysNothingOfWhatIsNotKnown) {
  MachineState state;
  state.system.huge_pages = "always";
  EXPECT_THAT(FindSlowdowns(state), IsEmpty());
  EXPECT_EQ(CpusOfOthers(state), std::nullopt);
  EXPECT_EQ(CpusStolen(state), std::nullopt);
}

// Changes one thing of a machine at rest, which must be the one thing that is found.
template <typename Change>
std::string Found(Change change) {
  MachineState state = AtRest();
  change(state);
  const std::vector<std::string> found = FindSlowdowns(state);
  EXPECT_EQ(found.size(), 1U) << testing::PrintToString(found);
  return found.empty() ? "" : found.front();
}

TEST(FindSlowdowns, NamesHugePagesThatAreOffOrMissing) {
  EXPECT_THAT(Found([](MachineState& s) { s.system.huge_pages = "never"; }),
              HasSubstr("huge pages are off (never)"));
  EXPECT_THAT(Found([](MachineState& s) { s.system.huge_pages = ""; }),
              HasSubstr("huge pages are not there"));
}

TEST(FindSlowdowns, NamesMemoryThatIsNearItsLimit) {
  EXPECT_THAT(Found([](MachineState& s) { s.system.cgroup_page_cache = kGiB / 2; }),
              HasSubstr("limit is near: 7.5 GiB of 8.0 GiB are used"));
  EXPECT_THAT(Found([](MachineState& s) { s.system.memory_available = kGiB; }),
              HasSubstr("1.0 GiB of 16.0 GiB are available"));
}

TEST(FindSlowdowns, NamesReadingByThreads) {
  EXPECT_THAT(Found([](MachineState& s) { s.uring_problem = "no io_uring"; }),
              HasSubstr("no io_uring: weights are read by threads"));
}

TEST(FindSlowdowns, NamesTooManyThreads) {
  EXPECT_THAT(Found([](MachineState& s) {
                s.threads = 6;
                s.before.quota_cpus = 6;
                s.before.machine_cpus = 8;
                s.after.busy_seconds = s.before.busy_seconds;
                s.before.allowed_cpus = 5;
              }),
              HasSubstr("6 threads on 5 CPUs wait for each other: -t 5"));
  EXPECT_THAT(Found([](MachineState& s) { s.before.allowed_cores = 2; }),
              HasSubstr("4 threads on 2 cores"));
  EXPECT_THAT(Found([](MachineState& s) { s.before.quota_cpus = 1.5; }),
              HasSubstr("quota is 1.50 CPUs for 4 threads, which it stops in turn: -t 1"));
}

TEST(FindSlowdowns, NamesWhatTheQuotaStopped) {
  EXPECT_THAT(Found([](MachineState& s) { *s.after.quota_throttled_seconds += 0.25; }),
              HasSubstr("stopped it for 250 ms in the 500 ms"));
}

TEST(FindSlowdowns, NamesNeighbours) {
  EXPECT_THAT(Found([](MachineState& s) { s.cpu_seconds = 1.02; }),
              HasSubstr("other programs used 2.00 of the 4 CPUs in the 500 ms"));
  EXPECT_THAT(Found([](MachineState& s) { *s.after.steal_seconds += 0.5; }),
              HasSubstr("the hypervisor gave 1.00 of the 4 CPUs to others"));
  EXPECT_THAT(Found([](MachineState& s) { s.before.load_average = 3.5; }),
              HasSubstr("load average of the last minute is 3.50"));
}

TEST(FindSlowdowns, LeavesNeighboursAloneThatUseOtherCpus) {
  MachineState state = AtRest();
  state.threads = 2;
  state.cpu_seconds = 1;
  state.before.load_average = 2;
  EXPECT_NEAR(*CpusOfOthers(state), 2.04, 1e-9);
  EXPECT_THAT(FindSlowdowns(state), IsEmpty());
}

TEST(FindSlowdowns, NamesUnevenLoops) {
  EXPECT_THAT(Found([](MachineState& s) { s.loop->p90_excess = 1.5; }),
              HasSubstr("1 % longer than at best half of the time, 150 % one time in ten"));
  EXPECT_THAT(Found([](MachineState& s) { s.loop->median_excess = 0.2; }),
              HasSubstr("20 % longer"));
}

TEST(FindSlowdowns, NamesThrottling) {
  EXPECT_THAT(Found([](MachineState& s) { s.after.frequency_hz = 2e9; }),
              HasSubstr("runs at 2.00 GHz of 4.00 after computing (governor schedutil)"));
  EXPECT_THAT(Found([](MachineState& s) { s.after.thermal_throttles = 8; }),
              HasSubstr("for heat 3 times in the 500 ms"));
}

}  // namespace
}  // namespace thaw::cli
