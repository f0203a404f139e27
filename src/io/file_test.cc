#include "io/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "io/temporary_directory.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ReadText(const File& file, uint64_t offset, size_t count) {
  std::string text(count, '?');
  const auto read = ReadExactlyAt(file, offset, std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(read) << read.error().message;
  return text;
}

TEST(OpenFile, KnowsPathAndSizeAndReadsAnywhere) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("greeting.txt", "hello, world");
  const auto file = OpenFile(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ((*file)->size(), 12u);
  EXPECT_EQ(ReadText(**file, 7, 5), "world");
  EXPECT_EQ(ReadText(**file, 0, 5), "hello");
  EXPECT_EQ(ReadText(**file, 12, 0), "");
}

TEST(OpenFile, OpensAnEmptyFile) {
  const TemporaryDirectory dir;
  const auto file = OpenFile(dir.Write("empty", ""));
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), 0u);
}

TEST(OpenFile, NamesAMissingFile) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("nothing.gguf");
  const auto file = OpenFile(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.error().message, path + ": no such file");
}

TEST(OpenFile, RefusesADirectory) {
  const TemporaryDirectory dir;
  const auto file = OpenFile(dir.path().string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.error().message,
            dir.path().string() + ": a regular file is expected, this is a directory");
}

TEST(OpenFile, RefusesAPipeWithoutWaitingForAWriter) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto file = OpenFile(path);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("a regular file is expected, this is a pipe"));
}

TEST(OpenFile, RefusesADevice) {
  const auto file = OpenFile("/dev/null");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "/dev/null: a regular file is expected, this is a device");
}

TEST(OpenFile, RefusesASocket) {
  const TemporaryDirectory dir;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = dir.PathOf("socket");
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto file = OpenFile(path);
  ::close(descriptor);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("a regular file is expected, this is a socket"));
}

TEST(OpenFile, SaysWhyAFileMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIP: root may read every file";
  const TemporaryDirectory dir;
  const std::string path = dir.Write("secret", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const auto file = OpenFile(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_EQ(file.error().message, path + ": cannot be opened: Permission denied");
}

TEST(OpenFile, SaysWhyAPathLeadsNowhere) {
  const TemporaryDirectory dir;
  const auto through_file = OpenFile(dir.Write("file", "x") + "/inner");
  ASSERT_FALSE(through_file);
  EXPECT_THAT(through_file.error().message, HasSubstr("cannot be opened: Not a directory"));
}

TEST(OpenFile, RefusesNamesThatNoFileCanHave) {
  EXPECT_EQ(OpenFile("").error().message, "the file name is empty");
  EXPECT_EQ(OpenFile(std::string("a\0b", 3)).error().message, "the file name holds a zero byte");
}

TEST(ReadExactlyAt, SaysWhatWasWantedAndWhatWasThere) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("ten", "0123456789");
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  std::array<std::byte, 8> out = {};
  const auto read = ReadExactlyAt(**file, 6, out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().message,
            path + ": the file ends early: 8 bytes are wanted at offset 6, 4 are there");
}

TEST(ReadExactlyAt, FindsNothingAtOffsetsNoFileReaches) {
  const TemporaryDirectory dir;
  const auto file = OpenFile(dir.Write("ten", "0123456789"));
  ASSERT_TRUE(file);
  std::array<std::byte, 1> out = {};
  const auto read = ReadExactlyAt(**file, std::numeric_limits<uint64_t>::max(), out);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              AllOf(HasSubstr("offset 18446744073709551615"), HasSubstr("0 are there")));
}

TEST(ReadExactlyAt, ReadsBeyondFourGigabytes) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("sparse", "");
  const uint64_t offset = (uint64_t{5} << 30) + 3;
  std::filesystem::resize_file(path, offset);
  {
    std::ofstream out(path, std::ios::binary | std::ios::app);
    out << "far";
  }
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), offset + 3);
  EXPECT_EQ(ReadText(**file, offset, 3), "far");
}

