#include "io/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/system_message.h"
#include "io/page_cache.h"

namespace thaw {
namespace {

// Logical blocks of disks have 512 to 4096 bytes; 4096 is a multiple of them all.
constexpr uint32_t kUsualBlockBytes = 4096;
// The largest block that Linux knows (a page of 64 KiB). A file system that asks for more is
// answered by not reading it directly, so that buffers stay within bounds.
constexpr uint32_t kMostBlockBytes = 64 << 10;

// Where tiles must come through the page cache, they come at a third of the rate unless they are
// read ahead; below this, what is read is a row of an embedding (32 KiB where 8192 floats are one).
constexpr size_t kReadAheadBytes = 64 << 10;

// What direct reads of the file behind `descriptor` must be multiples of; 0 when there are none.
uint32_t DirectAlignment(int descriptor) {
  struct statfs system = {};
  if (::fstatfs(descriptor, &system) != 0) return 0;
  // These are the page cache; direct reads of them copy like others do.
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) return 0;
  struct statx status = {};
  const bool is_told = ::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
                       (status.stx_mask & STATX_DIOALIGN) != 0;
  if (!is_told) return kUsualBlockBytes;
  const uint32_t alignment = std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
  const bool is_usable = status.stx_dio_mem_align != 0 && status.stx_dio_offset_align != 0 &&
                         std::has_single_bit(alignment) && alignment <= kMostBlockBytes;
  return is_usable ? std::max(alignment, kUsualBlockBytes) : 0;
}

// A descriptor of its own, with its own flags, of the file that `descriptor` has open; -1 when the
// system refuses. Going through /proc finds that very file, whatever stands at its path by now.
int Reopen(int descriptor, int flags) {
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
}

std::optional<File::DirectAccess> OpenDirect(int descriptor) {
  const uint32_t alignment = DirectAlignment(descriptor);
  if (alignment == 0) return std::nullopt;
  const int direct = Reopen(descriptor, O_DIRECT);
  if (direct < 0) return std::nullopt;
  return File::DirectAccess{direct, alignment};
}

// For reads that fetch what they ask for and no more. Reading ahead takes up to 8 MiB on some
// machines, and marks pages whose later reading fetches as much again. The descriptor itself where
// the system gives no second one.
int OpenExact(int descriptor) {
  const int exact = Reopen(descriptor, 0);
  if (exact < 0) return descriptor;
  ::posix_fadvise(exact, 0, 0, POSIX_FADV_RANDOM);
  return exact;
}

// The system tells the owner of a file, and those who may write it, what of it is cached. To others
// mincore answers that everything is.
bool MayAskForCached(const std::string& path, const struct stat& status) {
  return status.st_uid == ::geteuid() || ::access(path.c_str(), W_OK) == 0;
}

class PosixFile final : public File {
 public:
  // Takes over the descriptor.
  PosixFile(std::string path, int descriptor, const struct stat& status)
      : path_(std::move(path)),
        descriptor_(descriptor),
        exact_descriptor_(OpenExact(descriptor)),
        direct_(OpenDirect(descriptor)),
        size_(static_cast<uint64_t>(status.st_size)),
        changed_at_(status.st_mtim),
        may_ask_for_cached_(MayAskForCached(path_, status)) {}
  ~PosixFile() override {
    if (direct_) ::close(direct_->descriptor);
    if (exact_descriptor_ != descriptor_) ::close(exact_descriptor_);
    ::close(descriptor_);
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  std::optional<DirectAccess> direct() const override { return direct_; }

  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return 0;
    const bool is_read_ahead = !direct_ && out.size() >= kReadAheadBytes;
    const int descriptor = is_read_ahead ? descriptor_ : exact_descriptor_;
    while (true) {
      const ssize_t got = ::pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) {
        return Fail(ErrorCode::kIo, "{}: reading {} bytes at offset {} failed: {}", path_,
                    out.size(), offset, SystemMessage(errno));
      }
    }
  }

  bool IsCached(uint64_t offset, uint64_t bytes) const override {
    if (!may_ask_for_cached_ || offset > size_ || bytes > size_ - offset) return false;
    if (bytes == 0) return true;
    std::optional<bool> cached = IsCachedByCachestat(descriptor_, offset, bytes);
    if (!cached) cached = IsCachedByMincore(descriptor_, offset, bytes);
    return cached.value_or(false);
  }

  Result<void> CheckUnchanged() const override {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) {
      return Fail(ErrorCode::kIo, "{}: cannot be examined: {}", path_, SystemMessage(errno));
    }
    if (static_cast<uint64_t>(status.st_size) != size_) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: the file has changed since it was opened: it had {} bytes, it has {}", path_,
                  size_, status.st_size);
    }
    const timespec& now = status.st_mtim;
    if (now.tv_sec != changed_at_.tv_sec || now.tv_nsec != changed_at_.tv_nsec) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: the file has changed since it was opened: last written at {}.{:09} then, "
                  "at {}.{:09} now",
                  path_, changed_at_.tv_sec, changed_at_.tv_nsec, now.tv_sec, now.tv_nsec);
    }
    return {};
  }

 private:
  std::string path_;
  int descriptor_;
  int exact_descriptor_;  // may be descriptor_
  std::optional<DirectAccess> direct_;
  uint64_t size_;
  timespec changed_at_;
  bool may_ask_for_cached_;
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
  return std::make_shared<PosixFile>(path, descriptor, status);
}

}  // namespace thaw
