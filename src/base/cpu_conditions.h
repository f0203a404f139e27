// What bears on how much of its cores a program gets, as /proc and /sys tell: how many there are,
// how many a cgroup allows, who else uses them, and how fast they run.
//
// Read at each call, a small file or three for each CPU; nothing is kept. Counts go up from the
// start of the machine: the difference of two calls is what happened in between. Figures that the
// system does not give are absent, never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace thaw {

struct CpuConditions {
  // CPUs (hardware threads) of the machine, those of them that this process may run on, and the
  // cores that those belong to.
  std::optional<int> machine_cpus;
  std::optional<int> allowed_cpus;
  std::optional<int> allowed_cores;

  // The tightest CPU quota among the process's cgroup and those above it, version 1 or 2, in CPUs;
  // absent where there is none. How long its processes were kept from running by it so far.
  std::optional<double> quota_cpus;
  std::optional<double> quota_throttled_seconds;

  // Of the allowed CPUs together: time in which they did anything for anyone, and time in which a
  // hypervisor ran something else although there was work here (steal).
  std::optional<double> busy_seconds;
  std::optional<double> steal_seconds;

  // Programs that ran or wanted to, on the whole machine, on average over the last minute.
  std::optional<double> load_average;

  // The allowed CPU that is farthest below its own highest frequency, now; and who chooses.
  std::optional<double> frequency_hz;
  std::optional<double> highest_frequency_hz;
  std::string frequency_governor;  // "" where the system does not tell

  // How often allowed cores slowed themselves down for heat so far.
  std::optional<uint64_t> thermal_throttles;
};

// `root` is put before the absolute paths, for tests.
CpuConditions ReadCpuConditions(const std::string& root = "");

}  // namespace thaw
