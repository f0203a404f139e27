#include "io/device.h"

#include <gtest/gtest.h>

#include <regex>

#include "io/temporary_directory.h"

namespace thaw {
namespace {

TEST(DeviceOf, IsTheSameForFilesOfOneFolderAndAnotherForProc) {
  const TemporaryDirectory folder;
  const auto first = DeviceOf(folder.Write("a", "1"));
  const auto second = DeviceOf(folder.Write("b", "2"));
  const auto proc = DeviceOf("/proc/self/status");
  ASSERT_TRUE(first && second && proc);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *proc);
  EXPECT_TRUE(std::regex_match(*first, std::regex("[0-9]+:[0-9]+"))) << *first;
}

TEST(DeviceOf, SaysWhichFileIsMissing) {
  const auto device = DeviceOf("/no/such/file");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(device.error().message, "/no/such/file: No such file or directory");
}

}  // namespace
}  // namespace thaw
