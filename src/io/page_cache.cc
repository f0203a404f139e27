#include "io/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/system_message.h"

namespace thaw {
namespace {

// Debian 12's headers are older than the call; the number is the same on every architecture.
constexpr long kCachestat = 451;

struct CachestatRange {
  uint64_t offset;
  uint64_t bytes;
};

// In pages.
struct CachestatCounts {
  uint64_t cached;
  uint64_t dirty;
  uint64_t in_writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

uint64_t PageBytes() {
  static const auto bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

std::optional<bool> IsCachedByCachestat(int descriptor, uint64_t offset, uint64_t bytes) {
  const CachestatRange range = {offset, bytes};
  CachestatCounts counts = {};
  if (::syscall(kCachestat, descriptor, &range, &counts, 0) != 0) return std::nullopt;
  const uint64_t first_page = offset / PageBytes();
  const uint64_t last_page = (offset + bytes - 1) / PageBytes();
  return counts.cached == last_page - first_page + 1;
}

std::optional<bool> IsCachedByMincore(int descriptor, uint64_t offset, uint64_t bytes) {
  const uint64_t lead = offset % PageBytes();
  const uint64_t mapped_bytes = lead + bytes;
  void* mapped = ::mmap(nullptr, mapped_bytes, PROT_READ, MAP_SHARED, descriptor,
                        static_cast<off_t>(offset - lead));
  if (mapped == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages((mapped_bytes + PageBytes() - 1) / PageBytes());
  const bool answered = ::mincore(mapped, mapped_bytes, pages.data()) == 0;
  ::munmap(mapped, mapped_bytes);
  if (!answered) return std::nullopt;
  // The lowest bit says whether the page is there; the others are reserved.
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

Result<void> DropFromPageCache(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Fail(ErrorCode::kIo, "{}: cannot be opened: {}", path, SystemMessage(errno));
  }
  // Pages that are still to be written cannot be forgotten.
  int error_number = ::fsync(descriptor) == 0 ? 0 : errno;
  if (error_number == 0) error_number = ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
  if (error_number != 0) {
    return Fail(ErrorCode::kIo, "{}: cannot be taken out of the page cache: {}", path,
                SystemMessage(error_number));
  }
  return {};
}

}  // namespace thaw
