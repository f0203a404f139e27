// Which tile lies where: places, slots, and the memory that goes back to the system.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/round_up.h"
#include "residency/weight_cache.h"

namespace thaw {
namespace {

constexpr uint64_t kHugePage = kHugePageBytes;

}  // namespace

Result<void> WeightCache::SetCapacity(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  return Replan(bytes);
}

Result<void> WeightCache::Optimize() {
  const std::lock_guard lock(mutex_);
  return Replan(targets_.capacity_bytes);
}

Result<bool> WeightCache::SetForms(const TileMap& forms, uint64_t capacity_bytes) {
  THAW_CHECK(forms.thaw_scratch_bytes() <= map_.thaw_scratch_bytes() &&
             forms.most_tile_span_bytes() <= map_.most_tile_span_bytes());
  std::unique_lock lock(mutex_);
  const auto choose = [&] {
    return ChoosePlacement(forms, policy_, Uses(), pinned_, capacity_bytes);
  };
  THAW_TRY(choose());
  const std::vector<int32_t> changing = TilesInOtherForms(forms);
  if (!MakeAbsent(changing, lock)) return false;
  THAW_ASSIGN(PlacementTargets targets, choose());  // others may have been pinned meanwhile
  for (const int32_t tile : changing) {
    if (HasPlace(tile)) LoseMemory(tile);
    state(tile).has_checksum = false;
  }
  map_.TakeForms(forms);
  if (changing.empty()) {
    RearrangeIfChanged(std::move(targets));
  } else {
    Rearrange(std::move(targets));
  }
  return true;
}

std::vector<int32_t> WeightCache::TilesInOtherForms(const TileMap& forms) const {
  std::vector<int32_t> tiles;
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    if (!map_.tile(tile).IsHeldAs(forms.tile(tile))) tiles.push_back(tile);
  }
  return tiles;
}

// Drops these tiles, those that are being read once that is over. False when one is pinned.
bool WeightCache::MakeAbsent(std::span<const int32_t> tiles, std::unique_lock<std::mutex>& lock) {
  const auto is_pinned = [&](int32_t tile) {
    const uint32_t word = state(tile).word.load(std::memory_order_acquire);
    return (word & kResident) != 0 && (word & kPinMask) != 0;
  };
  const auto is_loading = [&](int32_t tile) { return state(tile).loading; };
  bool any_pinned = false;
  readers_pause_ = true;
  while (true) {
    any_pinned = std::ranges::any_of(tiles, is_pinned);
    if (any_pinned) break;
    for (const int32_t tile : tiles) DropIfUnpinned(tile);
    any_pinned = std::ranges::any_of(tiles, is_pinned);  // in this moment
    if (any_pinned || std::ranges::none_of(tiles, is_loading)) break;
    WaitUntilSomethingSettles(lock);
  }
  readers_pause_ = false;
  UseFreedMemory();
  WakeReaders();
  return !any_pinned;
}

Result<void> WeightCache::Replan(uint64_t capacity_bytes) {
  THAW_ASSIGN(PlacementTargets targets,
              ChoosePlacement(map_, policy_, Uses(), pinned_, capacity_bytes));
  RearrangeIfChanged(std::move(targets));
  return {};
}

// Where nothing moves, what is in the slots stays there.
void WeightCache::RearrangeIfChanged(PlacementTargets targets) {
  const bool is_same = targets.capacity_bytes == targets_.capacity_bytes &&
                       targets.slots == targets_.slots && targets.placed == targets_.placed;
  if (!is_same || lacks_memory_) Rearrange(std::move(targets));
}

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
              ChoosePlacement(map_, policy_, Uses(), pinned, targets_.capacity_bytes));
  pinned_ = std::move(pinned);
  Rearrange(std::move(targets));
  return report;
}

std::vector<char> WeightCache::pinned_tiles() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

uint64_t WeightCache::slot_count() const {
  const std::lock_guard lock(mutex_);
  return slots_.size();
}

