// What the cache holds on request: preloading, and proof that all of it is still right.
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "base/aligned_buffer.h"
#include "residency/weight_cache.h"

namespace thaw {

std::vector<int32_t> WeightCache::FindMatrices(std::string_view pattern) const {
  std::vector<int32_t> found;
  for (size_t i = 0; i < map_.matrices().size(); ++i) {
    if (MatchesPattern(map_.matrices()[i].name, pattern)) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

std::vector<int32_t> WeightCache::FindMatrices(int32_t layer, WeightGroup group) const {
  std::vector<int32_t> found;
  for (size_t i = 0; i < map_.matrices().size(); ++i) {
    const WeightMatrix& matrix = map_.matrices()[i];
    if (matrix.layer == layer && matrix.group == group && matrix.is_multiplied()) {
      found.push_back(static_cast<int32_t>(i));
    }
  }
  return found;
}

Result<ResidencyReport> WeightCache::Preload(
    FunctionRef<bool(uint64_t done, uint64_t total)> on_progress) {
  std::vector<int32_t> all(map_.matrices().size());
  std::iota(all.begin(), all.end(), 0);
  return Preload(all, on_progress);
}

Result<ResidencyReport> WeightCache::Preload(
    std::span<const int32_t> matrices,
    FunctionRef<bool(uint64_t done, uint64_t total)> on_progress) {
  ResidencyReport report;
  std::vector<int32_t> absent;
  uint64_t placed_bytes = 0;
  std::unique_lock lock(mutex_);
  for (const int32_t matrix : matrices) {
    const TileMap::Range& range = map_.tiles_of(matrix);
    for (int32_t tile = range.first; tile < range.first + range.count; ++tile) {
      TileState& t = state(tile);
      ++report.tiles;
      report.bytes += map_.tile(tile).bytes;
      if (t.place == kNowhere) {
        ++report.tiles_streamed;
        report.bytes_streamed += map_.tile(tile).bytes;
        continue;
      }
      placed_bytes += map_.tile(tile).bytes;
      if (t.extent == t.place && !t.loading) {
        t.word.fetch_and(~kFresh, std::memory_order_relaxed);
        continue;
      }
      // Somewhere that it cannot stay: read again, unless it is being visited there.
      DropIfUnpinned(tile);
      if (t.extent != kNowhere && !t.loading) continue;
      absent.push_back(tile);
      if (!std::exchange(t.wanted_by_preload, true)) ++preloads_;
    }
  }
  UseFreedMemory();
  preload_cursor_ = 0;
  WakeReaders();
  THAW_TRY(WaitForPreload(absent, placed_bytes, on_progress, lock));
  for (const int32_t tile : absent) THAW_TRY(ReadIfAbsent(tile, report, lock));
  return report;
}

Result<void> WeightCache::WaitForPreload(
    std::span<const int32_t> tiles, uint64_t total_bytes,
    FunctionRef<bool(uint64_t done, uint64_t total)> on_progress,
    std::unique_lock<std::mutex>& lock) {
  const auto missing = [&] {
    uint64_t bytes = 0;
    for (const int32_t tile : tiles) {
      if (state(tile).wanted_by_preload) bytes += map_.tile(tile).bytes;
    }
    return bytes;
  };
  uint64_t shown = missing();
  while (true) {
    lock.unlock();
    const bool go_on = on_progress(total_bytes - shown, total_bytes);
    lock.lock();
    if (!go_on) break;
    while (missing() == shown && shown > 0) WaitUntilSomethingSettles(lock);
    if (shown == 0) return {};
    shown = missing();
  }
  for (const int32_t tile : tiles) {
    if (std::exchange(state(tile).wanted_by_preload, false)) --preloads_;
  }
  return Fail(ErrorCode::kCancelled, "loading was stopped");
}

// A reader's failure leaves the tile absent: this thread's own attempt then has the error.
Result<void> WeightCache::ReadIfAbsent(int32_t tile, ResidencyReport& report,
                                       std::unique_lock<std::mutex>& lock) {
  TileState& t = state(tile);
  while (t.loading) WaitUntilSomethingSettles(lock);
  if (t.extent != t.place) DropIfUnpinned(tile);
  UseFreedMemory();
  if (t.place == kNowhere) {  // taken away since
    ++report.tiles_streamed;
    report.bytes_streamed += map_.tile(tile).bytes;
    return {};
  }
  if (t.extent == kNowhere) {
    t.extent = t.place;
    THAW_TRY(ReadByThisThread(tile, lock));
    lock.unlock();
    Unpin(tile);
    lock.lock();
  } else if (t.extent == t.place) {
    t.word.fetch_and(~kFresh, std::memory_order_relaxed);  // read for a visit, but asked for here
  }
  ++report.tiles_read;
  return {};
}

Result<ResidencyReport> WeightCache::Verify(
    FunctionRef<bool(uint64_t done, uint64_t total)> on_progress) {
  for (const File* file : files_) THAW_TRY(file->CheckUnchanged());
  THAW_ASSIGN(AlignedBuffer copy, AlignedBuffer::Allocate(map_.most_tile_span_bytes(),
                                                          "verifying weights", map_.alignment()));
  ResidencyReport report;
  const uint64_t total = Statistics().resident_bytes;
  for (int32_t tile = 0; tile < map_.tile_count(); ++tile) {
    const auto pinned = PinIfResident(tile);
    if (!pinned) continue;
    THAW_TRY(VerifyTile(tile, pinned->data(), copy));
    ++report.tiles;
    ++report.tiles_read;
    report.bytes += map_.tile(tile).bytes;
    if (!on_progress(report.bytes, std::max(total, report.bytes))) {
      return Fail(ErrorCode::kCancelled, "verifying was stopped");
    }
  }
  return report;
}

Result<void> WeightCache::VerifyTile(int32_t tile, std::span<const std::byte> resident,
                                     AlignedBuffer& copy) {
  uint64_t expected = 0;
  {
    const std::lock_guard lock(mutex_);
    expected = state(tile).checksum;
  }
  const Tile& where = map_.tile(tile);
  const File& file = *where.file;
  const uint64_t in_memory = XXH3_64bits(resident.data(), resident.size());
  if (in_memory != expected) {
    return Fail(ErrorCode::kCorrupt,
                "{}: {}: its copy in memory changed: checksum {:016x}, {:016x} when it was read",
                file.path(), map_.Describe(tile), in_memory, expected);
  }
  const ReadCompletion read = ReadNow({.file = &file,
                                       .offset = where.offset,
                                       .bytes = where.bytes,
                                       .buffer = copy.data(),
                                       .tag = 0});
  if (!read.outcome) {
    Error error = read.outcome.error();
    return Fail(std::move(error).In(map_.Describe(tile)));
  }
  THAW_TRY(Form(tile, copy.data()));
  const uint64_t in_file = XXH3_64bits(copy.data() + DataOffset(tile), where.memory_bytes);
  if (in_file != expected) {
    return Fail(ErrorCode::kCorrupt,
                "{}: {}: the bytes at offset {} changed since they were read: checksum {:016x}, "
                "{:016x} before",
                file.path(), map_.Describe(tile), where.offset, in_file, expected);
  }
  return {};
}

}  // namespace thaw
