#include "residency/weight_cache.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "codec/frozen_tile.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

uint64_t NextInstanceId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::vector<const File*> FilesOf(const TileMap& map) {
  std::vector<const File*> files;
  const auto add = [&](const File* file) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  for (const WeightMatrix& matrix : map.matrices()) {
    add(matrix.file.get());
    for (const ExpertTensor& tensor : matrix.expert_tensors) add(tensor.file.get());
  }
  return files;
}

}  // namespace

Result<std::unique_ptr<WeightCache>> WeightCache::Create(TileMap map,
                                                         const WeightCacheOptions& options) {
  THAW_CHECK(options.policy != nullptr);
  THAW_CHECK(options.frequency_window >= 1 && options.frequency_window <= 64);
  THAW_ASSIGN(std::vector<char> pinned, MatchTiles(map, options.pinned));
  const std::vector<TileUse> unseen(pinned.size());
  THAW_ASSIGN(PlacementTargets targets,
              ChoosePlacement(map, *options.policy, unseen, pinned, options.capacity_bytes));
  // For every arrangement that a later capacity or other forms may ask for; they cost nothing.
  THAW_ASSIGN(MemoryRegion memory, MemoryRegion::Reserve(AddressBytes(map), "the weights"));
  std::unique_ptr<WeightCache> cache(
      new WeightCache(std::move(map), options, std::move(memory), std::move(pinned)));
  const uint64_t scratch_bytes = cache->map_.thaw_scratch_bytes();
  for (int i = 0; scratch_bytes > 0 && i < MostThawers(options.io_threads); ++i) {
    THAW_ASSIGN(AlignedBuffer scratch, AlignedBuffer::Allocate(scratch_bytes, "packing weights"));
    cache->thaw_scratch_.push_back(std::move(scratch));
  }
  {
    const std::lock_guard lock(cache->mutex_);
    cache->Rearrange(std::move(targets));
  }
  cache->StartReaders();
  THAW_ASSIGN(
      cache->row_cache_,
      RowCache::Create(cache->map_, cache->NewQueue(RowCache::kRowsInFlight), *options.decoder));
  return cache;
}

WeightCache::WeightCache(TileMap map, const WeightCacheOptions& options, MemoryRegion memory,
                         std::vector<char> pinned)
    : instance_id_(NextInstanceId()),
      map_(std::move(map)),
      policy_(*options.policy),
      options_(options),
      memory_(std::move(memory)),
      tiles_(static_cast<size_t>(map_.tile_count())),
      files_(FilesOf(map_)),
      schedule_(map_.tile_count()),
      pinned_(std::move(pinned)) {}

WeightCache::~WeightCache() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  reader_wake_.notify_all();
  for (std::thread& reader : readers_) reader.join();
}

Result<void> WeightCache::BeginPass(int32_t end) {
  THAW_CHECK(end >= 0 && end <= map_.tile_count());
  for (const File* file : files_) THAW_TRY(file->CheckUnchanged());
  const std::lock_guard lock(mutex_);
  schedule_.BeginPass(end);
  for (const int32_t tile : expected_) state(tile).expected = false;
  expected_.clear();
  expected_next_ = 0;
  preload_cursor_ = 0;
  pass_.fetch_add(1, std::memory_order_relaxed);
  WakeReaders();
  return {};
}

void WeightCache::Expect(std::span<const int32_t> tiles) {
  const auto is_at_home = [&](int32_t tile) {
    const uint32_t word = state(tile).word.load(std::memory_order_relaxed);
    return (word & (kResident | kInSlot)) == kResident;
  };
  if (std::ranges::all_of(tiles, is_at_home)) return;
  const std::lock_guard lock(mutex_);
  for (const int32_t tile : tiles) {
    if (is_at_home(tile)) continue;
    state(tile).expected = true;
    expected_.push_back(tile);
  }
  WakeReaders();
}

