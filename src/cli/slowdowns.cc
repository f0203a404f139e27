#include "cli/slowdowns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace thaw::cli {
namespace {

// Of a CPU: what else runs on a machine at rest, and twice what counting in ticks of 10 ms may be
// off by in half a second on two CPUs.
constexpr double kUnnoticedCpus = 0.1;

// An average over a minute still holds some of what ended before.
constexpr double kUnnoticedLoad = 0.5;

// Of the time at best: what a fixed loop varies by on cores that nothing disturbs is some 1 % in
// the middle; single ones are interrupted by the system itself.
constexpr double kUnnoticedMedianExcess = 0.1;
constexpr double kUnnoticedP90Excess = 0.25;

// Of the highest frequency: boost frequencies are for one core alone, all together run some 10 to
// 20 % below it.
constexpr double kLowFrequency = 0.75;

// Of a limit of memory: above it the system begins to take page cache and code back.
constexpr double kNearLimit = 0.9;

using Sentences = std::vector<std::string>;

template <typename... Args>
void Say(Sentences& all, fmt::format_string<Args...> format, Args&&... args) {
  all.push_back(fmt::format(format, std::forward<Args>(args)...));
}

std::optional<double> Difference(const std::optional<double>& before,
                                 const std::optional<double>& after) {
  if (!before || !after) return std::nullopt;
  return std::max(0.0, *after - *before);
}

void FindMemorySlowdowns(const SystemInfo& system, Sentences& all) {
  if (system.huge_pages != "always" && system.huge_pages != "madvise") {
    Say(all, "huge pages are {}: reading weights from the disk takes up to three times as long",
        system.huge_pages.empty() ? "not there" : "off (" + system.huge_pages + ")");
  }
  if (system.cgroup_limit && system.cgroup_used) {
    const uint64_t cache = std::min(system.cgroup_page_cache.value_or(0), *system.cgroup_used);
    const uint64_t used = *system.cgroup_used - cache;
    if (static_cast<double>(used) > kNearLimit * static_cast<double>(*system.cgroup_limit)) {
      Say(all, "the cgroup's memory limit is near: {} of {} are used, page cache apart",
          FormatBytes(used), FormatBytes(*system.cgroup_limit));
    }
  }
  if (system.memory_total && system.memory_available &&
      static_cast<double>(*system.memory_available) <
          (1 - kNearLimit) * static_cast<double>(*system.memory_total)) {
    Say(all, "memory is nearly used up: {} of {} are available",
        FormatBytes(*system.memory_available), FormatBytes(*system.memory_total));
  }
}

void FindThreadSlowdowns(const MachineState& state, Sentences& all) {
  const CpuConditions& cpu = state.before;
  if (cpu.allowed_cpus && state.threads > *cpu.allowed_cpus) {
    Say(all, "{} threads on {} CPUs wait for each other: -t {}", state.threads, *cpu.allowed_cpus,
        *cpu.allowed_cpus);
  } else if (cpu.allowed_cores && state.threads > *cpu.allowed_cores) {
    Say(all, "{} threads on {} cores: some share one core's arithmetic; compare with -t {}",
        state.threads, *cpu.allowed_cores, *cpu.allowed_cores);
  }
  if (cpu.quota_cpus && *cpu.quota_cpus < state.threads) {
    Say(all, "the cgroup's CPU quota is {:.2f} CPUs for {} threads, which it stops in turn: -t {}",
        *cpu.quota_cpus, state.threads, std::max(1, static_cast<int>(*cpu.quota_cpus)));
  }
  const auto throttled =
      Difference(cpu.quota_throttled_seconds, state.after.quota_throttled_seconds);
  if (throttled && *throttled > 0) {
    Say(all, "the cgroup's CPU quota stopped it for {:.0f} ms in the {:.0f} ms of measuring",
        1e3 * *throttled, 1e3 * state.wall_seconds);
  }
}

// Whether what others use leaves less than a CPU for each thread, as far as there are so many.
bool Crowded(double others, int threads, const std::optional<int>& cpus, double unnoticed) {
  return cpus && others + std::min(threads, *cpus) > *cpus + unnoticed;
}

void FindNeighbours(const MachineState& state, Sentences& all) {
  const CpuConditions& cpu = state.before;
  if (const auto stolen = CpusStolen(state); stolen && *stolen > kUnnoticedCpus) {
    Say(all, "the hypervisor gave {:.2f} of the {} CPUs to others in the {:.0f} ms of measuring",
        *stolen, cpu.allowed_cpus.value_or(1), 1e3 * state.wall_seconds);
  }
  const auto others = CpusOfOthers(state);
  if (others && Crowded(*others, state.threads, cpu.allowed_cpus, kUnnoticedCpus)) {
    Say(all, "other programs used {:.2f} of the {} CPUs in the {:.0f} ms of measuring", *others,
        *cpu.allowed_cpus, 1e3 * state.wall_seconds);
  }
  if (cpu.load_average &&
      Crowded(*cpu.load_average, state.threads, cpu.machine_cpus, kUnnoticedLoad)) {
    Say(all, "the load average of the last minute is {:.2f}, before the {} threads on {} CPUs",
        *cpu.load_average, state.threads, *cpu.machine_cpus);
  }
  if (state.loop && (state.loop->median_excess > kUnnoticedMedianExcess ||
                     state.loop->p90_excess > kUnnoticedP90Excess)) {
    Say(all,
        "cores were shared or slowed down: a fixed loop took {:.0f} % longer than at best half of "
        "the time, {:.0f} % one time in ten",
        100 * state.loop->median_excess, 100 * state.loop->p90_excess);
  }
}

void FindThrottling(const MachineState& state, Sentences& all) {
  const CpuConditions& cpu = state.after;
  if (cpu.frequency_hz && cpu.highest_frequency_hz &&
      *cpu.frequency_hz < kLowFrequency * *cpu.highest_frequency_hz) {
    Say(all, "a CPU runs at {:.2f} GHz of {:.2f} after computing{}", *cpu.frequency_hz / 1e9,
        *cpu.highest_frequency_hz / 1e9,
        cpu.frequency_governor.empty() ? "" : " (governor " + cpu.frequency_governor + ")");
  }
  if (cpu.thermal_throttles && state.before.thermal_throttles &&
      *cpu.thermal_throttles > *state.before.thermal_throttles) {
    Say(all, "cores slowed themselves down for heat {} times in the {:.0f} ms of measuring",
        *cpu.thermal_throttles - *state.before.thermal_throttles, 1e3 * state.wall_seconds);
  }
}

}  // namespace

std::optional<double> CpusOfOthers(const MachineState& state) {
  const auto busy = Difference(state.before.busy_seconds, state.after.busy_seconds);
  if (!busy || state.wall_seconds <= 0) return std::nullopt;
  return std::max(0.0, *busy - state.cpu_seconds) / state.wall_seconds;
}

std::optional<double> CpusStolen(const MachineState& state) {
  const auto stolen = Difference(state.before.steal_seconds, state.after.steal_seconds);
  if (!stolen || state.wall_seconds <= 0) return std::nullopt;
  return *stolen / state.wall_seconds;
}

std::vector<std::string> FindSlowdowns(const MachineState& state) {
  Sentences all;
  FindMemorySlowdowns(state.system, all);
  if (!state.uring_problem.empty()) {
    Say(all, "{}: weights are read by threads instead", state.uring_problem);
  }
  FindThreadSlowdowns(state, all);
  FindNeighbours(state, all);
  FindThrottling(state, all);
  return all;
}

}  // namespace thaw::cli
