#include "base/small_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace thaw {
namespace {

TEST(ReadSmallFile, IsEmptyWhereThereIsNone) { EXPECT_EQ(ReadSmallFile("/no/such/file"), ""); }

TEST(LeadingNumber, IsWhatTheTextBeginsWith) {
  EXPECT_EQ(LeadingNumber("12 kB\n"), 12U);
  EXPECT_EQ(LeadingNumber("max"), std::nullopt);
  EXPECT_EQ(LeadingNumber("-1"), std::nullopt);
  EXPECT_EQ(LeadingNumber("99999999999999999999"), std::nullopt);
}

TEST(NumberOfLine, FindsAWholeName) {
  const std::string text = "nr_throttled_x 1\nnr_throttled 2\nlast 3";
  EXPECT_EQ(NumberOfLine(text, "nr_throttled"), 2U);
  EXPECT_EQ(NumberOfLine(text, "last"), 3U);
  EXPECT_EQ(NumberOfLine(text, "throttled"), std::nullopt);
  EXPECT_EQ(NumberOfLine("", "last"), std::nullopt);
}

TEST(VisitCgroupFolders, GoesFromTheInnermostOutInTheHierarchyOfTheController) {
  std::string root = (std::filesystem::temp_directory_path() / "thaw-XXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/proc/self");
  std::ofstream(root + "/proc/self/cgroup")
      << "5:cpuset:/other\n4:cpu,cpuacct:/x\nno colons\n0::/a/b\n";
  std::vector<std::string> folders;
  VisitCgroupFolders(root, "cpu", [&](const std::string& folder, bool is_version1) {
    folders.push_back(folder.substr(root.size()) + (is_version1 ? " 1" : " 2"));
  });
  EXPECT_EQ(folders, (std::vector<std::string>{"/sys/fs/cgroup/cpu/x/ 1", "/sys/fs/cgroup/cpu/ 1",
                                               "/sys/fs/cgroup/a/b/ 2", "/sys/fs/cgroup/a/ 2",
                                               "/sys/fs/cgroup/ 2"}));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace thaw
