// How fast a model will decode under a memory plan, from rates measured on this machine.
//
// Computing and reading overlap, so a token takes the longer of the two, and a little of the
// shorter: tiles do not arrive exactly when they are wanted. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/machine_rates.h"
#include "engine/memory_plan.h"
#include "model/config.h"
#include "residency/tile_map.h"

namespace thaw {

struct SpeedForecast {
  double decode_tok_per_s = 0;
  double compute_seconds = 0;  // of one token
  double disk_seconds = 0;     // of one token
  // "disk", "memory" (products run near the rate at which memory is read) or "compute".
  std::string_view bound_by;
};

// What is multiplied with a token, by form; of experts those that it goes through.
std::vector<TypeBytes> BytesByType(const TileMap& map);

// `rates` must know the map's types, and `device` where anything is streamed. The KV cache is taken
// to be half full.
SpeedForecast ForecastSpeed(const MemoryPlan& plan, const ModelConfig& config, const TileMap& map,
                            const MachineRates& rates, std::string_view device);

// Speed over budgets: from the floor to the budget with which everything stays in memory.
struct BudgetPoint {
  uint64_t budget_bytes = 0;
  uint64_t read_bytes_per_token = 0;
  double decode_tok_per_s = 0;
};

// The least budget of the curve that reaches nine tenths of its best speed; 0 for an empty curve.
uint64_t Knee(std::span<const BudgetPoint> curve);

}  // namespace thaw
