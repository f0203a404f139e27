// What each residency policy would hit on a model: the real weight cache, driven through forward
// passes over the model's own tile map, but with files whose reads give nothing.
//
// Memory: the cache's tables alone (some hundred bytes a tile), whatever the capacity, because no
// byte of a weight is ever written. Tiles lie without the padding of direct reads, so that at the
// same capacity a few more of them may fit than with the model's file. Deterministic: one thread,
// nothing read ahead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "residency/tile_map.h"

namespace thaw {

struct SimulatedPolicy {
  std::string_view policy;
  bool fits = true;  // whether the policy works at this capacity; nothing below, if not
  double hit_rate = 0;
  double hit_rate_bytes = 0;
};

struct PolicySimulation {
  uint64_t capacity_bytes = 0;
  int passes = 0;                           // that counted: decode steps after the first
  double best_possible_hit_rate_bytes = 0;  // of a cyclic scan: the share of the bytes that fits
  std::vector<SimulatedPolicy> policies = {};
};

// `passes` decode steps over all tiles of `map` under each policy, after one that does not count.
// Matrices that match `pinned` have places under every policy.
Result<PolicySimulation> SimulatePolicies(const TileMap& map, uint64_t capacity_bytes,
                                          std::span<const std::string> pinned, int passes);

}  // namespace thaw
