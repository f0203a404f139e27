#include "io/output_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "io/temporary_directory.h"

namespace thaw {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int CountFiles(const TemporaryDirectory& dir) {
  return static_cast<int>(std::distance(fs::directory_iterator(dir.path()), {}));
}

TEST(OutputFile, AppearsWhenCommitted) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("out.bin");
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->Append("one, "));
  ASSERT_TRUE(file->Append("two"));
  EXPECT_EQ(file->size(), 8u);
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(Contents(path), "one, two");
  EXPECT_EQ(CountFiles(dir), 1);
}

TEST(OutputFile, LeavesNothingBehindUncommitted) {
  const TemporaryDirectory dir;
  {
    auto file = OutputFile::Create(dir.PathOf("out.bin"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Append("half"));
    EXPECT_EQ(CountFiles(dir), 1);
  }
  EXPECT_EQ(CountFiles(dir), 0);
}

TEST(OutputFile, KeepsTheFormerFileUntilCommitted) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("out.bin", "former");
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Append("latter"));
    EXPECT_EQ(Contents(path), "former");
  }
  EXPECT_EQ(Contents(path), "former");
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Append("latter"));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(Contents(path), "latter");
}

TEST(OutputFile, ReplacesWhatALinkPointsTo) {
  const TemporaryDirectory dir;
  const std::string target = dir.Write("target.bin", "former");
  const std::string link = dir.PathOf("link.bin");
  fs::create_symlink(target, link);
  auto file = OutputFile::Create(link);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Append("latter"));
  ASSERT_TRUE(file->Commit());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Contents(target), "latter");
}

TEST(OutputFile, HasOneOwnerAfterAMove) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("out.bin");
  auto created = OutputFile::Create(path);
  ASSERT_TRUE(created);
  OutputFile file = *std::move(created);
  ASSERT_TRUE(file.Append("moved"));
  ASSERT_TRUE(file.Commit());
  EXPECT_EQ(Contents(path), "moved");
}

TEST(OutputFile, AssignmentDiscardsWhatWasUncommitted) {
  const TemporaryDirectory dir;
  auto first = OutputFile::Create(dir.PathOf("first"));
  auto second = OutputFile::Create(dir.PathOf("second"));
  ASSERT_TRUE(first && second);
  *first = *std::move(second);
  EXPECT_EQ(CountFiles(dir), 1);
  ASSERT_TRUE(first->Commit());
  EXPECT_TRUE(fs::exists(dir.PathOf("second")));
  EXPECT_FALSE(fs::exists(dir.PathOf("first")));
}

TEST(OutputFile, RefusesADirectoryAndADevice) {
  const TemporaryDirectory dir;
  const auto onto_directory = OutputFile::Create(dir.path().string());
  ASSERT_FALSE(onto_directory);
  EXPECT_THAT(onto_directory.error().message, HasSubstr("a directory stands there"));
  const auto onto_device = OutputFile::Create("/dev/null");
  ASSERT_FALSE(onto_device);
  EXPECT_EQ(onto_device.error().message,
            "/dev/null: cannot be written: something other than a file stands there");
}

TEST(OutputFile, SaysThatTheFolderIsMissing) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("no/such/out.bin");
  const auto file = OutputFile::Create(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_EQ(file.error().message, path + ": cannot be created: No such file or directory");
}

// A limit on the size of files fails a write in its middle, as a full disk does.
TEST(OutputFile, SaysThatAWriteFailed) {
  const TemporaryDirectory dir;
  const std::string path = dir.PathOf("out.bin");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto former_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit ten_bytes = {10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &ten_bytes), 0);
  auto file = OutputFile::Create(path);
  const auto appended = file ? file->Append("twelve bytes") : Result<void>();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, former_handler);
  ASSERT_TRUE(file);
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ErrorCode::kIo);
  EXPECT_EQ(appended.error().message,
            path + ": writing 2 bytes at offset 10 failed: File too large");
}

}  // namespace
}  // namespace thaw
