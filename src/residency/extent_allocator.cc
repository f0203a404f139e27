#include "residency/extent_allocator.h"

#include <algorithm>

#include "base/check.h"

namespace thaw {

std::optional<uint64_t> ExtentAllocator::Allocate(uint64_t bytes) {
  THAW_CHECK(bytes > 0);
  uint64_t hole = full_below_;
  for (auto it = extents_.lower_bound(hole); it != extents_.end(); ++it) {
    if (hole + bytes <= it->first) break;
    if (hole == it->first && hole == full_below_) full_below_ += it->second;
    hole = it->first + it->second;
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
  full_below_ = std::min(full_below_, offset);
  extents_.erase(found);
}

std::vector<ExtentAllocator::Run> ExtentAllocator::FreeRuns(uint64_t begin, uint64_t end) const {
  std::vector<Run> runs;
  uint64_t free_from = begin;
  for (const auto& [offset, size] : extents_) {
    if (offset >= end) break;
    if (offset > free_from) runs.push_back({free_from, offset});
    free_from = std::max(free_from, offset + size);
  }
  if (free_from < end) runs.push_back({free_from, end});
  return runs;
}

uint64_t ExtentAllocator::end() const {
  return extents_.empty() ? 0 : extents_.rbegin()->first + extents_.rbegin()->second;
}

}  // namespace thaw
