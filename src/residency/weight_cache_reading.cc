// What is read next, by whom, and into which memory.
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "residency/weight_cache.h"
#include "tensor/finite_rows.h"
#include "tensor/packed_rows.h"
#include "tensor/thawed_grids.h"

namespace thaw {
namespace {

// Eight reads of 512 KiB in flight reach the disk's rate; more do not raise it.
constexpr int kReadsInFlight = 8;

// Plain reads by this many threads reached 0.96 to 1.0 of io_uring's rate.
constexpr int kPlainReaders = 4;

// Tiles in slots that are read but not visited: as many as a ring holds. A cache that keeps what
// was visited gives a quarter of its slots for them at most: reading ahead must not empty it. Where
// there are experts, half of them is left to those.
constexpr int64_t kMostAhead = 16;
constexpr int64_t kKeptShare = 4;
constexpr int64_t kShareBesideExperts = 2;

// Slots that the search for a victim looks at: among as many the best is near the best of all.
constexpr size_t kMostExamined = 512;

using Clock = std::chrono::steady_clock;

// The outcome of decoding a frozen tile, its error with the tile's place.
Result<void> NameBroken(const Tile& tile, Result<void> decoded) {
  if (decoded) return {};
  return Fail(ErrorCode::kCorrupt, "{}: the frozen tile at offset {} is broken: {}",
              tile.file->path(), tile.offset, decoded.error().message);
}

// That thawed rows, packed in groups, are numbers. Scales of ecq are finite by its format, and the
// order of bfloat16 numbers is of no concern.
Result<void> CheckThawed(const WeightMatrix& matrix, int64_t rows, const std::byte* packed) {
  if (matrix.frozen->kind == FrozenKind::kEcq) return {};
  if (!FindRowNotFinite(matrix.type, matrix.cols, rows, packed)) return {};
  return Fail(ErrorCode::kCorrupt, "it holds a weight that is infinite or NaN");
}

// Brings thawed rows, packed in groups, into the order of a file, by way of `group`,
// ThawedGroupBytes of memory.
void UnpackGroups(const WeightMatrix& matrix, int64_t rows, std::byte* packed, std::byte* group) {
  const int64_t row_bytes = matrix.row_bytes();
  for (int64_t first = 0; first < rows; first += kFrozenGroupRows) {
    std::byte* out = packed + first * row_bytes;
    std::memcpy(group, out, static_cast<size_t>(kFrozenGroupRows * row_bytes));
    for (int64_t r = 0; r < kFrozenGroupRows; ++r) {
      CopyPackedRow(matrix.type, matrix.cols, kFrozenGroupRows, group, r, out + r * row_bytes);
    }
  }
}

}  // namespace

int WeightCache::MostThawers(int io_threads) {
  return 1 + (io_threads > 0 ? io_threads : kPlainReaders);
}

void WeightCache::StartReaders() {
  reader_name_ = "pread";
  if (!options_.use_uring) {
    reader_note_ = "io_uring was not asked for";
  } else if (std::ranges::none_of(files_, [](const File* f) { return f->direct().has_value(); })) {
    reader_note_ = "the file system of the model has no direct reads";
  } else if (const auto probe = CreateUringQueue(kReadsInFlight); !probe) {
    reader_note_ = probe.error().message;
  } else {
    reader_name_ = (*probe)->name();
  }
  const int usual = reader_note_.empty() ? 1 : kPlainReaders;
  reader_count_ = static_cast<size_t>(options_.io_threads > 0 ? options_.io_threads : usual);
  for (size_t i = 0; i < reader_count_; ++i) {
    // The kernel ties a queue to the thread that makes it.
    readers_.emplace_back([this] { ReadLoop(*NewQueue(kReadsInFlight)); });
  }
}

std::unique_ptr<ReadQueue> WeightCache::NewQueue(int depth) const {
  if (reader_note_.empty()) {
    if (auto queue = CreateUringQueue(depth)) return *std::move(queue);
  }
  return CreatePlainQueue();
}

void WeightCache::ReadLoop(ReadQueue& queue) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stop_ && queue.pending() == 0) return;
    const uint64_t seen = wake_count_;
    while (!stop_ && queue.pending() < queue.depth()) {
      const std::optional<int32_t> tile = NextToRead();
      if (!tile) break;
      ReadRequest request = RequestFor(*tile);
      lock.unlock();
      queue.Submit(request);
      lock.lock();
    }
    if (queue.pending() > 0) {
      lock.unlock();
      ReadCompletion read = queue.Wait();
      const auto tile = static_cast<int32_t>(read.tag);
      const uint64_t checksum = Thaw(tile, RequestFor(tile).buffer, read);
      lock.lock();
      FinishLoading(tile, read, checksum, /*pin=*/false);
      continue;
    }
    if (stop_) return;
    if (wake_count_ != seen) continue;
    ++idle_readers_;
    if (waiting_ > 0) tile_settled_.notify_all();
    reader_wake_.wait(lock, [&] { return stop_ || wake_count_ != seen; });
  }
}