PinnedTile WeightCache::Handle(int32_t tile) {
  const std::byte* data = state(tile).data.load(std::memory_order_acquire);
  return {std::span(data, map_.tile(tile).memory_bytes), this, tile};
}

Result<PinnedTile> WeightCache::Pin(int32_t tile) {
  // A limited prefetch must know of every visit, not only of those that find nothing.
  if (options_.prefetch_ahead >= 0) return PinUnderLock(tile);
  const uint32_t before = state(tile).word.fetch_add(1, std::memory_order_acquire);
  if ((before & (kResident | kFresh | kInSlot)) == kResident) {
    CountVisit(tile, /*hit=*/true, /*stall_ns=*/0);
    return Handle(tile);
  }
  if ((before & kResident) == 0) {
    Unpin(tile);
    return PinUnderLock(tile);
  }
  std::unique_lock lock(mutex_);
  NoteVisit(tile);
  return VisitPinned(tile, /*waited=*/false, /*stall_ns=*/0, lock);
}

Result<PinnedTile> WeightCache::PinUnderLock(int32_t tile) {
  TileState& t = state(tile);
  std::unique_lock lock(mutex_);
  NoteVisit(tile);
  if (options_.prefetch_ahead >= 0) WakeReaders();
  const Clock::time_point start = Clock::now();
  if (options_.synchronous_prefetch) ReadAheadNow(lock);
  bool waited = false;
  while ((t.word.load(std::memory_order_acquire) & kResident) == 0) {
    waited = true;
    if (!t.loading && TakeMemory(tile, std::nullopt)) {
      const Result<void> read = ReadByThisThread(tile, lock);
      if (read) return VisitPinned(tile, waited, NanosecondsSince(start), lock);
      stall_ns_.fetch_add(NanosecondsSince(start), std::memory_order_relaxed);
      return Fail(read.error());
    }
    ++t.waiters;
    WaitUntilSomethingSettles(lock);
    --t.waiters;
  }
  t.word.fetch_add(1, std::memory_order_acquire);
  const bool stalled = waited || options_.synchronous_prefetch;
  return VisitPinned(tile, waited, stalled ? NanosecondsSince(start) : 0, lock);
}

// Tiles with a place may be visited before others of their layer, which must not seem passed.
void WeightCache::NoteVisit(int32_t tile) {
  schedule_.VisitEarly(tile, HasPlace(tile) ? map_.first_tile_of_layer(tile) : tile + 1);
}

PinnedTile WeightCache::VisitPinned(int32_t tile, bool waited, int64_t stall_ns,
                                    std::unique_lock<std::mutex>& lock) {
  TileState& t = state(tile);
  const uint32_t before = t.word.fetch_and(~kFresh, std::memory_order_relaxed);
  const bool was_fresh = (before & kFresh) != 0;
  if (was_fresh && (before & kInSlot) != 0) --ahead_;
  t.visited_at = ++visit_count_;
  t.expected = false;
  lock.unlock();
  CountVisit(tile, /*hit=*/!waited && !was_fresh, stall_ns);
  return Handle(tile);
}

Result<void> WeightCache::ReadByThisThread(int32_t tile, std::unique_lock<std::mutex>& lock) {
  state(tile).loading = true;
  const ReadRequest request = RequestFor(tile);
  lock.unlock();
  ReadCompletion read = ReadNow(request);
  const uint64_t checksum = Thaw(tile, request.buffer, read);
  lock.lock();
  FinishLoading(tile, read, checksum, /*pin=*/true);
  if (read.outcome) return {};
  Error error = read.outcome.error();
  return Fail(std::move(error).In(map_.Describe(tile)));
}