uint64_t WeightCache::slot_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.span_bytes;
  return bytes;
}

// For placing: the present pass does not count, because the tiles that it has not reached yet would
// seem to be worth less than the others.
std::vector<TileUse> WeightCache::Uses() const {
  const uint64_t window = ~uint64_t{0} >> (64 - options_.frequency_window);
  std::vector<TileUse> uses(tiles_.size());
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    TileUse& use = uses[static_cast<size_t>(tile)];
    use = UseOf(tile);
    use.window_visits = std::popcount((HistoryOf(tile) >> 1) & window);
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
  EmptySlots();
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

// Gives memory to what is to have it and has none. When all is unpinned, it always suffices.
void WeightCache::FillMemory() {
  lacks_memory_ = false;
  if (!AllocateMissing()) {
    Compact();
    lacks_memory_ = !AllocateMissing();
  }
  memory_end_ = std::max(memory_end_, RoundUp(extents_.end(), kHugePage));
}

// First slots, so that a tile without a place can always be read, then places. Whether nothing
// lacks memory now.
bool WeightCache::AllocateMissing() {
  while (std::ssize(slots_) < targets_.slots) {
    if (!AddSlot()) return false;
  }
  bool complete = true;
  for (const int32_t tile : targets_.order) {
    const bool lacks_place = targets_.placed[static_cast<size_t>(tile)] != 0 && !HasPlace(tile);
    if (lacks_place && !GivePlace(tile)) complete = false;
  }
  return complete;
}

bool WeightCache::AddSlot() {
  const auto offset = extents_.Allocate(targets_.slot_span_bytes);
  if (!offset) return false;
  slots_.push_back({.offset = *offset, .span_bytes = targets_.slot_span_bytes});
  ++free_slots_;
  return true;
}

bool WeightCache::GivePlace(int32_t tile) {
  const auto offset = extents_.Allocate(map_.tile(tile).span_bytes);
  if (!offset) return false;
  state(tile).place = static_cast<int64_t>(*offset);
  return true;
}

// For a visit of a tile that lacks memory: what lies in the way of the plan may be pinned for as
// long as that visit waits, by its own thread or by one that waits for it. Other tiles lose their
// places, from the highest, until what is free together is a place for this one, or a slot. False
// when all that is not in use does not suffice.
bool WeightCache::TakeFromOthers(int32_t tile) {
  const bool gets_place = targets_.placed[static_cast<size_t>(tile)] != 0;
  const bool gets_slot = !gets_place && std::ssize(slots_) < targets_.slots;
  if (!gets_place && !gets_slot) return false;
  const auto fits = [&] { return gets_place ? GivePlace(tile) : AddSlot(); };
  bool done = false;
  std::vector<int32_t> placed = PlacedTiles();
  for (; !done && !placed.empty(); placed.pop_back()) {
    const TileState& other = state(placed.back());
    const uint32_t word = other.word.load(std::memory_order_acquire);
    if (other.loading || other.waiters > 0 || (word & kPinMask) != 0) continue;
    LoseMemory(placed.back());
    done = fits();
  }
  if (!done && gets_place) {
    EmptySlots();
    done = fits();
  }
  memory_end_ = std::max(memory_end_, RoundUp(extents_.end(), kHugePage));
  return done;
}

// Slides places down into the holes below them, so that what is free lies together; slots are made
// anew above. What is pinned or being read to stays, and lets the cache know when it no longer is.
void WeightCache::Compact() {
  EmptySlots();
  for (const int32_t tile : PlacedTiles()) {
    TileState& t = state(tile);
    while (!MoveToLowest(tile)) {
      if (t.loading) break;
      if ((t.word.fetch_or(kLeaving, std::memory_order_acq_rel) & kPinMask) != 0) break;
    }
  }
}

// The lowest first.
std::vector<int32_t> WeightCache::PlacedTiles() const {
  std::vector<int32_t> placed;
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    if (HasPlace(tile)) placed.push_back(tile);
  }
  std::ranges::sort(placed, {}, [&](int32_t tile) { return state(tile).place.load(); });
  return placed;
}

