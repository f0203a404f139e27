#include "base/cpu_conditions.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/small_files.h"

namespace thaw {
namespace {

// The CPUs of a list such as "0-3,8".
std::vector<int> ParseCpuList(const std::string& text) {
  // Far more than any machine has, so that a list that makes no sense takes no memory.
  constexpr uint64_t kMostCpus = 1 << 16;
  std::vector<int> cpus;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto first = LeadingNumber(range);
    if (!first) return {};
    const size_t dash = range.find('-');
    const auto last = dash == std::string::npos ? first : LeadingNumber(range.substr(dash + 1));
    if (!last || *last < *first || *last >= kMostCpus) return {};
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> AllowedCpus(const std::string& root) {
  constexpr std::string_view kName = "Cpus_allowed_list:";
  std::istringstream lines(ReadSmallFile(root + "/proc/self/status"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    const size_t digit = line.find_first_of("0123456789", kName.size());
    return digit == std::string::npos ? std::vector<int>{} : ParseCpuList(line.substr(digit));
  }
  return {};
}

std::string CpuFolder(const std::string& root, int cpu) {
  return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

void ReadCores(const std::string& root, const std::vector<int>& cpus, CpuConditions& conditions) {
  std::set<std::string> cores;  // each as the list of its CPUs
  for (const int cpu : cpus) {
    std::string siblings = ReadSmallFile(CpuFolder(root, cpu) + "topology/thread_siblings_list");
    if (siblings.empty()) return;
    cores.insert(std::move(siblings));
  }
  if (!cores.empty()) conditions.allowed_cores = static_cast<int>(cores.size());
}

// cpu.max of version 2 reads "200000 100000": time in each period, in us, or "max". Version 1 has
// two files, the first with -1 for none.
std::optional<double> QuotaOf(const std::string& folder, bool is_version1) {
  std::string quota_text = ReadSmallFile(folder + (is_version1 ? "cpu.cfs_quota_us" : "cpu.max"));
  const size_t space = quota_text.find(' ');
  const std::string period_text = is_version1 ? ReadSmallFile(folder + "cpu.cfs_period_us")
                                  : space == std::string::npos ? ""
                                                               : quota_text.substr(space + 1);
  const auto quota = LeadingNumber(quota_text);
  const auto period = LeadingNumber(period_text);
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void ReadQuota(const std::string& root, CpuConditions& conditions) {
  VisitCgroupFolders(root, "cpu", [&](const std::string& folder, bool is_version1) {
    const auto quota = QuotaOf(folder, is_version1);
    if (!quota || (conditions.quota_cpus && *conditions.quota_cpus <= *quota)) return;
    conditions.quota_cpus = quota;
    const std::string statistics = ReadSmallFile(folder + "cpu.stat");
    const auto throttled =
        NumberOfLine(statistics, is_version1 ? "throttled_time" : "throttled_usec");
    conditions.quota_throttled_seconds.reset();
    if (throttled) {
      conditions.quota_throttled_seconds =
          static_cast<double>(*throttled) * (is_version1 ? 1e-9 : 1e-6);
    }
  });
}

// Lines of /proc/stat read "cpu3 user nice system idle iowait irq softirq steal ...", in ticks.
void ReadTimes(const std::string& root, const std::vector<int>& cpus, CpuConditions& conditions) {
  enum Column { kUser, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal, kColumns };
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  double busy = 0;
  double steal = 0;
  int found = 0;
  int machine_cpus = 0;
  std::istringstream lines(ReadSmallFile(root + "/proc/stat"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cpu")) continue;
    const auto cpu = LeadingNumber(std::string_view(line).substr(3));
    if (!cpu) continue;  // the sum of all
    ++machine_cpus;
    if (std::ranges::find(cpus, static_cast<int>(*cpu)) == cpus.end()) continue;
    std::istringstream words(line.substr(line.find(' ')));
    double ticks[kColumns] = {};
    for (double& column : ticks) words >> column;
    if (!words) continue;
    ++found;
    for (const Column c : {kUser, kNice, kSystem, kIrq, kSoftIrq}) busy += ticks[c];
    steal += ticks[kSteal];
  }
  if (machine_cpus > 0) conditions.machine_cpus = machine_cpus;
  if (found == 0) return;
  conditions.busy_seconds = busy / ticks_per_second;
  conditions.steal_seconds = steal / ticks_per_second;
}

void ReadFrequencies(const std::string& root, const std::vector<int>& cpus,
                     CpuConditions& conditions) {
  double least_share = 0;
  for (const int cpu : cpus) {
    const std::string folder = CpuFolder(root, cpu) + "cpufreq/";
    const auto now = LeadingNumber(ReadSmallFile(folder + "scaling_cur_freq"));  // in kHz
    const auto highest = LeadingNumber(ReadSmallFile(folder + "cpuinfo_max_freq"));
    if (!now || !highest || *highest == 0) continue;
    const double share = static_cast<double>(*now) / static_cast<double>(*highest);
    if (conditions.frequency_hz && share >= least_share) continue;
    least_share = share;
    conditions.frequency_hz = 1e3 * static_cast<double>(*now);
    conditions.highest_frequency_hz = 1e3 * static_cast<double>(*highest);
    std::string governor = ReadSmallFile(folder + "scaling_governor");
    conditions.frequency_governor = governor.substr(0, governor.find('\n'));
  }
}

void ReadThermalThrottles(const std::string& root, const std::vector<int>& cpus,
                          CpuConditions& conditions) {
  for (const int cpu : cpus) {
    const auto count =
        LeadingNumber(ReadSmallFile(CpuFolder(root, cpu) + "thermal_throttle/core_throttle_count"));
    if (count) conditions.thermal_throttles = conditions.thermal_throttles.value_or(0) + *count;
  }
}

}  // namespace

CpuConditions ReadCpuConditions(const std::string& root) {
  CpuConditions conditions;
  const std::vector<int> cpus = AllowedCpus(root);
  if (!cpus.empty()) conditions.allowed_cpus = static_cast<int>(cpus.size());
  ReadCores(root, cpus, conditions);
  ReadQuota(root, conditions);
  ReadTimes(root, cpus, conditions);
  ReadFrequencies(root, cpus, conditions);
  ReadThermalThrottles(root, cpus, conditions);
  double load = 0;
  std::istringstream load_text(ReadSmallFile(root + "/proc/loadavg"));
  if (load_text >> load) conditions.load_average = load;
  return conditions;
}

}  // namespace thaw
