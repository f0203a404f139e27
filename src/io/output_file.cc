#include "io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/system_message.h"

namespace thaw {
namespace {

namespace fs = std::filesystem;

// Opens a file that did not exist before; its name goes to `temporary_path`. -1 and errno when
// that fails.
int CreateBeside(const std::string& target_path, std::string& temporary_path) {
  static std::atomic<uint32_t> next_number = 0;
  while (true) {
    temporary_path =
        fmt::format("{}.partial-{}-{}", target_path, ::getpid(), next_number.fetch_add(1));
    // 0666 is narrowed by the umask, as for every file that a program creates.
    const int descriptor =
        ::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
}

// A rename is on disk only when its folder is.
bool SyncFolderOf(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  // EINVAL: a file system that has no such operation for folders has nothing to flush either.
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
  const int error_number = errno;
  ::close(descriptor);
  errno = error_number;
  return synced;
}

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path) {
  if (path.empty()) return Fail(ErrorCode::kInvalidArgument, "the output file name is empty");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return Fail(ErrorCode::kInvalidArgument, "{}: cannot be written: {} stands there", path,
                fs::is_directory(status) ? "a directory" : "something other than a file");
  }
  OutputFile file;
  file.path_ = path;
  file.target_path_ = path;
  if (fs::exists(status)) {
    const fs::path followed = fs::canonical(path, error);
    if (!error) file.target_path_ = followed.string();
  }
  file.descriptor_ = CreateBeside(file.target_path_, file.temporary_path_);
  if (file.descriptor_ < 0) {
    const int error_number = errno;
    file.temporary_path_.clear();
    return Fail(ErrorCode::kIo, "{}: cannot be created: {}", path, SystemMessage(error_number));
  }
  return file;
}

OutputFile::~OutputFile() { Discard(); }

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_path_(std::move(other.target_path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this != &other) {
    Discard();
    path_ = std::move(other.path_);
    target_path_ = std::move(other.target_path_);
    temporary_path_ = std::exchange(other.temporary_path_, {});
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = other.size_;
  }
  return *this;
}

Result<void> OutputFile::Append(std::span<const std::byte> bytes) {
  THAW_CHECK(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Fail(ErrorCode::kIo, "{}: writing {} bytes at offset {} failed: {}", path_,
                  bytes.size(), size_, SystemMessage(errno));
    }
    size_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> OutputFile::Commit() {
  THAW_CHECK(descriptor_ >= 0);
  // Close also reports writes that failed late (network file systems); it frees the descriptor even
  // when it fails.
  const bool flushed = ::fsync(descriptor_) == 0;
  const int flush_error = errno;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!flushed || !closed) {
    const int error_number = flushed ? errno : flush_error;
    Discard();
    return Fail(ErrorCode::kIo, "{}: its {} bytes could not be brought to disk: {}", path_, size_,
                SystemMessage(error_number));
  }
  if (std::rename(temporary_path_.c_str(), target_path_.c_str()) != 0) {
    const int error_number = errno;
    Discard();
    return Fail(ErrorCode::kIo, "{}: cannot be put in place: {}", path_,
                SystemMessage(error_number));
  }
  temporary_path_.clear();
  if (!SyncFolderOf(target_path_)) {
    return Fail(ErrorCode::kIo, "{}: its folder could not be brought to disk: {}", path_,
                SystemMessage(errno));
  }
  return {};
}

void OutputFile::Discard() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
  temporary_path_.clear();
}

}  // namespace thaw
