#include "base/cpu_conditions.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace thaw {
namespace {

// A folder that stands for the root of a machine.
class CpuConditionsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "thaw-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("/proc/self/status", "Name:\tthaw\nCpus_allowed:\t7\nCpus_allowed_list:\t0-1,3\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void WriteOfCpu(int cpu, const std::string& path, const std::string& text) {
    Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + path, text);
  }
  CpuConditions Read() const { return ReadCpuConditions(root_); }

  std::string root_;
};

TEST_F(CpuConditionsTest, CountsTheCoresOfTheCpusThatAreAllowed) {
  EXPECT_EQ(Read().allowed_cpus, 3);
  EXPECT_EQ(Read().allowed_cores, std::nullopt);
  WriteOfCpu(0, "topology/thread_siblings_list", "0-1\n");
  WriteOfCpu(1, "topology/thread_siblings_list", "0-1\n");
  WriteOfCpu(3, "topology/thread_siblings_list", "2-3\n");
  EXPECT_EQ(Read().allowed_cores, 2);
}

TEST_F(CpuConditionsTest, TakesTheTightestQuotaOfTheCgroupsAbove) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().quota_cpus, std::nullopt);
  Write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n");
  Write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(Read().quota_cpus, 1.5);
  EXPECT_EQ(Read().quota_throttled_seconds, 2.5);
}

TEST_F(CpuConditionsTest, ReadsQuotasOfVersion1) {
  Write("/proc/self/cgroup", "4:memory:/other\n3:cpu,cpuacct:/box\n");
  Write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 4\nthrottled_time 3000000000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().quota_cpus, 0.5);
  EXPECT_EQ(Read().quota_throttled_seconds, 3);
}

TEST_F(CpuConditionsTest, AddsTheTimesOfTheCpusThatAreAllowed) {
  Write("/proc/stat",
        "cpu  1000 0 0 0 0 0 0 0 0 0\n"
        "cpu0 100 10 20 5000 600 1 2 40 0 0\n"
        "cpu1 200 0 0 5000 0 0 0 0 0 0\n"
        "cpu2 9999 0 0 0 0 0 0 9999 0 0\n"
        "cpu3 300 0 0 5000 0 0 0 60 0 0\n"
        "intr 12345\n");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_EQ(Read().machine_cpus, 4);
  EXPECT_DOUBLE_EQ(Read().busy_seconds.value(), 633 / ticks);
  EXPECT_DOUBLE_EQ(Read().steal_seconds.value(), 100 / ticks);
}

TEST_F(CpuConditionsTest, ReadsTheLoad) {
  Write("/proc/loadavg", "1.67 0.58 1.19 5/108 1245\n");
  EXPECT_EQ(Read().load_average, 1.67);
}

TEST_F(CpuConditionsTest, TakesTheCpuThatIsFarthestBelowItsHighestFrequency) {
  WriteOfCpu(0, "cpufreq/scaling_cur_freq", "3000000\n");
  WriteOfCpu(0, "cpufreq/cpuinfo_max_freq", "4000000\n");
  WriteOfCpu(0, "cpufreq/scaling_governor", "performance\n");
  WriteOfCpu(3, "cpufreq/scaling_cur_freq", "1000000\n");
  WriteOfCpu(3, "cpufreq/cpuinfo_max_freq", "2000000\n");
  WriteOfCpu(3, "cpufreq/scaling_governor", "powersave\n");
  EXPECT_EQ(Read().frequency_hz, 1e9);
  EXPECT_EQ(Read().highest_frequency_hz, 2e9);
  EXPECT_EQ(Read().frequency_governor, "powersave");
}

TEST_F(CpuConditionsTest, AddsTheThermalThrottles) {
  WriteOfCpu(0, "thermal_throttle/core_throttle_count", "7\n");
  WriteOfCpu(1, "thermal_throttle/core_throttle_count", "5\n");
  WriteOfCpu(2, "thermal_throttle/core_throttle_count", "100\n");
  EXPECT_EQ(Read().thermal_throttles, 12U);
}

TEST_F(CpuConditionsTest, LeavesOutWhatTheSystemDoesNotSay) {
  for (const char* cpus : {"", "x", "3-1", "0-99999999999", "1,"}) {
    Write("/proc/self/status", std::string("Cpus_allowed_list:\t") + cpus + "\n");
    Write("/proc/self/cgroup", "0::/\n");
    Write("/sys/fs/cgroup/cpu.max", "100000\n");
    Write("/proc/stat", "cpu0 1 2 3\nrubbish\ncpu\n");
    Write("/proc/loadavg", "none\n");
    const CpuConditions conditions = Read();
    EXPECT_EQ(conditions.allowed_cores, std::nullopt);
    EXPECT_EQ(conditions.quota_cpus, std::nullopt);
    EXPECT_EQ(conditions.busy_seconds, std::nullopt);
    EXPECT_EQ(conditions.load_average, std::nullopt);
    EXPECT_EQ(conditions.frequency_hz, std::nullopt);
    EXPECT_EQ(conditions.frequency_governor, "");
    EXPECT_EQ(conditions.thermal_throttles, std::nullopt);
  }
}

TEST(CpuConditionsOfThisMachine, CountsGoUp) {
  const CpuConditions before = ReadCpuConditions();
  const CpuConditions after = ReadCpuConditions();
  if (!before.busy_seconds) GTEST_SKIP() << "SKIP: the system does not tell what its CPUs do";
  EXPECT_GE(after.busy_seconds.value(), *before.busy_seconds);
  EXPECT_GE(before.allowed_cpus.value(), 1);
}

}  // namespace
}  // namespace thaw
