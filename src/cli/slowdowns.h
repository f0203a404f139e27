// What slows runs on a machine: a sentence for each thing, with the number that shows it.
//
// Only what was measured or what the system states is said; a figure that is absent shows nothing.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_conditions.h"
#include "base/system_info.h"
#include "engine/rate_measurement.h"

namespace thaw::cli {

// A machine on which this program computed for a while on all its threads.
struct MachineState {
  SystemInfo system = {};
  int threads = 1;
  std::string uring_problem = {};  // why io_uring cannot be used; "" where it can

  CpuConditions before = {};
  CpuConditions after = {};
  double wall_seconds = 0;  // between the two
  double cpu_seconds = 0;   // of this program in that time
  std::optional<LoopTimes> loop = {};
};

// Of the allowed CPUs, in that time: how many others used, and how many the hypervisor gave to
// something else. Nothing where the system does not tell.
std::optional<double> CpusOfOthers(const MachineState& state);
std::optional<double> CpusStolen(const MachineState& state);

std::vector<std::string> FindSlowdowns(const MachineState& state);

}  // namespace thaw::cli