void WeightCache::WakeReaders() {
  if (idle_readers_ == 0) return;
  ++wake_count_;
  idle_readers_ = 0;
  reader_wake_.notify_all();
}

// Returns when the readers have nothing left to read ahead.
void WeightCache::ReadAheadNow(std::unique_lock<std::mutex>& lock) {
  WakeReaders();
  while (idle_readers_ < reader_count_) WaitUntilSomethingSettles(lock);
}

void WeightCache::WaitUntilSomethingSettles(std::unique_lock<std::mutex>& lock) {
  ++waiting_;
  tile_settled_.wait(lock);
  --waiting_;
}

// The next absent tile of those that the pass has chosen.
std::optional<int32_t> WeightCache::NextExpected() {
  if (options_.prefetch_ahead == 0) return std::nullopt;
  for (; expected_next_ < expected_.size(); ++expected_next_) {
    const int32_t tile = expected_[expected_next_];
    const TileState& t = state(tile);
    const bool absent = !t.loading && (t.word.load(std::memory_order_relaxed) & kResident) == 0;
    if (absent && t.expected) return tile;
  }
  return std::nullopt;
}

// The tile that a reader should read now; its memory is taken and it is loading.
std::optional<int32_t> WeightCache::NextToRead() {
  if (readers_pause_) return std::nullopt;
  if (const std::optional<int32_t> tile = NextExpected()) {
    if (!TakeMemory(*tile, DistanceOf(*tile))) return NextWithPlace();
    state(*tile).loading = true;
    ++expected_next_;
    return tile;
  }
  for (uint64_t time = schedule_.cursor(); schedule_.begun() && time < schedule_.horizon();
       time = schedule_.cursor()) {
    if (IsTooFarAhead(time)) break;
    const int32_t tile = schedule_.TileAt(time);
    if (map_.is_chosen(tile)) {
      schedule_.AdvanceCursor();
      continue;
    }
    TileState& t = state(tile);
    const uint32_t word = t.word.load(std::memory_order_relaxed);
    const bool absent = !t.loading && (word & kResident) == 0;
    // A tile that goes when its present visit ends must be read again after that.
    if ((word & (kResident | kFresh | kInSlot)) == (kResident | kInSlot) && !Keeps(tile)) break;
    if (absent && schedule_.IsVisited(tile)) {
      if (!TakeMemory(tile, time - schedule_.now())) break;
      t.loading = true;
      schedule_.AdvanceCursor();
      return tile;
    }
    schedule_.AdvanceCursor();
  }
  return NextWithPlace();
}

// Tiles with a place need no slot: they can be read while the slots are all taken, or for a
// preload.
std::optional<int32_t> WeightCache::NextWithPlace() {
  const bool fill = schedule_.begun() && options_.prefetch_ahead < 0;
  if (!fill && preloads_ == 0) return std::nullopt;
  for (; preload_cursor_ < map_.tile_count(); ++preload_cursor_) {
    const int32_t tile = preload_cursor_;
    TileState& t = state(tile);
    const bool is_to_come = fill && schedule_.IsVisited(tile) && !map_.is_chosen(tile);
    const bool wanted = t.wanted_by_preload || is_to_come;
    if (!wanted || t.place == kNowhere || t.loading || t.extent != kNowhere) continue;
    t.loading = true;
    t.extent = t.place;
    ++preload_cursor_;
    return tile;
  }
  return std::nullopt;
}

