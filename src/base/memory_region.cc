#include "base/memory_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "base/units.h"

namespace thaw {
namespace {

// The last huge page is mapped whole, so that it can be one.
size_t MappedBytes(size_t size) { return RoundUp(size, kHugePageBytes); }

}  // namespace

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) ::munmap(data_, MappedBytes(size_));
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<MemoryRegion> MemoryRegion::Reserve(size_t bytes, std::string_view purpose) {
  MemoryRegion region;
  if (bytes == 0) return region;
  // Room to begin on a huge page; what stands before and behind goes back.
  const bool fits = bytes <= std::numeric_limits<size_t>::max() - 2 * kHugePageBytes;
  const size_t mapped_bytes = fits ? MappedBytes(bytes) + kHugePageBytes : bytes;
  void* mapped = fits ? ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                      : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    return Fail(ErrorCode::kResourceExhausted, "no addresses for {}: {} were needed", purpose,
                FormatBytes(bytes));
  }
  auto* begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const size_t before = RoundUp(address, kHugePageBytes) - address;
  const size_t behind = kHugePageBytes - before;
  region.data_ = begin + before;
  region.size_ = bytes;
  if (before > 0) ::munmap(begin, before);
  if (behind > 0) ::munmap(region.data_ + MappedBytes(bytes), behind);
  // Advice only: where huge pages are not to be had, small ones serve.
  ::madvise(region.data_, MappedBytes(bytes), MADV_HUGEPAGE);
  return region;
}

void MemoryRegion::Release(size_t offset, size_t bytes) {
  THAW_CHECK(offset <= size_ && bytes <= size_ - offset);
  const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = RoundUp(offset, page_bytes);
  const size_t end = (offset + bytes) / page_bytes * page_bytes;
  // Fails for locked memory alone (mlockall), which is not to be given back.
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace thaw