void WeightCache::CountVisit(int32_t tile, bool hit, int64_t stall_ns) {
  TileState& t = state(tile);
  t.visits.fetch_add(1, std::memory_order_relaxed);
  if (hit) t.hits.fetch_add(1, std::memory_order_relaxed);
  if (stall_ns > 0) stall_ns_.fetch_add(stall_ns, std::memory_order_relaxed);
  const uint32_t pass = pass_.load(std::memory_order_relaxed);
  const uint32_t last = t.last_pass.exchange(pass, std::memory_order_relaxed);
  if (pass != last) {
    const uint64_t history = t.history.load(std::memory_order_relaxed);
    const uint32_t gone = pass - last;
    t.history.store(gone < 64 ? history << gone | 1 : 1, std::memory_order_relaxed);
  }
  if (!trace_) return;
  const WeightMatrix& matrix = map_.matrix_of(tile);
  trace_({.pass = pass,
          .tile = tile,
          .matrix = matrix.name,
          .layer = matrix.layer,
          .bytes = map_.tile(tile).bytes,
          .hit = hit,
          .stall_ns = stall_ns,
          .resident_bytes = resident_bytes_.load(std::memory_order_relaxed),
          .capacity_bytes = capacity_bytes()});
}

std::optional<PinnedTile> WeightCache::PinIfResident(int32_t tile) {
  const uint32_t before = state(tile).word.fetch_add(1, std::memory_order_acquire);
  if ((before & kResident) != 0) return Handle(tile);
  Unpin(tile);
  return std::nullopt;
}

void WeightCache::Unpin(int32_t tile) {
  const uint32_t before = state(tile).word.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kPinMask) != 1 || (before & kResident) == 0) return;
  if ((before & (kInSlot | kLeaving)) == 0) return;
  const std::lock_guard lock(mutex_);
  const uint32_t now = state(tile).word.load(std::memory_order_relaxed);
  const bool is_over = (now & kFresh) == 0 && !Keeps(tile);
  if (is_over || (now & kLeaving) != 0) DropIfUnpinned(tile);
  UseFreedMemory();
  // Kept or dropped, its slot can now be another tile's.
  WakeReaders();
  if (waiting_ > 0) tile_settled_.notify_all();
}

Result<void> WeightCache::ReadRows(std::span<const TableRow> rows, RowCache::OnRow on_row) {
  return row_cache_->Read(
      rows, [&](const TableRow& at, std::span<std::byte> out) { return CopyIfResident(at, out); },
      on_row);
}

bool WeightCache::CopyIfResident(const TableRow& at, std::span<std::byte> out) {
  const WeightMatrix& source = map_.matrix(at.matrix);
  if (!source.is_multiplied()) return false;
  const int32_t tile = map_.TileOfRow(at.matrix, at.row);
  const auto resident = PinIfResident(tile);
  if (!resident) return false;
  const Tile& where = map_.tile(tile);
  const int64_t row_in_tile = at.row - where.row_begin;
  const std::byte* data = resident->data().data();
  if (where.is_coded) {
    // It was looked through when it was read.
    const auto start = Clock::now();
    WithThawScratch([&](std::byte* group) {
      THAW_CHECK(ThawRow(*options_.decoder, *source.frozen, where.row_count, resident->data(),
                         row_in_tile, group, out));
    });
    thaw_ns_.fetch_add(NanosecondsSince(start), std::memory_order_relaxed);
  } else if (where.is_packed) {
    CopyPackedRow(source.type, source.cols, where.row_count, data, row_in_tile, out.data());
  } else {
    std::memcpy(out.data(), data + static_cast<uint64_t>(row_in_tile) * out.size(), out.size());
  }
  return true;
}

// Bit i: visited i passes ago.
uint64_t WeightCache::HistoryOf(int32_t tile) const {
  const TileState& t = state(tile);
  const uint32_t last = t.last_pass.load(std::memory_order_relaxed);
  const uint32_t gone = pass_.load(std::memory_order_relaxed) - last;
  return gone < 64 ? t.history.load(std::memory_order_relaxed) << gone : 0;
}

