// The weight cache: the one owner of every weight byte, and the one way to reach it.
//
// There is one instance per process, shared by all that reads weights; it is created at load and
// never copied or cleared. Weights are reached tile by tile through Pin(), which hands out a view.
//
//   absent --(Pin or Preload: this thread reads)--> loading --(read done)--> resident
//                                                      |
//                                                      +--(read failed)--> absent
//
// Only the thread that made a tile `loading` moves it on; others that want it wait (one read, many
// waiters). A resident tile stays resident. No lock is held across a read.
//
// Memory: one block, taken at creation, with a slot for every tile; the system backs a slot with
// memory when its tile is first read. Reads are positioned reads, never a memory map.
//
// Thread safe. Costs: a hit is one load and two atomic additions on the tile's own cache line. What
// this is bad at: everything must fit, and a model is read whole before its last layer has run
// once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "residency/tile_map.h"

namespace thaw {

class WeightCache;

// Holds one resident tile for as long as it lives. Move-only; must not outlive the cache.
class PinnedTile {
 public:
  PinnedTile() = default;
  PinnedTile(PinnedTile&& other) noexcept
      : data_(other.data_), pins_(std::exchange(other.pins_, nullptr)) {}
  PinnedTile& operator=(PinnedTile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(pins_, other.pins_);
    return *this;
  }
  ~PinnedTile() {
    if (pins_ != nullptr) pins_->fetch_sub(1, std::memory_order_release);
  }

  // The tile's rows as in the file, one after another.
  std::span<const std::byte> data() const { return data_; }

 private:
  friend class WeightCache;
  PinnedTile(std::span<const std::byte> data, std::atomic<uint32_t>* pins)
      : data_(data), pins_(pins) {}

  std::span<const std::byte> data_;
  std::atomic<uint32_t>* pins_ = nullptr;
};

// A snapshot. Counts and bytes only grow from one snapshot to the next; resident_bytes and
// pinned_bytes are of the moment.
struct CacheStatistics {
  uint64_t instance_id = 0;  // of the cache, unique within the process
  std::string_view policy;   // how tiles are chosen to stay
  uint64_t hits = 0;         // pins that found their tile resident
  uint64_t misses = 0;       // pins that did not
  uint64_t hit_bytes = 0;
  uint64_t miss_bytes = 0;
  uint64_t evictions = 0;
  uint64_t bytes_read = 0;   // from files, single rows included
  double read_seconds = 0;   // spent reading, summed over threads
  double thaw_seconds = 0;   // spent turning file bytes into resident tiles
  double stall_seconds = 0;  // pins spent waiting, summed over threads
  uint64_t resident_bytes = 0;
  uint64_t pinned_bytes = 0;   // of tiles with a live handle
  uint64_t planned_bytes = 0;  // meant to stay resident
  uint64_t weight_bytes = 0;   // of all tiles
};

class WeightCache {
 public:
  static Result<std::unique_ptr<WeightCache>> Create(std::vector<WeightMatrix> matrices);

  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  const TileMap& map() const { return map_; }

  // A handle to tile `tile` of map(), read first where it is absent. The error of a failed read
  // names file, tensor and offset; a later call tries again.
  Result<PinnedTile> Pin(int32_t tile);

  // Copies the file bytes of one row to `out` (row_bytes() of them): from the resident tile where
  // there is one, else by one small read that keeps nothing.
  Result<void> ReadRow(int32_t matrix, int64_t row, std::span<std::byte> out);

  // Reads every absent tile, on all threads of `pool`. `on_progress(done, total)` gets bytes, from
  // one thread at a time, and returns whether to go on; kCancelled when it said no. Idempotent.
  Result<void> Preload(ThreadPool& pool,
                       FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

  CacheStatistics Statistics() const;

 private:
  enum class State : uint8_t { kAbsent, kLoading, kResident };

  // A cache line each, so that pins of neighbours do not disturb one another.
  struct alignas(64) Slot {
    std::atomic<State> state{State::kAbsent};
    std::atomic<uint32_t> pins{0};
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
    size_t offset = 0;  // in memory_
  };

  WeightCache(TileMap map, AlignedBuffer memory, std::vector<size_t> offsets);

  // Makes the tile resident; returns once it is, whoever read it.
  Result<void> Load(int32_t tile);
  Result<void> ReadTile(int32_t tile);
  Result<void> TimedRead(const WeightMatrix& matrix, uint64_t offset, std::span<std::byte> out);
  std::span<std::byte> SlotBytes(int32_t tile);

  const uint64_t instance_id_;
  const TileMap map_;
  AlignedBuffer memory_;
  std::vector<Slot> slots_;  // one a tile

  std::mutex mutex_;  // guards the transitions out of kAbsent and kLoading
  std::condition_variable tile_settled_;

  std::atomic<uint64_t> resident_bytes_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<int64_t> read_ns_{0};
  std::atomic<int64_t> stall_ns_{0};
};

}  // namespace thaw
