#include "residency/extent_allocator.h"

#include "base/check.h"

namespace thaw {

std::optional<uint64_t> ExtentAllocator::Allocate(uint64_t bytes) {
  THAW_CHECK(bytes > 0);
  uint64_t hole = 0;
  for (const auto& [offset, size] : extents_) {
    if (hole + bytes <= offset) break;
    hole = offset + size;
  }
  if (hole + bytes > limit_) return std::nullopt;
  extents_.emplace(hole, bytes);
  used_bytes_ += bytes;
  return hole;
}

void ExtentAllocator::Free(uint64_t offset) {
  const auto found = extents_.find(offset);
  THAW_CHECK(found != extents_.end());
  used_bytes_ -= found->second;
  extents_.erase(found);
}

uint64_t ExtentAllocator::end() const {
  return extents_.empty() ? 0 : extents_.rbegin()->first + extents_.rbegin()->second;
}

}  // namespace thaw
