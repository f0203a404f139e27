// The weight cache: the one owner of every weight byte, and the one way to reach it, by Pin().
//
// One instance per process, shared by all that reads weights. It never holds more than its
// capacity, which can be changed at any time.
//
//            +------------------- read failed ----------------------+
//            v                                                      |
//   absent --+--(reader: tile is next in the pass)--> loading --(read done)--> fresh
//      ^     +--(Pin: nobody reads it yet)----------> loading --(read done)--+   |
//      |                                                                     v   v (Pin)
//      +----(last pin gone: slot let go, place taken away; evicted; SetForms) resident
//
// `loading` belongs to the thread that reads; others wait for it. `fresh` is resident, read for a
// visit to come: it gives way only to what is needed sooner. Which tiles have a place of their own
// and which share slots is the policy's to say (residency/policy.h). Both are extents of one range
// of addresses; lowering the capacity gives memory back from its end.
//
// Threads: everything is thread safe; no lock is held across a read but that of the row cache.
// Reader threads read ahead of the pass that BeginPass announced, and before that what Expect did;
// Pin reads by itself what nobody reads.
//
// Costs: a hit of a tile with a place is two atomic operations on the tile's own cache line and
// three relaxed counters; a visit of a tile in a slot takes the lock once more. Bad at: changing
// the capacity looks at every tile; small tiles waste part of a slot; one lock serves all misses.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/memory_region.h"
#include "base/result.h"
#include "codec/tile_decoder.h"
#include "io/read_queue.h"
#include "residency/cache_statistics.h"
#include "residency/extent_allocator.h"
#include "residency/placement.h"
#include "residency/policy.h"
#include "residency/row_cache.h"
#include "residency/tile_map.h"
#include "residency/visit_schedule.h"

namespace thaw {

class WeightCache;

// Holds one resident tile for as long as it lives. Move-only; must not outlive the cache.
class PinnedTile {
 public:
  PinnedTile() = default;
  PinnedTile(PinnedTile&& other) noexcept
      : data_(other.data_), cache_(std::exchange(other.cache_, nullptr)), tile_(other.tile_) {}
  PinnedTile& operator=(PinnedTile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(cache_, other.cache_);
    std::swap(tile_, other.tile_);
    return *this;
  }
  ~PinnedTile();

  // The tile's rows: as in the file, one after another, coded where they are frozen; or thawed, or
  // packed (Tile::is_coded, is_thawed, is_packed).
  std::span<const std::byte> data() const { return data_; }

 private:
  friend class WeightCache;
  PinnedTile(std::span<const std::byte> data, WeightCache* cache, int32_t tile)
      : data_(data), cache_(cache), tile_(tile) {}

  std::span<const std::byte> data_;
  WeightCache* cache_ = nullptr;
  int32_t tile_ = 0;
};

struct WeightCacheOptions {
  // Of all places and slots together, rounded down to whole huge pages.
  uint64_t capacity_bytes = kUnlimited;
  const Policy* policy = &PlannedPolicy();
  // Forward passes that "often" looks back on, 1 to 64.
  int frequency_window = 64;
  // Names of matrices that always have a place; `*` stands for any characters.
  std::vector<std::string> pinned = {};

  // How many layers ahead of the visits tiles are read; 0 reads nothing ahead, kFarAhead as far as
  // the slots reach.
  int prefetch_ahead = kFarAhead;
  // Whether a visit waits until everything within prefetch_ahead layers has been read.
  bool synchronous_prefetch = false;
  // Threads that read; 0: one with io_uring, several where plain reads must do.
  int io_threads = 0;
  bool use_uring = true;

  // Of frozen tiles: looks once through those that stay coded, thaws others whenever they are read.
  const TileDecoder* decoder = &PortableDecoder();

  static constexpr uint64_t kUnlimited = UINT64_MAX;
  static constexpr int kFarAhead = -1;
};

// What a preload, a pinning or a verification did.
struct ResidencyReport {
  int64_t tiles = 0;            // that were asked for
  uint64_t bytes = 0;           // of those tiles
  int64_t tiles_read = 0;       // of them, read now
  int64_t tiles_streamed = 0;   // of them, without a place: they cannot stay
  uint64_t bytes_streamed = 0;  // of those
};

class WeightCache {
 public:
  // kResourceExhausted when the capacity is too small (residency/placement.h); kInvalidArgument for
  // a name that matches no matrix.
  static Result<std::unique_ptr<WeightCache>> Create(TileMap map,
                                                     const WeightCacheOptions& options);
  ~WeightCache();
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // Threads that may thaw tiles at a time, each with TileMap::thaw_scratch_bytes() of scratch: the
  // readers at their most, and one of those that pin.
  static int MostThawers(int io_threads);

  // SetForms changes the forms of tiles in it.
  const TileMap& map() const { return map_; }
  const Policy& policy() const { return policy_; }