// Whether the tile's place and its bytes lie as low as they can; not while they are in use.
bool WeightCache::MoveToLowest(int32_t tile) {
  TileState& t = state(tile);
  const bool holds_bytes = t.extent == t.place;
  uint32_t word = t.word.load(std::memory_order_acquire);
  if (holds_bytes) {
    if (t.loading || (word & kPinMask) != 0) return false;
    // Absent for all who do not wait for the lock.
    if (!t.word.compare_exchange_strong(word, 0, std::memory_order_acq_rel)) return false;
  }
  const auto from = static_cast<uint64_t>(t.place.load());
  const uint64_t bytes = map_.tile(tile).span_bytes;
  extents_.Free(from);
  const auto to = extents_.Allocate(bytes);
  THAW_CHECK(to && *to <= from);
  t.place = static_cast<int64_t>(*to);
  if (holds_bytes) {
    t.extent = t.place;
    if (*to != from) std::memmove(memory_.data() + *to, memory_.data() + from, bytes);
    t.data.store(memory_.data() + *to + DataOffset(tile), std::memory_order_release);
    t.word.fetch_add(word & ~kLeaving, std::memory_order_acq_rel);
  }
  return true;
}

// A free one; the last takes its index.
void WeightCache::EraseSlot(size_t index) {
  extents_.Free(slots_[index].offset);
  --free_slots_;
  if (index + 1 < slots_.size()) {
    slots_[index] = slots_.back();
    const int32_t tile = slots_[index].tile;
    if (tile != kFree) state(tile).slot = static_cast<int32_t>(index);
  }
  slots_.pop_back();
}

// Leaves those slots alone whose tiles are pinned or being read: they go when that is over.
void WeightCache::EmptySlots() {
  for (size_t i = slots_.size(); i-- > 0;) {
    const int32_t tile = slots_[i].tile;
    if (tile == kFree) continue;
    state(tile).word.fetch_or(kLeaving, std::memory_order_acq_rel);
    DropIfUnpinned(tile);
  }
  for (size_t i = slots_.size(); i-- > 0;) {
    if (slots_[i].tile == kFree) EraseSlot(i);
  }
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
  memory_came_free_ |= lacks_memory_;
  if (extent == t.place) return;
  const int32_t index = std::exchange(t.slot, kNoSlot);
  if (index == kNoSlot) {
    extents_.Free(static_cast<uint64_t>(extent));
    memory_came_free_ = true;
    return;
  }
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.tile = kFree;
  ++free_slots_;
  const bool fits = slot.offset + slot.span_bytes <= targets_.capacity_bytes &&
                    slot.span_bytes == targets_.slot_span_bytes;
  if (fits && std::ssize(slots_) <= targets_.slots) return;
  EraseSlot(static_cast<size_t>(index));
  memory_came_free_ = true;
}

// What a new capacity could not place for want of memory that was still pinned may fit now.
void WeightCache::UseFreedMemory() {
  if (!std::exchange(memory_came_free_, false)) return;
  FillMemory();
  ReleaseUnused();
  if (waiting_ > 0) tile_settled_.notify_all();
}

// Above the capacity lies only what is still pinned: the memory between goes back as well.
void WeightCache::ReleaseUnused() {
  const uint64_t end = RoundUp(extents_.end(), kHugePage);
  const uint64_t begin = std::min(end, targets_.capacity_bytes);
  for (const auto& run : extents_.FreeRuns(begin, memory_end_)) {
    const uint64_t run_begin = RoundUp(run.begin, kHugePage);
    const uint64_t run_end = run.end / kHugePage * kHugePage;
    if (run_begin < run_end) memory_.Release(run_begin, run_end - run_begin);
  }
  memory_end_ = std::min(memory_end_, end);
}

}  // namespace thaw