bool WeightCache::IsTooFarAhead(uint64_t time) const {
  if (options_.prefetch_ahead < 0) return false;
  if (options_.prefetch_ahead == 0) return true;
  const auto layer_at = [&](uint64_t at) {
    const auto cycle = static_cast<int64_t>(at / tiles_.size());
    const int64_t layers = map_.matrix_of(map_.tile_count() - 1).layer + 1;
    return cycle * layers + map_.matrix_of(schedule_.TileAt(at)).layer;
  };
  return layer_at(time) > layer_at(schedule_.latest()) + options_.prefetch_ahead;
}

int64_t WeightCache::MostAhead(bool is_expected) const {
  const int64_t most = policy_.keeps_slots(/*is_experts=*/false)
                           ? std::clamp<int64_t>(std::ssize(slots_) / kKeptShare, 1, kMostAhead)
                           : kMostAhead;
  const bool is_beside = map_.has_experts() && !is_expected;
  return is_beside ? std::max<int64_t>(1, most / kShareBesideExperts) : most;
}

// From now to the next visit of a tile, as far as it is known.
uint64_t WeightCache::DistanceOf(int32_t tile) const {
  if (!map_.is_chosen(tile)) return schedule_.Distance(tile);
  return state(tile).expected ? 0 : UINT64_MAX;
}

// Finds memory for an absent tile whose visit is `distance` away; without a distance it is wanted
// now.
bool WeightCache::TakeMemory(int32_t tile, std::optional<uint64_t> distance) {
  TileState& t = state(tile);
  if (t.place == kNowhere && !MakeSlotFree(tile, distance)) {
    if (distance || !lacks_memory_ || !TakeFromOthers(tile)) return false;
  }
  if (t.place != kNowhere) {
    t.extent = t.place;
    return true;
  }
  const size_t index = FindFreeSlot();
  Slot& slot = slots_[index];
  slot.tile = tile;
  --free_slots_;
  t.slot = static_cast<int32_t>(index);
  t.extent = static_cast<int64_t>(slot.offset);
  ++ahead_;
  return true;
}

// Whether a slot is free for the tile, another having left it, or memory that came free by that is
// its place now.
bool WeightCache::MakeSlotFree(int32_t tile, std::optional<uint64_t> distance) {
  // Of a tile that lacks its place: slots are for smaller ones.
  if (map_.tile(tile).span_bytes > targets_.slot_span_bytes) return false;
  if (distance && ahead_ >= MostAhead(state(tile).expected)) return false;
  if (free_slots_ > 0) return true;
  const int32_t victim = FindVictim(distance);
  if (victim == kFree) return false;
  DropIfUnpinned(victim);
  if (state(victim).extent != kNowhere) return false;  // pinned in this moment
  evictions_.fetch_add(1, std::memory_order_relaxed);
  UseFreedMemory();
  return free_slots_ > 0 || HasPlace(tile);
}

// One of those that there are.
size_t WeightCache::FindFreeSlot() {
  do {
    if (++free_hand_ >= slots_.size()) free_hand_ = 0;
  } while (slots_[free_hand_].tile != kFree);
  return free_hand_;
}

// The tile that should give its slot up: by the policy among those visited already, else the one
// whose visit is farthest away. Never one that is needed before `distance`. Among many slots it is
// the one of a part of them, which moves on from search to search.
int32_t WeightCache::FindVictim(std::optional<uint64_t> distance) {
  int32_t visited = kFree;
  int32_t unvisited = kFree;
  if (slots_.size() <= kMostExamined || victim_hand_ >= slots_.size()) victim_hand_ = 0;
  for (size_t examined = 0; examined < slots_.size(); ++examined) {
    if (examined >= kMostExamined && visited != kFree) break;
    const Slot& slot = slots_[victim_hand_];
    if (++victim_hand_ == slots_.size()) victim_hand_ = 0;
    if (slot.tile == kFree) continue;
    const TileState& t = state(slot.tile);
    const uint32_t word = t.word.load(std::memory_order_acquire);
    if (t.loading || t.waiters > 0 || (word & kPinMask) != 0) continue;
    if (distance && DistanceOf(slot.tile) <= *distance) continue;
    if ((word & kFresh) != 0 || t.expected) {
      if (unvisited == kFree || DistanceOf(slot.tile) > DistanceOf(unvisited)) {
        unvisited = slot.tile;
      }
    } else if (visited == kFree || policy_.LeavesBefore(UseOf(slot.tile), UseOf(visited))) {
      visited = slot.tile;
    }
  }
  return visited != kFree ? visited : unvisited;
}

