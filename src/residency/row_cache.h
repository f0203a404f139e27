// The rows of tables that passes look up by row: embeddings of tokens, of positions and of layers.
//
// Such a table may have many GiB, of which a token needs a few KiB. The rows that were asked for
// last are kept here as they lie in the file, of every table equally many, since a token asks each
// of them for one. The number of a row tells the one set of slots that it may lie in; there it
// takes the slot of the row that was asked for the longest ago.
//
// The rows that a pass lacks are asked for together, each once, as many reads at a time as the
// queue and the buffers allow (io/read_queue.h). The memory is the cache's; its size depends on the
// tables alone. Thread safe: one Read runs at a time, its reads included, while others wait.
//
// Rows of frozen tables are kept as they are once thawed; one that is absent costs the reading of
// its tile, if that is not in memory, and the decoding of what stands before it in its stream.
//
// Costs: a row that is there costs the search of a set and the bytes' way to the caller. Bad at:
// positions, which come back in another sequence alone.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "codec/tile_decoder.h"
#include "io/read_queue.h"
#include "residency/tile_map.h"

namespace thaw {

struct TableRow {
  int32_t matrix = 0;  // of the tile map, one that is looked up
  int64_t row = 0;

  friend auto operator<=>(const TableRow&, const TableRow&) = default;
};

// Counts and bytes since the beginning. Rows that were asked for are hits or reads.
struct RowStatistics {
  uint64_t hits = 0;  // found in memory, or asked for twice at a time
  uint64_t reads = 0;
  uint64_t bytes_read = 0;  // of those rows
  uint64_t disk_bytes = 0;  // asked of the device for them, rounded to its blocks
  uint64_t page_cache_bytes = 0;
  double thaw_seconds = 0;  // checking and decoding frozen tiles for rows
};

class RowCache {
 public:
  // Gets the bytes of rows[i], as in the file; they are there during the call alone.
  using OnRow = FunctionRef<Result<void>(size_t i, std::span<const std::byte> bytes)>;
  // Copies a row to `out` where a tile in memory has it, or returns false.
  using CopyResident = FunctionRef<bool(const TableRow& row, std::span<std::byte> out)>;

  // Depth of a queue for it: reads of 4 KiB that are under way at a time.
  static constexpr int kRowsInFlight = 16;

  // What it takes, slots and buffers; 0 where no matrix of the map is looked up.
  static uint64_t Bytes(const TileMap& map);

  // `map` has to live as long; `decoder` is for rows of frozen tables. kResourceExhausted when the
  // system has no memory for it.
  static Result<std::unique_ptr<RowCache>> Create(const TileMap& map,
                                                  std::unique_ptr<ReadQueue> queue,
                                                  const TileDecoder& decoder);

  // Calls on_row once for each of `rows`, in any order, from this thread. The error of a failed
  // read names file, tensor, row and offset; that of on_row ends the call too.
  Result<void> Read(std::span<const TableRow> rows, CopyResident copy_resident, OnRow on_row);

  RowStatistics Statistics() const;

 private:
  struct Slot {
    int64_t row = -1;
    uint64_t asked_at = 0;  // of all that were asked for, which; 0: it holds no row
    std::byte* bytes = nullptr;
  };
  struct Table {
    int32_t matrix;
    std::vector<Slot> slots;  // sets, one after another
  };
  // The indices into what was asked for that are of the same row.
  struct Wanted {
    TableRow at;
    std::span<const size_t> indices;
  };

  RowCache(const TileMap& map, std::unique_ptr<ReadQueue> queue, const TileDecoder& decoder)
      : map_(map), queue_(std::move(queue)), decoder_(decoder) {}

  // The slot that holds a row, else the one that is to be given up for it.
  Slot& SlotFor(const TableRow& at);
  Result<void> Deliver(const Wanted& wanted, std::span<const std::byte> bytes, OnRow on_row);
  Result<void> ReadMissing(OnRow on_row);
  // One row of a frozen table, whose tile is read where it is not the one that was read last.
  Result<void> ThawMissing(const Wanted& wanted, OnRow on_row);
  Result<void> ReadTile(int32_t tile);
  // Puts a row into its slot.
  Slot& Keep(const TableRow& at, const std::byte* bytes);
  void Submit(size_t buffer, const Wanted& wanted);
  Result<void> Take(const ReadCompletion& read, OnRow on_row);

  const TileMap& map_;
  const std::unique_ptr<ReadQueue> queue_;
  const TileDecoder& decoder_;
  mutable std::mutex mutex_;  // guards all below
  AlignedBuffer memory_;      // of all that follows
  std::byte* buffers_ = nullptr;
  uint64_t buffer_bytes_ = 0;
  std::byte* tile_ = nullptr;      // room for the coded tile of a frozen table
  std::byte* group_ = nullptr;     // for a group of its rows
  int32_t held_tile_ = -1;         // that is in the room, found to be what was frozen
  std::vector<Wanted> under_way_;  // [buffers]
  std::vector<Table> tables_;
  std::vector<size_t> order_;    // of the current Read: indices, those of a row together
  std::vector<Wanted> missing_;  // likewise
  uint64_t asked_ = 0;
  RowStatistics statistics_;
};

}  // namespace thaw
