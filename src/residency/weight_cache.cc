#include "residency/weight_cache.h"

#include <chrono>
#include <cstring>

#include "base/check.h"

namespace thaw {
namespace {

// Vector kernels load whole cache lines.
constexpr size_t kSlotAlignment = 64;

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

uint64_t NextInstanceId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Result<std::unique_ptr<WeightCache>> WeightCache::Create(std::vector<WeightMatrix> matrices) {
  THAW_ASSIGN(TileMap map, TileMap::Create(std::move(matrices)));
  std::vector<size_t> offsets;
  size_t end = 0;
  for (const Tile& tile : map.tiles()) {
    offsets.push_back(end);
    end += (tile.bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  }
  THAW_ASSIGN(AlignedBuffer memory, AlignedBuffer::Allocate(end, "the weights", kSlotAlignment));
  return std::unique_ptr<WeightCache>(
      new WeightCache(std::move(map), std::move(memory), std::move(offsets)));
}

WeightCache::WeightCache(TileMap map, AlignedBuffer memory, std::vector<size_t> offsets)
    : instance_id_(NextInstanceId()),
      map_(std::move(map)),
      memory_(std::move(memory)),
      slots_(offsets.size()) {
  for (size_t i = 0; i < offsets.size(); ++i) slots_[i].offset = offsets[i];
}

Result<PinnedTile> WeightCache::Pin(int32_t tile) {
  Slot& slot = slots_[static_cast<size_t>(tile)];
  slot.pins.fetch_add(1, std::memory_order_relaxed);
  PinnedTile handle(SlotBytes(tile), &slot.pins);
  if (slot.state.load(std::memory_order_acquire) == State::kResident) {
    slot.hits.fetch_add(1, std::memory_order_relaxed);
    return handle;
  }
  slot.misses.fetch_add(1, std::memory_order_relaxed);
  const auto start = Clock::now();
  const auto loaded = Load(tile);
  stall_ns_.fetch_add(NanosecondsSince(start), std::memory_order_relaxed);
  THAW_TRY(loaded);
  return handle;
}

Result<void> WeightCache::Load(int32_t tile) {
  Slot& slot = slots_[static_cast<size_t>(tile)];
  {
    std::unique_lock lock(mutex_);
    tile_settled_.wait(lock, [&] { return slot.state.load() != State::kLoading; });
    if (slot.state.load() == State::kResident) return {};
    slot.state.store(State::kLoading);
  }
  auto read = ReadTile(tile);
  {
    const std::lock_guard lock(mutex_);
    slot.state.store(read ? State::kResident : State::kAbsent, std::memory_order_release);
  }
  tile_settled_.notify_all();
  if (read) resident_bytes_.fetch_add(map_.tile(tile).bytes, std::memory_order_relaxed);
  return read;
}

Result<void> WeightCache::ReadTile(int32_t tile) {
  const Tile& where = map_.tile(tile);
  return TimedRead(map_.matrix(where.matrix), where.offset, SlotBytes(tile));
}

Result<void> WeightCache::TimedRead(const WeightMatrix& matrix, uint64_t offset,
                                    std::span<std::byte> out) {
  const auto start = Clock::now();
  auto read = ReadExactlyAt(*matrix.file, offset, out);
  read_ns_.fetch_add(NanosecondsSince(start), std::memory_order_relaxed);
  if (!read) return Fail(std::move(read).error().In("tensor '" + matrix.name + "'"));
  bytes_read_.fetch_add(out.size(), std::memory_order_relaxed);
  return {};
}

Result<void> WeightCache::ReadRow(int32_t matrix, int64_t row, std::span<std::byte> out) {
  const WeightMatrix& source = map_.matrix(matrix);
  const auto row_bytes = static_cast<uint64_t>(source.row_bytes());
  THAW_CHECK(row >= 0 && row < source.rows && out.size() == row_bytes);
  const TileMap::Range& range = map_.tiles_of(matrix);
  if (range.count > 0) {
    const auto tile = static_cast<int32_t>(range.first + row / range.rows_per_tile);
    const Slot& slot = slots_[static_cast<size_t>(tile)];
    if (slot.state.load(std::memory_order_acquire) == State::kResident) {
      const auto row_in_tile = static_cast<uint64_t>(row % range.rows_per_tile);
      std::memcpy(out.data(), SlotBytes(tile).data() + row_in_tile * row_bytes, row_bytes);
      return {};
    }
  }
  return TimedRead(source, source.offset + static_cast<uint64_t>(row) * row_bytes, out);
}

Result<void> WeightCache::Preload(ThreadPool& pool,
                                  FunctionRef<bool(uint64_t, uint64_t)> on_progress) {
  std::mutex progress_mutex;
  Result<void> outcome;  // guarded by progress_mutex
  std::atomic<bool> stopped{false};
  uint64_t done = 0;
  pool.ParallelFor(static_cast<int64_t>(slots_.size()), 1, [&](int64_t tile, int64_t, int) {
    if (stopped.load(std::memory_order_relaxed)) return;
    auto loaded = Load(static_cast<int32_t>(tile));
    const std::lock_guard lock(progress_mutex);
    if (stopped.load(std::memory_order_relaxed)) return;
    done += map_.tile(static_cast<int32_t>(tile)).bytes;
    if (!loaded) {
      outcome = std::move(loaded);
    } else if (!on_progress(done, map_.weight_bytes())) {
      outcome = Fail(ErrorCode::kCancelled, "loading was stopped");
    }
    if (!outcome) stopped.store(true, std::memory_order_relaxed);
  });
  return outcome;
}

CacheStatistics WeightCache::Statistics() const {
  CacheStatistics s;
  s.instance_id = instance_id_;
  s.policy = "keep-all";
  for (size_t i = 0; i < slots_.size(); ++i) {
    const uint64_t bytes = map_.tiles()[i].bytes;
    const uint64_t hits = slots_[i].hits.load(std::memory_order_relaxed);
    const uint64_t misses = slots_[i].misses.load(std::memory_order_relaxed);
    s.hits += hits;
    s.misses += misses;
    s.hit_bytes += hits * bytes;
    s.miss_bytes += misses * bytes;
    if (slots_[i].pins.load(std::memory_order_relaxed) > 0) s.pinned_bytes += bytes;
  }
  s.bytes_read = bytes_read_.load(std::memory_order_relaxed);
  s.read_seconds = 1e-9 * static_cast<double>(read_ns_.load(std::memory_order_relaxed));
  s.stall_seconds = 1e-9 * static_cast<double>(stall_ns_.load(std::memory_order_relaxed));
  s.resident_bytes = resident_bytes_.load(std::memory_order_relaxed);
  s.planned_bytes = map_.weight_bytes();
  s.weight_bytes = map_.weight_bytes();
  return s;
}

std::span<std::byte> WeightCache::SlotBytes(int32_t tile) {
  return memory_.bytes().subspan(slots_[static_cast<size_t>(tile)].offset, map_.tile(tile).bytes);
}

}  // namespace thaw
