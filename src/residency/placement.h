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

// How the bytes of all weights, as in the file, are held.
struct WeightShares {
  uint64_t resident_bytes = 0;  // with a place
  uint64_t streamed_bytes = 0;  // without, visited by every pass
  uint64_t expert_bytes = 0;    // without, visited by passes that choose them
  uint64_t kept_bytes = 0;      // of those, what the slots hold at a time
  // For a decoded token; those of experts are estimates, as if each were used as often as any.
  double visited_bytes_per_token = 0;
  double read_bytes_per_token = 0;

  // No policy can do better on a cyclic scan with this capacity. With experts an estimate.
  double HitRateBytes() const {
    return visited_bytes_per_token == 0 ? 1.0
                                        : 1.0 - read_bytes_per_token / visited_bytes_per_token;
  }
  // Whether a token finds all weights in memory, once they were read.
  bool HoldsAll() const { return streamed_bytes == 0 && kept_bytes == expert_bytes; }
};

struct PlacementTargets {
  uint64_t capacity_bytes = 0;  // whole huge pages, and no more than there is use for
  std::vector<int32_t> order;   // all tiles, the most worth a place first
  std::vector<char> placed;     // [tiles], whether it gets a place
  int64_t slots = 0;            // of slot_span_bytes each, which hold any tile without a place
  uint64_t slot_span_bytes = 0;
  uint64_t slot_bytes = 0;  // of all slots
  WeightShares shares = {};
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

// Addresses that hold every arrangement, at any capacity, by any policy and in any forms.
uint64_t AddressBytes(const TileMap& map);

// The tiles of all matrices whose name matches one of `patterns`, in which `*` stands for any
// characters. kInvalidArgument for a pattern that matches nothing.
Result<std::vector<char>> MatchTiles(const TileMap& map, std::span<const std::string> patterns);

// Whether `name` matches a pattern in which `*` stands for any characters.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace thaw