ReadRequest WeightCache::RequestFor(int32_t tile) {
  const Tile& where = map_.tile(tile);
  return {.file = where.file,
          .offset = where.offset,
          .bytes = where.bytes,
          .buffer = memory_.data() + state(tile).extent,
          .tag = static_cast<uint64_t>(tile)};
}

// What is done to a tile that was read: it is checked, which may make `read` a failure, its rows
// are thawed or packed, and at the first time their checksum is taken, which is returned. Without
// the lock: the tile is loading, so nobody else touches it.
uint64_t WeightCache::Thaw(int32_t tile, std::byte* buffer, ReadCompletion& read) {
  const bool needs_checksum = !state(tile).has_checksum;
  const Tile& where = map_.tile(tile);
  const bool is_as_in_file =
      !map_.matrix_of(tile).is_frozen() && !where.is_packed && !where.is_thawed;
  if (!read.outcome || (!needs_checksum && is_as_in_file)) return 0;
  const auto start = Clock::now();
  read.outcome = CheckRead(tile, buffer + where.lead_bytes, needs_checksum);
  if (read.outcome) read.outcome = Form(tile, buffer);
  uint64_t checksum = 0;
  if (read.outcome && needs_checksum) {
    checksum = XXH3_64bits(buffer + DataOffset(tile), where.memory_bytes);
  }
  thaw_ns_.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
  return checksum;
}

// Of rows that are not frozen at the first time that they are numbers.
Result<void> WeightCache::CheckRead(int32_t tile, const std::byte* rows, bool is_first) {
  const WeightMatrix& matrix = map_.matrix_of(tile);
  if (matrix.is_frozen()) return CheckFrozen(tile, rows, is_first);
  if (!is_first) return {};
  const Tile& where = map_.tile(tile);
  const auto row = FindRowNotFinite(matrix.type, matrix.cols, where.row_count, rows);
  if (!row) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: row {} at offset {} holds a weight or scale that is infinite or NaN",
              where.file->path(), map_.first_row_in_tensor(tile) + *row,
              where.offset + static_cast<uint64_t>(*row * matrix.row_bytes()));
}

// Every time that the tile is what was frozen. One that stays coded decodes to numbers, too, which
// is looked at once; what is thawed shows that by itself.
Result<void> WeightCache::CheckFrozen(int32_t tile, const std::byte* coded, bool is_first) {
  const WeightMatrix& matrix = map_.matrix_of(tile);
  const Tile& where = map_.tile(tile);
  if (const uint64_t hash = XXH3_64bits(coded, where.bytes); hash != where.hash) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the frozen tile at offset {} has the hash {:016x}, expected {:016x}",
                where.file->path(), where.offset, hash, where.hash);
  }
  if (!is_first || !where.is_coded) return {};
  Result<void> checked;
  WithThawScratch([&](std::byte* scratch) {
    checked =
        CheckTile(*options_.decoder, matrix.frozen->kind, matrix.cols,
                  matrix.frozen->rows_per_stream, where.row_count, {coded, where.bytes}, scratch);
  });
  return NameBroken(where, std::move(checked));
}

void WeightCache::WithThawScratch(FunctionRef<void(std::byte* scratch)> body) {
  std::unique_lock lock(thaw_mutex_);
  thaw_scratch_free_.wait(lock, [&] { return !thaw_scratch_.empty(); });
  AlignedBuffer scratch = std::move(thaw_scratch_.back());
  thaw_scratch_.pop_back();
  lock.unlock();
  body(scratch.data());
  lock.lock();
  thaw_scratch_.push_back(std::move(scratch));
  lock.unlock();
  thaw_scratch_free_.notify_one();
}

