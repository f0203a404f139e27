#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/memory_region.h"
#include "base/units.h"

namespace thaw {

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t size, std::string_view purpose,
                                              size_t alignment) {
  if (size >= kHugePageBytes) alignment = std::max(alignment, kHugePageBytes);
  void* data = nullptr;
  if (posix_memalign(&data, alignment, std::max<size_t>(size, 1)) != 0) {
    return Fail(ErrorCode::kResourceExhausted, "no memory for {}: {} were needed", purpose,
                FormatBytes(size));
  }
  // Advice only: where huge pages are not to be had, small ones serve.
  if (size >= kHugePageBytes) madvise(data, size, MADV_HUGEPAGE);
  AlignedBuffer buffer;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = size;
  return buffer;
}

}  // namespace thaw
