#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

namespace thaw {
namespace {

std::string SystemMessage(int error_number) {
  return std::generic_category().message(error_number);
}

class PosixFile final : public File {
 public:
  PosixFile(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  ~PosixFile() override { ::close(descriptor_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return 0;
    while (true) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) {
        return Fail(ErrorCode::kIo, "{}: reading {} bytes at offset {} failed: {}", path_,
                    out.size(), offset, SystemMessage(errno));
      }
    }
  }

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_;
};

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

}  // namespace

Result<void> ReadExactlyAt(const File& file, uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    THAW_ASSIGN(const size_t got, file.ReadSomeAt(offset + done, out.subspan(done)));
    if (got == 0) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: the file ends early: {} bytes are wanted at offset {}, {} are there",
                  file.path(), out.size(), offset, done);
    }
    done += got;
  }
  return {};
}

Result<std::shared_ptr<const File>> OpenFile(const std::string& path) {
  if (path.empty()) return Fail(ErrorCode::kInvalidArgument, "the file name is empty");
  if (path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument, "the file name holds a zero byte");
  }
  // O_NONBLOCK: without it, opening a pipe would wait for somebody to write into it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error_number = errno;
    if (error_number == ENOENT) return Fail(ErrorCode::kNotFound, "{}: no such file", path);
    if (error_number == ENXIO) {
      return Fail(ErrorCode::kInvalidArgument, "{}: a regular file is expected, this is a socket",
                  path);
    }
    return Fail(ErrorCode::kIo, "{}: cannot be opened: {}", path, SystemMessage(error_number));
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    const int error_number = errno;
    ::close(descriptor);
    return Fail(ErrorCode::kIo, "{}: cannot be examined: {}", path, SystemMessage(error_number));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Fail(ErrorCode::kInvalidArgument, "{}: a regular file is expected, this is {}", path,
                KindOf(status.st_mode));
  }
  return std::make_shared<PosixFile>(path, descriptor, static_cast<uint64_t>(status.st_size));
}

}  // namespace thaw
