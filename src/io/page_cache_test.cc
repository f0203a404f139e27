#include "io/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "io/temporary_directory.h"

namespace thaw {
namespace {

using Question = std::optional<bool> (*)(int, uint64_t, uint64_t);

class PageCache : public ::testing::TestWithParam<Question> {
 protected:
  void SetUp() override {
    path_ = dir_.Write("file.bin", std::string(1 << 20, 'x'));
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor_, 0);
    if (!GetParam()(descriptor_, 0, 1)) GTEST_SKIP() << "SKIP: the kernel lacks this call";
  }
  void TearDown() override { ::close(descriptor_); }

  std::optional<bool> Ask(uint64_t offset, uint64_t bytes) const {
    return GetParam()(descriptor_, offset, bytes);
  }
  void Evict() const {
    ASSERT_EQ(::fsync(descriptor_), 0);
    ASSERT_EQ(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  TemporaryDirectory dir_;
  std::string path_;
  int descriptor_ = -1;
};

INSTANTIATE_TEST_SUITE_P(Calls, PageCache,
                         ::testing::Values(&IsCachedByCachestat, &IsCachedByMincore),
                         [](const auto& test) {
                           return test.index == 0 ? "Cachestat" : "Mincore";
                         });

TEST_P(PageCache, HoldsWhatWasJustWritten) {
  EXPECT_EQ(Ask(0, 1 << 20), true);
  EXPECT_EQ(Ask(4095, 2), true);
  EXPECT_EQ(Ask((1 << 20) - 1, 1), true);
}

TEST_P(PageCache, HoldsNothingAfterEviction) {
  Evict();
  EXPECT_EQ(Ask(0, 1 << 20), false);
  EXPECT_EQ(Ask(5000, 1), false);
}

TEST_P(PageCache, IsNotFilledByAsking) {
  Evict();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Ask(0, 1 << 20), false);
  EXPECT_EQ(Ask(8192, 1), false);
}

TEST_P(PageCache, MustHoldEveryPageOfTheRange) {
  Evict();
  // No reading ahead: the one page of the byte is brought in.
  ASSERT_EQ(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM), 0);
  char byte = 0;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_EQ(::pread(descriptor_, &byte, 1, static_cast<off_t>(3 * page + 7)), 1);
  EXPECT_EQ(Ask(3 * page, page), true);
  EXPECT_EQ(Ask(3 * page + 100, 1), true);
  EXPECT_EQ(Ask(3 * page - 1, 2), false);
  EXPECT_EQ(Ask(3 * page, page + 1), false);
}

TEST_P(PageCache, ForgetsAFileByItsPath) {
  ASSERT_EQ(Ask(0, 1 << 20), true);
  ASSERT_TRUE(DropFromPageCache(path_));
  EXPECT_EQ(Ask(0, 1 << 20), false);
}

TEST(DropFromPageCache, NamesAFileThatIsNotThere) {
  const auto outcome = DropFromPageCache("/nowhere/m.gguf");
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("/nowhere/m.gguf"), std::string::npos);
}

}  // namespace
}  // namespace thaw