  // "io_uring" or "pread"; why it is not io_uring, where that was asked for ("" otherwise).
  std::string_view reader_name() const { return reader_name_; }
  const std::string& reader_note() const { return reader_note_; }

  // ------------------------------------------------------------------------------------ visits

  // Announces a forward pass over the tiles [0, end) of map(), in that order. kCorrupt when a file
  // is no longer the one that was opened.
  Result<void> BeginPass(int32_t end);

  // Announces tiles of experts that this pass is going to visit, in that order. Those that nobody
  // announces are not read ahead.
  void Expect(std::span<const int32_t> tiles);

  // Whether a tile has memory of its own, so that visiting it never waits once it was read.
  bool HasPlace(int32_t tile) const {
    return state(tile).place.load(std::memory_order_relaxed) != kNowhere;
  }

  // Whether a visit of a tile would find it in memory; in a slot it may leave at any time.
  bool IsResident(int32_t tile) const {
    return (state(tile).word.load(std::memory_order_relaxed) & kResident) != 0;
  }

  // Slots that the tiles without a place share now, and their bytes; CacheStatistics has what the
  // plan says.
  uint64_t slot_count() const;
  uint64_t slot_bytes() const;

  // A visit: a handle to tile `tile`, read first where it is absent. The error of a failed read, or
  // kCorrupt of weights that are infinite or NaN and of frozen ones that are not whole, names file,
  // tensor and offset; a later call tries again. Waits only while handles and reads hold every
  // slot and, of a plan that is not reached, every stretch of memory that would be long enough: one
  // handle never does. A thread that holds more while the capacity or the plan changes lets them go
  // before it pins again.
  Result<PinnedTile> Pin(int32_t tile);

  // A handle if the tile is resident; reads nothing, counts nothing.
  std::optional<PinnedTile> PinIfResident(int32_t tile);

  // Hands out rows of matrices that are looked up, as they lie in the file: from the resident tile
  // where there is one, else through the row cache (residency/row_cache.h, with the errors).
  Result<void> ReadRows(std::span<const TableRow> rows, RowCache::OnRow on_row);

  // ------------------------------------------------------------------------------------ contents

  // The matrices whose name matches `pattern`; those of one group of a layer.
  std::vector<int32_t> FindMatrices(std::string_view pattern) const;
  std::vector<int32_t> FindMatrices(int32_t layer, WeightGroup group) const;