TEST(ReadExactlyAt, ServesManyThreadsAtOnce) {
  const TemporaryDirectory dir;
  std::string text(1 << 16, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  const auto file = OpenFile(dir.Write("pattern", text));
  ASSERT_TRUE(file);
  std::vector<std::thread> threads;
  std::atomic<int> mismatches = 0;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string out(777, '\0');
      for (size_t i = 0; i < 200; ++i) {
        const size_t offset = (t * 7919 + i * 331) % (text.size() - out.size());
        const auto read = ReadExactlyAt(**file, offset, std::as_writable_bytes(std::span(out)));
        if (!read || text.compare(offset, out.size(), out) != 0) ++mismatches;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mismatches, 0);
}

TEST(OpenFile, GivesDirectAccessInBlocksOfTheDisk) {
  const TemporaryDirectory dir;
  const auto file = OpenFile(dir.Write("file", "x"));
  ASSERT_TRUE(file);
  const auto access = (*file)->direct();
  if (!access) GTEST_SKIP() << "SKIP: no direct access to " << dir.path();
  EXPECT_TRUE(std::has_single_bit(access->alignment));
  EXPECT_GE(access->alignment, 512u);
  EXPECT_NE(::fcntl(access->descriptor, F_GETFL) & O_DIRECT, 0);
}

TEST(OpenFile, ClosesAllItsDescriptors) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("file", "x");
  const auto count_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = count_descriptors();
  {
    const auto file = OpenFile(path);
    ASSERT_TRUE(file);
    EXPECT_GT(count_descriptors(), before);
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST(IsCached, FollowsThePageCacheWithinTheFile) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("cached", std::string(100'000, 'x'));
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  if (!(*file)->IsCached(0, 100'000)) GTEST_SKIP() << "SKIP: the system tells of no cached pages";
  EXPECT_TRUE((*file)->IsCached(99'999, 1));
  EXPECT_FALSE((*file)->IsCached(99'999, 2));
  EXPECT_TRUE((*file)->IsCached(100'000, 0));
  EXPECT_FALSE((*file)->IsCached(100'001, 0));
  EXPECT_FALSE((*file)->IsCached(5, std::numeric_limits<uint64_t>::max()));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fsync(descriptor), 0);
  ASSERT_EQ(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(descriptor);
  EXPECT_FALSE((*file)->IsCached(0, 1));
  // A read of a few bytes brings in their page and nothing ahead of it.
  EXPECT_EQ(ReadText(**file, 0, 10), std::string(10, 'x'));
  EXPECT_TRUE((*file)->IsCached(0, 10));
  EXPECT_FALSE((*file)->IsCached(90'000, 1));
}

TEST(CheckUnchanged, HoldsWhileNobodyWrites) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("file", "0123456789");
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->CheckUnchanged());
  EXPECT_EQ(ReadText(**file, 0, 10), "0123456789");
  EXPECT_TRUE((*file)->CheckUnchanged());
  // Who replaces a file leaves the one that is open as it was.
  std::filesystem::rename(dir.Write("other", "abc"), path);
  EXPECT_TRUE((*file)->CheckUnchanged());
  EXPECT_EQ(ReadText(**file, 0, 10), "0123456789");
}

TEST(CheckUnchanged, NamesTheSizesOfAFileThatShrankOrGrew) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("file", "0123456789");
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  for (const int bytes : {9, 11}) {
    std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes));
    const auto checked = (*file)->CheckUnchanged();
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(
        checked.error().message,
        fmt::format("{}: the file has changed since it was opened: it had 10 bytes, it has {}",
                    path, bytes));
  }
}

TEST(CheckUnchanged, NoticesBytesWrittenInPlace) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("file", "0123456789");
  // The clock of file times may stand still for 10 ms: writes of that long ago are told apart.
  const auto hour_ago = std::filesystem::last_write_time(path) - std::chrono::hours(1);
  std::filesystem::last_write_time(path, hour_ago);
  const auto file = OpenFile(path);
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->CheckUnchanged());
  {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out << "X";
  }
  const auto checked = (*file)->CheckUnchanged();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr(path + ": the file has changed since it was opened: last written at"),
                    HasSubstr(" then, at "), HasSubstr(" now")));
}

}  // namespace
}  // namespace thaw
