#include "io/uncached_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include "io/faulty_file.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

// Says that the page cache holds all of it.
class CachedFile final : public File {
 public:
  const std::string& path() const override { return bytes_.path(); }
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    return bytes_.ReadSomeAt(offset, out);
  }
  std::optional<DirectAccess> direct() const override {
    return DirectAccess{.descriptor = 5, .alignment = 512};
  }
  bool IsCached(uint64_t, uint64_t) const override { return true; }

 private:
  const MemoryFile bytes_{"ten.bin", "0123456789"};
};

TEST(UncachedFile, IsNeverCachedWhateverTheOtherFileSays) {
  const auto cached = std::make_shared<CachedFile>();
  ASSERT_TRUE(cached->IsCached(0, 10));
  EXPECT_FALSE(UncachedFile(cached).IsCached(0, 10));
}

TEST(UncachedFile, IsTheOtherFileInEverythingElse) {
  const UncachedFile file(std::make_shared<CachedFile>());
  EXPECT_EQ(file.path(), "ten.bin");
  EXPECT_EQ(file.size(), 10U);
  ASSERT_TRUE(file.direct());
  EXPECT_EQ(file.direct()->descriptor, 5);
  EXPECT_EQ(file.direct()->alignment, 512U);
  std::array<std::byte, 4> out = {};
  ASSERT_TRUE(ReadExactlyAt(file, 5, out));
  EXPECT_EQ(out.front(), std::byte{'5'});
}

TEST(UncachedFile, PassesOnWhatCannotBeRead) {
  const auto whole = std::make_shared<MemoryFile>("m", std::string(100, 'x'));
  const UncachedFile file(std::make_shared<FaultyFile>(whole, FileFaults{.broken_byte = 50}));
  std::array<std::byte, 100> out = {};
  const auto read = ReadExactlyAt(file, 0, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
}

TEST(UncachedFile, NoticesThatTheOtherFileChanged) {
  const TemporaryDirectory folder;
  const std::string path = folder.Write("file", "0123456789");
  const UncachedFile file(*OpenFile(path));
  EXPECT_TRUE(file.CheckUnchanged());
  std::filesystem::resize_file(path, 5);
  EXPECT_FALSE(file.CheckUnchanged());
}

}  // namespace
}  // namespace thaw
