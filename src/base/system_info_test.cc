#include "base/system_info.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace thaw {
namespace {

// A folder that stands for the root of a machine.
class SystemInfoTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "thaw-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  std::string root_;
};

TEST_F(SystemInfoTest, ReadsMemoryInBytes) {
  Write("/proc/meminfo", "MemTotal:       24033188 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n");
  const SystemInfo info = ReadSystemInfo(root_);
  EXPECT_EQ(info.memory_total, uint64_t{24033188} * 1024);
  EXPECT_EQ(info.memory_available, uint64_t{2048} * 1024);
}

TEST_F(SystemInfoTest, ReadsWhoGetsHugePages) {
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(ReadSystemInfo(root_).huge_pages, "madvise");
}

TEST_F(SystemInfoTest, TakesTheLargestCache) {
  EXPECT_EQ(ReadSystemInfo(root_).last_level_cache, std::nullopt);
  const std::string caches = "/sys/devices/system/cpu/cpu0/cache/index";
  Write(caches + "0/size", "32K\n");
  Write(caches + "1/size", "4096K\n");
  Write(caches + "2/size", "1024K\n");
  EXPECT_EQ(ReadSystemInfo(root_).last_level_cache, uint64_t{4} << 20);
}

TEST_F(SystemInfoTest, TakesTheTightestLimitOfTheCgroupsAbove) {
  Write("/proc/self/cgroup", "0::/user.slice/shell\n");
  Write("/sys/fs/cgroup/user.slice/shell/memory.max", "max\n");
  Write("/sys/fs/cgroup/user.slice/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/user.slice/memory.current", "400000\n");
  Write("/sys/fs/cgroup/memory.max", "2000000\n");
  const SystemInfo info = ReadSystemInfo(root_);
  EXPECT_EQ(info.cgroup_limit, 1000000U);
  EXPECT_EQ(info.cgroup_used, 400000U);
}

TEST_F(SystemInfoTest, FindsTheLimitOfAContainerAtItsOwnRoot) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(ReadSystemInfo(root_).cgroup_limit, 536870912U);
}

TEST_F(SystemInfoTest, ReadsLimitsOfVersion1) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/box\n4:hugetlb,memory:/box\n");
  Write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "300000\n");
  Write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "100\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const SystemInfo info = ReadSystemInfo(root_);
  EXPECT_EQ(info.cgroup_limit, 300000U);
  EXPECT_EQ(info.cgroup_used, 100U);
}

TEST_F(SystemInfoTest, LeavesOutWhatTheSystemDoesNotSay) {
  Write("/proc/meminfo", "MemTotal: unknown\n");
  Write("/proc/self/cgroup", "no colons\n0::\n::/\n1:memory\n");
  const SystemInfo info = ReadSystemInfo(root_);
  EXPECT_EQ(info.memory_total, std::nullopt);
  EXPECT_EQ(info.memory_available, std::nullopt);
  EXPECT_EQ(info.cgroup_limit, std::nullopt);
  EXPECT_EQ(info.huge_pages, "");
}

TEST(SystemInfoOfThisMachine, HasMemory) {
  const SystemInfo info = ReadSystemInfo();
  ASSERT_TRUE(info.memory_total && info.memory_available);
  EXPECT_GE(*info.memory_total, *info.memory_available);
}

}  // namespace
}  // namespace thaw
