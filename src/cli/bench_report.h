// How fast a model ran, for people (a table) and as JSON for programs, beside what the machine
// can do: a speed is told as a share of the machine's memory and disk rates. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/json_text.h"
#include "engine/memory_plan.h"
#include "engine/policy_simulation.h"
#include "engine/speed_benchmark.h"

namespace thaw::cli {

struct BenchReport {
  std::string model;       // path
  std::string shape = {};  // that it was generated with; "" for a file that was given
  std::string type = {};   // of its weights, where it was generated
  std::string cpu = {};
  std::string kernels = {};
  int threads = 0;
  std::string policy = {};
  std::string reader = {};
  std::string reader_note = {};  // why reading goes another way than asked for
  double load_seconds = 0;       // without reading weights, unless they were preloaded
  std::optional<uint64_t> last_level_cache = std::nullopt;  // bytes
  MemoryPlan plan = {};
  uint64_t peak_resident_bytes = 0;
  BenchmarkReport speed = {};
  std::optional<PolicySimulation> simulation = std::nullopt;
  std::optional<PolicySimulation> skewed_simulation = std::nullopt;  // of models with experts
};

// The object that `thaw bench --json` prints.
Json BenchJson(const BenchReport& report);

// What was measured and where, then a line for each workload, then one for each simulated policy.
std::string BenchTable(const BenchReport& report);

}  // namespace thaw::cli
