// What the weight cache reports of itself: plain snapshots, owned by whoever asked for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "residency/placement.h"
#include "residency/row_cache.h"

namespace thaw {

// Counts, bytes and seconds only grow from one snapshot to the next; capacity, resident and pinned
// figures are of the moment, planned, slot and best-possible figures are what the plan says. A new
// plan is reached as soon as what is pinned and what is being read gives way.
//
// A visit is one forward pass reaching one tile. It is a hit when the tile was still there from an
// earlier visit or from a preload, and a miss when it had to be read for this one, whether or not
// the visit had to wait.
struct CacheStatistics {
  uint64_t instance_id = 0;  // of the cache, unique within the process
  std::string_view policy;   // how tiles are chosen to stay
  std::string_view reader;   // "io_uring" or "pread"
  uint64_t hits = 0;         // visits
  uint64_t misses = 0;       // visits
  uint64_t hit_bytes = 0;
  uint64_t miss_bytes = 0;
  uint64_t evictions = 0;         // tiles that left for another one
  uint64_t bytes_read = 0;        // tiles and single rows, as they lie in files
  RowStatistics rows = {};        // of these, single rows
  uint64_t disk_bytes = 0;        // asked of the device by direct reads, rounded to its blocks
  uint64_t page_cache_bytes = 0;  // of bytes_read, found in the page cache
  double read_seconds = 0;        // from asking for a tile to having it, summed over tiles
  // What was read, tiles and single rows, being checked, packed and thawed, summed over threads.
  // Not: decoding within products of coded tiles.
  double thaw_seconds = 0;
  double stall_seconds = 0;  // visits spent waiting, summed over threads
  uint64_t capacity_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t pinned_bytes = 0;  // of tiles with a live handle
  WeightShares shares = {};   // that the plan aims at
  uint64_t weight_bytes = 0;  // of all tiles
  uint64_t slot_bytes = 0;    // of the slots that the other tiles share

  double hit_rate() const { return Share(hits, misses); }
  double hit_rate_bytes() const { return Share(hit_bytes, miss_bytes); }
  // What hits would have cost at the rate at which tiles were read.
  double time_saved_seconds() const {
    const uint64_t read = bytes_read - rows.bytes_read;
    return read == 0 ? 0.0
                     : read_seconds * static_cast<double>(hit_bytes) / static_cast<double>(read);
  }

 private:
  static double Share(uint64_t part, uint64_t rest) {
    return part + rest == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(part + rest);
  }
};

struct MatrixStatistics {
  std::string_view name;
  int32_t layer = 0;
  uint64_t bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t planned_bytes = 0;
  uint64_t visits = 0;  // of its tiles
  uint64_t hits = 0;
  double window_visits = 0;  // a tile, in the last frequency_window passes
  double read_seconds = 0;
};

struct VisitEvent {
  uint32_t pass = 0;  // forward passes begun
  int32_t tile = 0;
  std::string_view matrix;
  int32_t layer = 0;
  uint64_t bytes = 0;
  bool hit = false;
  int64_t stall_ns = 0;
  uint64_t resident_bytes = 0;
  uint64_t capacity_bytes = 0;
};

}  // namespace thaw
