// Which tiles get memory of their own at a capacity, and how many slots the others share.
//
// This is the plan of the weight cache: the cache allocates what ChoosePlacement says, and a plan
// that is only printed comes from the same call. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "residency/policy.h"
#include "residency/tile_map.h"

namespace thaw {

struct PlacementTargets {
  uint64_t capacity_bytes = 0;  // whole huge pages, and no more than there is use for
  std::vector<int32_t> order;   // all tiles, the most worth a place first
  std::vector<char> placed;     // [tiles], whether it gets a place
  int64_t slots = 0;            // of slot_span_bytes each, which hold any tile without a place
  uint64_t slot_span_bytes = 0;
  uint64_t resident_bytes = 0;  // of the tiles with a place, as in the file
  uint64_t streamed_bytes = 0;  // of those without that every pass visits
  uint64_t chosen_bytes = 0;    // of experts' tiles without a place
  uint64_t kept_bytes = 0;      // of those, what the slots hold at a time
  uint64_t slot_bytes = 0;      // of all slots
};

// `uses` [tiles], what was seen of each; `pinned` [tiles], which must have a place. Capacities are
// rounded down to whole huge pages, because memory goes back to the system in these.
// kResourceExhausted, stating the capacity that would do, when this one does not.
Result<PlacementTargets> ChoosePlacement(const TileMap& map, const Policy& policy,
                                         std::span<const TileUse> uses,
                                         const std::vector<char>& pinned, uint64_t capacity_bytes);

// The least capacity that ChoosePlacement takes.
uint64_t MinimumCapacity(const TileMap& map, const Policy& policy, const std::vector<char>& pinned);

// The least capacity at which every tile has a place, or would stay in a slot.
uint64_t FullCapacity(const TileMap& map, const Policy& policy);

// The tiles of all matrices whose name matches one of `patterns`, in which `*` stands for any
// characters. kInvalidArgument for a pattern that matches nothing.
Result<std::vector<char>> MatchTiles(const TileMap& map, std::span<const std::string> patterns);

// Whether `name` matches a pattern in which `*` stands for any characters.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace thaw