Result<void> WeightCache::Form(int32_t tile, std::byte* buffer) {
  const Tile& where = map_.tile(tile);
  const WeightMatrix& matrix = map_.matrix_of(tile);
  if (where.is_thawed && matrix.is_frozen()) return FormThawed(tile, buffer);
  if (where.is_thawed) FormThawedGrid(tile, buffer);
  if (where.is_thawed || !where.is_packed) return {};
  WithThawScratch([&](std::byte* scratch) {
    PackRows(matrix.type, matrix.cols, where.row_count, buffer + where.lead_bytes, buffer, scratch);
  });
  return {};
}

Result<void> WeightCache::FormThawed(int32_t tile, std::byte* buffer) {
  const WeightMatrix& matrix = map_.matrix_of(tile);
  const Tile& where = map_.tile(tile);
  Result<void> thawed;
  WithThawScratch([&](std::byte* scratch) {
    std::byte* coded = scratch + ThawedGroupBytes(matrix.frozen->kind, matrix.cols);
    std::memcpy(coded, buffer + where.lead_bytes, where.bytes);
    thawed =
        ThawTile(*options_.decoder, matrix.frozen->kind, matrix.cols,
                 matrix.frozen->rows_per_stream, where.row_count, {coded, where.bytes}, buffer);
    if (thawed) thawed = CheckThawed(matrix, where.row_count, buffer);
    if (thawed && !where.is_packed) UnpackGroups(matrix, where.row_count, buffer, scratch);
  });
  return NameBroken(where, std::move(thawed));
}

// Group by group, so that what is looked up is packed while it is in a near cache.
void WeightCache::FormThawedGrid(int32_t tile, std::byte* buffer) {
  const WeightMatrix& matrix = map_.matrix_of(tile);
  const Tile& where = map_.tile(tile);
  const int64_t row_bytes = RowBytes(where.type, matrix.cols);
  WithThawScratch([&](std::byte* scratch) {
    std::byte* as_in_file = scratch + PackScratchBytes(where.type, matrix.cols);
    std::memcpy(as_in_file, buffer + where.lead_bytes, where.bytes);
    for (int64_t first = 0; first < where.row_count; first += kPackedGroupRows) {
      const int64_t rows = std::min(kPackedGroupRows, where.row_count - first);
      std::byte* group = buffer + first * row_bytes;
      for (int64_t r = 0; r < rows; ++r) {
        ThawGridRow(matrix.type, matrix.cols, as_in_file + (first + r) * matrix.row_bytes(),
                    group + r * row_bytes);
      }
      if (where.is_packed) PackRows(where.type, matrix.cols, rows, group, group, scratch);
    }
  });
}

void WeightCache::FinishLoading(int32_t tile, const ReadCompletion& read, uint64_t checksum,
                                bool pin) {
  TileState& t = state(tile);
  const uint64_t bytes = map_.tile(tile).bytes;
  const bool in_slot = t.slot != kNoSlot;
  t.loading = false;
  t.read_ns += static_cast<uint64_t>(read.nanoseconds);
  read_ns_.fetch_add(read.nanoseconds, std::memory_order_relaxed);
  const bool preloaded = std::exchange(t.wanted_by_preload, false);
  if (preloaded) --preloads_;
  if (!read.outcome) {
    t.word.fetch_and(~kLeaving, std::memory_order_relaxed);
    if (in_slot) --ahead_;
    FreeExtent(tile);
  } else {
    bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
    disk_bytes_.fetch_add(read.disk_bytes, std::memory_order_relaxed);
    if (read.source == ReadSource::kPageCache) {
      page_cache_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    if (!std::exchange(t.has_checksum, true)) t.checksum = checksum;
    t.data.store(memory_.data() + t.extent + DataOffset(tile), std::memory_order_release);
    resident_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (pin && in_slot) --ahead_;
    const uint32_t fresh = pin || (preloaded && !in_slot) ? 0 : kFresh;
    const uint32_t flags = kResident | fresh | (in_slot ? kInSlot : 0U);
    const uint32_t before = t.word.fetch_add(flags + (pin ? 1 : 0), std::memory_order_acq_rel);
    if ((before & kLeaving) != 0) DropIfUnpinned(tile);
  }
  memory_came_free_ |= lacks_memory_;  // what was read to can move now
  UseFreedMemory();
  if (waiting_ > 0) tile_settled_.notify_all();
}

}  // namespace thaw
