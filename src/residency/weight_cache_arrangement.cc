// Which tile lies where: places, slots, and the memory that goes back to the system.
#include <algorithm>

#include "base/check.h"
#include "residency/weight_cache.h"

namespace thaw {
namespace {

constexpr uint64_t kHugePage = kHugePageBytes;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

}  // namespace

Result<void> WeightCache::SetCapacity(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  THAW_ASSIGN(PlacementTargets targets, ChoosePlacement(map_, policy_, Uses(), pinned_, bytes));
  Rearrange(std::move(targets));
  return {};
}

Result<void> WeightCache::Optimize() { return SetCapacity(capacity_bytes()); }

Result<ResidencyReport> WeightCache::PinMatrices(std::span<const int32_t> matrices) {
  const std::lock_guard lock(mutex_);
  std::vector<char> pinned = pinned_;
  ResidencyReport report;
  for (const int32_t matrix : matrices) {
    const TileMap::Range& range = map_.tiles_of(matrix);
    for (int32_t tile = range.first; tile < range.first + range.count; ++tile) {
      pinned[static_cast<size_t>(tile)] = 1;
      ++report.tiles;
      report.bytes += map_.tile(tile).bytes;
    }
  }
  THAW_ASSIGN(PlacementTargets targets,
              ChoosePlacement(map_, policy_, Uses(), pinned, capacity_bytes()));
  pinned_ = std::move(pinned);
  Rearrange(std::move(targets));
  return report;
}

std::vector<char> WeightCache::pinned_tiles() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

std::vector<TileUse> WeightCache::Uses() const {
  std::vector<TileUse> uses(tiles_.size());
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    uses[static_cast<size_t>(tile)] = UseOf(tile);
  }
  return uses;
}

void WeightCache::Rearrange(PlacementTargets targets) {
  targets_ = std::move(targets);
  capacity_bytes_.store(targets_.capacity_bytes, std::memory_order_relaxed);
  extents_.SetLimit(targets_.capacity_bytes);
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    TileState& t = state(tile);
    if (t.place == kNowhere) continue;
    const uint64_t end = static_cast<uint64_t>(t.place.load()) + map_.tile(tile).span_bytes;
    const bool stays = targets_.placed[static_cast<size_t>(tile)] != 0;
    if (!stays || end > targets_.capacity_bytes) LoseMemory(tile);
  }
  // Slots are made anew where the places leave room for them.
  for (size_t i = slots_.size(); i-- > 0;) {
    if (slots_[i].tile != kFree) DropIfUnpinned(slots_[i].tile);
  }
  std::erase_if(slots_, [&](const Slot& slot) {
    if (slot.tile == kFree) extents_.Free(slot.offset);
    return slot.tile == kFree;
  });
  memory_came_free_ = true;
  UseFreedMemory();
  preload_cursor_ = 0;
  WakeReaders();
  tile_settled_.notify_all();
}

// The tile's place is no longer its own: at once, or with its last pin.
void WeightCache::LoseMemory(int32_t tile) {
  TileState& t = state(tile);
  const int64_t place = t.place.exchange(kNowhere);
  if (std::exchange(t.wanted_by_preload, false)) --preloads_;
  if (t.extent != place) {  // not there, or in a slot
    extents_.Free(static_cast<uint64_t>(place));
    return;
  }
  t.word.fetch_or(kLeaving, std::memory_order_acq_rel);  // seen by unpins and by the end of a read
  DropIfUnpinned(tile);
}

// Gives memory to what is to have it and has none: first slots, so that a tile without a place can
// always be read, then places.
void WeightCache::FillMemory() {
  const uint64_t slot_bytes = map_.largest_span_bytes();
  while (std::ssize(slots_) < targets_.slots) {
    const auto offset = extents_.Allocate(slot_bytes);
    if (!offset) break;
    slots_.push_back({.offset = *offset});
  }
  for (const int32_t tile : targets_.order) {
    TileState& t = state(tile);
    if (targets_.placed[static_cast<size_t>(tile)] == 0 || t.place != kNowhere) continue;
    if (const auto offset = extents_.Allocate(map_.tile(tile).span_bytes)) {
      t.place = static_cast<int64_t>(*offset);
    }
  }
  memory_end_ = std::max(memory_end_, RoundUp(extents_.end()));
}

WeightCache::Slot* WeightCache::SlotAt(int64_t extent) {
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return std::cmp_equal(slot.offset, extent); });
  return found == slots_.end() ? nullptr : &*found;
}

// Resident and unpinned becomes absent; anything else stays as it is.
void WeightCache::DropIfUnpinned(int32_t tile) {
  TileState& t = state(tile);
  uint32_t word = t.word.load(std::memory_order_acquire);
  if (t.loading || (word & kResident) == 0 || (word & kPinMask) != 0) return;
  if (!t.word.compare_exchange_strong(word, 0, std::memory_order_acq_rel)) return;
  if ((word & kFresh) != 0 && (word & kInSlot) != 0) --ahead_;
  resident_bytes_.fetch_sub(map_.tile(tile).bytes, std::memory_order_relaxed);
  FreeExtent(tile);
}

// Where an absent tile was can be used again.
void WeightCache::FreeExtent(int32_t tile) {
  TileState& t = state(tile);
  const int64_t extent = std::exchange(t.extent, kNowhere);
  if (extent == t.place) return;
  Slot* slot = SlotAt(extent);
  if (slot != nullptr) {
    const bool fits = slot->offset + map_.largest_span_bytes() <= targets_.capacity_bytes;
    if (fits && std::ssize(slots_) <= targets_.slots) {
      slot->tile = kFree;
      return;
    }
    slots_.erase(slots_.begin() + (slot - slots_.data()));
  }
  extents_.Free(static_cast<uint64_t>(extent));
  memory_came_free_ = true;
}

// What a new capacity could not place for want of memory that was still pinned may fit now.
void WeightCache::UseFreedMemory() {
  if (!std::exchange(memory_came_free_, false)) return;
  FillMemory();
  ReleaseTail();
}

void WeightCache::ReleaseTail() {
  const uint64_t end = RoundUp(extents_.end());
  if (end >= memory_end_) return;
  memory_.Release(end, memory_end_ - end);
  memory_end_ = end;
}

}  // namespace thaw
