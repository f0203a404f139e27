#include "io/memory_file.h"

#include <gmock/gmock.h>

#include <array>

namespace thaw {
namespace {

TEST(MemoryFile, ReadsLikeAFile) {
  const MemoryFile file("made-up.bin", "0123456789");
  EXPECT_EQ(file.path(), "made-up.bin");
  EXPECT_EQ(file.size(), 10u);
  std::array<std::byte, 4> out = {};
  ASSERT_TRUE(ReadExactlyAt(file, 3, out));
  EXPECT_EQ(out[0], std::byte{'3'});
  EXPECT_EQ(out[3], std::byte{'6'});
}

TEST(MemoryFile, GivesWhatIsLeftAtItsEnd) {
  const MemoryFile file("made-up.bin", "0123456789");
  std::array<std::byte, 4> out = {};
  EXPECT_EQ(*file.ReadSomeAt(8, out), 2u);
  EXPECT_EQ(*file.ReadSomeAt(10, out), 0u);
  EXPECT_EQ(*file.ReadSomeAt(UINT64_MAX, out), 0u);
}

}  // namespace
}  // namespace thaw
