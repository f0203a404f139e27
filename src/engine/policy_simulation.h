// What each residency policy would hit on a model: the real weight cache, driven through forward
// passes over the model's own tile map, but with files whose reads give nothing. Which experts a
// token goes through is drawn at random, the same for every policy.
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

// How experts are drawn for a token, without putting back.
enum class SimulatedRouter {
  kUniform,  // each as likely as any
  kZipf,     // the expert of rank r, counted from 1 in an order of each layer's own, as 1 / r
};

// "uniform" or "zipf"
std::string_view SimulatedRouterName(SimulatedRouter router);

struct SimulatedPolicy {
  std::string_view policy;
  bool fits = true;  // whether the policy works at this capacity; nothing below, if not
  double hit_rate = 0;
  double hit_rate_bytes = 0;
};

struct PolicySimulation {
  uint64_t capacity_bytes = 0;
  SimulatedRouter router = SimulatedRouter::kUniform;  // of no account without experts
  int passes =
      0;  // that counted: decode steps after the first, with experts after as many as these
  // Of a cyclic scan the share of the bytes that fits. With experts what is hit by whoever knows
  // all visits to come and gives up what is needed last (Belady's optimum).
  double best_possible_hit_rate_bytes = 0;
  std::vector<SimulatedPolicy> policies = {};
};

// `passes` decode steps over the tiles of `map` under each policy, after those that do not count.
// Matrices that match `pinned` have places under every policy.
Result<PolicySimulation> SimulatePolicies(const TileMap& map, uint64_t capacity_bytes,
                                          std::span<const std::string> pinned, int passes,
                                          SimulatedRouter router);

}  // namespace thaw