TileUse WeightCache::UseOf(int32_t tile) const {
  const uint64_t window = ~uint64_t{0} >> (64 - options_.frequency_window);
  return {.last_visit = state(tile).visited_at,
          .window_visits = std::popcount(HistoryOf(tile) & window)};
}

CacheStatistics WeightCache::Statistics() const {
  CacheStatistics s;
  s.instance_id = instance_id_;
  s.policy = policy_.name();
  s.reader = reader_name_;
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    const TileState& t = state(tile);
    const uint64_t bytes = map_.tile(tile).bytes;
    const uint64_t hits = t.hits.load(std::memory_order_relaxed);
    const uint64_t visits = std::max(hits, t.visits.load(std::memory_order_relaxed));
    s.hits += hits;
    s.misses += visits - hits;
    s.hit_bytes += hits * bytes;
    s.miss_bytes += (visits - hits) * bytes;
    const uint32_t word = t.word.load(std::memory_order_relaxed);
    if ((word & kResident) != 0 && (word & kPinMask) > 0) s.pinned_bytes += bytes;
  }
  const auto seconds = [](const std::atomic<int64_t>& ns) {
    return 1e-9 * static_cast<double>(ns.load(std::memory_order_relaxed));
  };
  s.evictions = evictions_.load(std::memory_order_relaxed);
  s.rows = row_cache_->Statistics();
  s.bytes_read = bytes_read_.load(std::memory_order_relaxed) + s.rows.bytes_read;
  s.disk_bytes = disk_bytes_.load(std::memory_order_relaxed) + s.rows.disk_bytes;
  s.page_cache_bytes = page_cache_bytes_.load(std::memory_order_relaxed) + s.rows.page_cache_bytes;
  s.read_seconds = seconds(read_ns_);
  s.thaw_seconds = seconds(thaw_ns_) + s.rows.thaw_seconds;
  s.stall_seconds = seconds(stall_ns_);
  s.weight_bytes = map_.weight_bytes();
  const std::lock_guard lock(mutex_);  // of one moment: what is resident obeys the capacity
  s.resident_bytes = resident_bytes_.load(std::memory_order_relaxed);
  s.capacity_bytes = targets_.capacity_bytes;
  s.shares = targets_.shares;
  s.slot_bytes = targets_.slot_bytes;
  return s;
}

uint64_t WeightCache::VisitedBytes() const {
  uint64_t bytes = 0;
  const std::lock_guard lock(mutex_);
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    const TileState& t = state(tile);
    const uint64_t hits = t.hits.load(std::memory_order_relaxed);
    const uint64_t visits = std::max(hits, t.visits.load(std::memory_order_relaxed));
    bytes += visits * map_.tile(tile).memory_bytes;
  }
  return bytes;
}

std::vector<MatrixStatistics> WeightCache::PerMatrix() const {
  std::vector<MatrixStatistics> all;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < map_.matrices().size(); ++i) {
    const WeightMatrix& matrix = map_.matrices()[i];
    const TileMap::Range& range = map_.tiles_of(static_cast<int32_t>(i));
    MatrixStatistics m{.name = matrix.name, .layer = matrix.layer};
    for (int32_t tile = range.first; tile < range.first + range.count; ++tile) {
      const TileState& t = state(tile);
      const uint64_t bytes = map_.tile(tile).bytes;
      m.bytes += bytes;
      if ((t.word.load(std::memory_order_relaxed) & kResident) != 0) m.resident_bytes += bytes;
      if (targets_.placed[static_cast<size_t>(tile)] != 0) m.planned_bytes += bytes;
      m.visits += t.visits.load(std::memory_order_relaxed);
      m.hits += t.hits.load(std::memory_order_relaxed);
      m.window_visits += UseOf(tile).window_visits;
      m.read_seconds += 1e-9 * static_cast<double>(t.read_ns);
    }
    if (range.count > 0) m.window_visits /= range.count;
    all.push_back(m);
  }
  return all;
}

}  // namespace thaw