  // Reads every tile of `matrices` that has a place and is absent. `on_progress(done, total)` gets
  // bytes, from this thread, and returns whether to go on; kCancelled when it said no. Idempotent.
  Result<ResidencyReport> Preload(std::span<const int32_t> matrices,
                                  FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);
  Result<ResidencyReport> Preload(FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

  // Gives the tiles of `matrices` places for good, before all others. kResourceExhausted, with
  // nothing changed, when they do not fit.
  Result<ResidencyReport> PinMatrices(std::span<const int32_t> matrices);

  // Compares every resident tile with its checksum, and the file's bytes with it too. kCorrupt
  // names the first tile that differs. Uses one tile's room of memory of its own while it runs.
  Result<ResidencyReport> Verify(FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

  // ------------------------------------------------------------------------------------ capacity

  // [tiles], which were pinned by name.
  std::vector<char> pinned_tiles() const;

  uint64_t capacity_bytes() const { return capacity_bytes_.load(std::memory_order_relaxed); }

  // Changes the capacity; when it returns, what is unpinned obeys it and the memory is the system's
  // again; what is pinned follows with its last pin. Errors as Create, with nothing changed.
  Result<void> SetCapacity(uint64_t bytes);

  // Holds tiles in the forms that `forms` has them in, a map of the same tiles, within a new
  // capacity. Tiles in another form leave and are read again when they are visited. False, with
  // nothing changed, while a handle holds one of them. Not while a pass or another SetForms runs;
  // waits for reads of tiles that change. Errors as Create, with nothing changed.
  Result<bool> SetForms(const TileMap& forms, uint64_t capacity_bytes);

  // Gives places by what was observed: weights that most passes before the present one visited
  // come first. (Of the present one, a part is yet to come.)
  Result<void> Optimize();

  // ------------------------------------------------------------------------------------ reports

  CacheStatistics Statistics() const;
  // What all visits so far have read of memory, had tiles always had the forms of now. Costs a look
  // at each tile under the lock.
  uint64_t VisitedBytes() const;
  // One for each matrix of the map.
  std::vector<MatrixStatistics> PerMatrix() const;

  // Called for every visit, from any thread, several at a time; empty for none. Set it while no
  // pass runs.
  void SetTrace(std::function<void(const VisitEvent&)> trace) { trace_ = std::move(trace); }

 private:
  friend class PinnedTile;

  // Flags of TileState::word, above the count of pins.
  static constexpr uint32_t kPinMask = (1U << 24) - 1;
  static constexpr uint32_t kResident = 1U << 24;
  static constexpr uint32_t kFresh = 1U << 25;    // read, not visited yet
  static constexpr uint32_t kInSlot = 1U << 26;   // the last unpin must be told to the cache
  static constexpr uint32_t kLeaving = 1U << 27;  // is dropped with the last unpin

  static constexpr int64_t kNowhere = -1;
  static constexpr int32_t kNoSlot = -1;

  // A cache line each and more, so that pins of neighbours do not disturb one another.
  struct alignas(64) TileState {
    std::atomic<uint32_t> word{0};
    std::atomic<std::byte*> data{nullptr};  // valid while resident
    std::atomic<uint64_t> visits{0};
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> history{0};      // bit i: visited i passes before last_pass
    std::atomic<uint32_t> last_pass{0};    // the latest that visited it
    std::atomic<int64_t> place{kNowhere};  // of its own; changes with mutex_ held
    // All below guarded by mutex_.
    uint64_t checksum = 0;  // of the first read; valid when has_checksum
    uint64_t read_ns = 0;
    int64_t extent = kNowhere;  // where it is, or is being read to
    int32_t slot = kNoSlot;     // that this is
    uint64_t visited_at = 0;    // among the visits of tiles in slots
    uint16_t waiters = 0;
    bool loading = false;
    bool has_checksum = false;
    bool wanted_by_preload = false;
    bool expected = false;  // announced by Expect and not visited since
  };

  struct Slot {
    uint64_t offset = 0;
    uint64_t span_bytes = 0;
    int32_t tile = kFree;
  };
  static constexpr int32_t kFree = -1;

  WeightCache(TileMap map, const WeightCacheOptions& options, MemoryRegion memory,
              std::vector<char> pinned);

  // weight_cache.cc
  PinnedTile Handle(int32_t tile);
  void CountVisit(int32_t tile, bool hit, int64_t stall_ns);
  void Unpin(int32_t tile);
  Result<PinnedTile> PinUnderLock(int32_t tile);
  void NoteVisit(int32_t tile);
  Result<void> ReadByThisThread(int32_t tile, std::unique_lock<std::mutex>& lock);
  // Ends the lock; the tile is pinned for this visit already.
  PinnedTile VisitPinned(int32_t tile, bool waited, int64_t stall_ns,
                         std::unique_lock<std::mutex>& lock);
  bool CopyIfResident(const TableRow& at, std::span<std::byte> out);

  // weight_cache_contents.cc
  Result<void> WaitForPreload(std::span<const int32_t> tiles, uint64_t total_bytes,
                              FunctionRef<bool(uint64_t done, uint64_t total)> on_progress,
                              std::unique_lock<std::mutex>& lock);
  Result<void> ReadIfAbsent(int32_t tile, ResidencyReport& report,
                            std::unique_lock<std::mutex>& lock);
  Result<void> VerifyTile(int32_t tile, std::span<const std::byte> resident, AlignedBuffer& copy);

  // weight_cache_arrangement.cc; all with mutex_ held.
  Result<void> Replan(uint64_t capacity_bytes);
  std::vector<int32_t> TilesInOtherForms(const TileMap& forms) const;
  bool MakeAbsent(std::span<const int32_t> tiles, std::unique_lock<std::mutex>& lock);
  void RearrangeIfChanged(PlacementTargets targets);
  void Rearrange(PlacementTargets targets);
  void FillMemory();
  bool AllocateMissing();
  bool AddSlot();
  bool GivePlace(int32_t tile);
  bool TakeFromOthers(int32_t tile);
  void Compact();
  std::vector<int32_t> PlacedTiles() const;
  bool MoveToLowest(int32_t tile);
  void DropIfUnpinned(int32_t tile);
  void LoseMemory(int32_t tile);
  void FreeExtent(int32_t tile);
  void UseFreedMemory();
  void EraseSlot(size_t index);
  void EmptySlots();
  void ReleaseUnused();
  std::vector<TileUse> Uses() const;
  uint64_t HistoryOf(int32_t tile) const;
  TileUse UseOf(int32_t tile) const;

  // weight_cache_reading.cc; all but the first three with mutex_ held.
  void StartReaders();
  // What `depth` reads go through: io_uring where it can be used.
  std::unique_ptr<ReadQueue> NewQueue(int depth) const;
  void ReadLoop(ReadQueue& queue);
  void WakeReaders();
  void ReadAheadNow(std::unique_lock<std::mutex>& lock);
  std::optional<int32_t> NextToRead();
  std::optional<int32_t> NextWithPlace();
  bool IsTooFarAhead(uint64_t time) const;
  bool Keeps(int32_t tile) const { return policy_.keeps_slots(map_.is_chosen(tile)); }
  int64_t MostAhead(bool is_expected) const;
  uint64_t DistanceOf(int32_t tile) const;
  std::optional<int32_t> NextExpected();
  bool TakeMemory(int32_t tile, std::optional<uint64_t> distance);
  bool MakeSlotFree(int32_t tile, std::optional<uint64_t> distance);
  size_t FindFreeSlot();
  int32_t FindVictim(std::optional<uint64_t> distance);
  void FinishLoading(int32_t tile, const ReadCompletion& read, uint64_t checksum, bool pin);
  void WaitUntilSomethingSettles(std::unique_lock<std::mutex>& lock);
  ReadRequest RequestFor(int32_t tile);
  uint64_t Thaw(int32_t tile, std::byte* buffer, ReadCompletion& read);
  Result<void> CheckRead(int32_t tile, const std::byte* rows, bool is_first);
  Result<void> CheckFrozen(int32_t tile, const std::byte* coded, bool is_first);
  // Brings what was read to `buffer` into the form that it has in memory.
  Result<void> Form(int32_t tile, std::byte* buffer);
  Result<void> FormThawed(int32_t tile, std::byte* buffer);
  void FormThawedGrid(int32_t tile, std::byte* buffer);
  // Calls body(scratch) with scratch of this thread alone.
  void WithThawScratch(FunctionRef<void(std::byte* scratch)> body);

  // Where a tile's rows begin in its memory: packed ones at its start, others behind what a direct
  // read brings with them.
  uint64_t DataOffset(int32_t tile) const {
    const Tile& of = map_.tile(tile);
    return of.is_packed || of.is_thawed ? 0 : of.lead_bytes;
  }

  TileState& state(int32_t tile) { return tiles_[static_cast<size_t>(tile)]; }
  const TileState& state(int32_t tile) const { return tiles_[static_cast<size_t>(tile)]; }

  const uint64_t instance_id_;
  TileMap map_;  // the form of a tile changes with mutex_ held, while it is absent
  const Policy& policy_;
  const WeightCacheOptions options_;
  MemoryRegion memory_;
  std::vector<TileState> tiles_;
  std::vector<const File*> files_;  // each once
  std::function<void(const VisitEvent&)> trace_;
  std::string reader_name_;
  std::string reader_note_;

  mutable std::mutex mutex_;
  std::condition_variable tile_settled_;  // a tile became resident or absent, or a slot free
  std::condition_variable reader_wake_;
  // Guarded by mutex_:
  VisitSchedule schedule_;
  ExtentAllocator extents_{0};
  std::vector<Slot> slots_;
  size_t free_slots_ = 0;          // of them
  size_t free_hand_ = 0;           // where the search for a free one goes on
  size_t victim_hand_ = 0;         // where the search for a victim does, among many
  std::vector<int32_t> expected_;  // announced by Expect in this pass
  size_t expected_next_ = 0;       // of those, the first that readers have not looked at
  PlacementTargets targets_;
  std::vector<char> pinned_;    // [tiles], asked for by name
  uint64_t memory_end_ = 0;     // no page above it is backed
  int32_t preload_cursor_ = 0;  // no tile below it is still to be read for a preload
  int64_t preloads_ = 0;        // tiles that preloads still wait for
  int waiting_ = 0;             // threads that wait for tile_settled_
  int ahead_ = 0;               // tiles in slots that are loading or fresh
  uint64_t wake_count_ = 0;     // of WakeReaders
  size_t idle_readers_ = 0;     // that found nothing to read since then
  uint64_t visit_count_ = 0;    // of tiles in slots
  bool memory_came_free_ = false;
  bool lacks_memory_ = false;   // holes between pinned extents are too small for what is planned
  bool readers_pause_ = false;  // for MakeAbsent
  bool stop_ = false;

  // Memory for packing, one buffer for each thread that may do so at a time; others wait.
  std::mutex thaw_mutex_;
  std::condition_variable thaw_scratch_free_;
  std::vector<AlignedBuffer> thaw_scratch_;

  std::unique_ptr<RowCache> row_cache_;

  size_t reader_count_ = 0;
  std::vector<std::thread> readers_;

  std::atomic<uint64_t> capacity_bytes_{0};
  std::atomic<uint32_t> pass_{0};
  std::atomic<uint64_t> resident_bytes_{0};
  std::atomic<uint64_t> evictions_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> disk_bytes_{0};
  std::atomic<uint64_t> page_cache_bytes_{0};
  std::atomic<int64_t> read_ns_{0};
  std::atomic<int64_t> thaw_ns_{0};
  std::atomic<int64_t> stall_ns_{0};
};

inline PinnedTile::~PinnedTile() {
  if (cache_ != nullptr) cache_->Unpin(tile_);
}

}  // namespace thaw
