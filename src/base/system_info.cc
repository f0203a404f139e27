#include "base/system_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "base/small_files.h"

namespace thaw {
namespace {

// A version 1 cgroup without a limit says so by a number near 2^63; no machine has this much.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// The figure of a line such as "MemTotal:  24033188 kB", in bytes.
std::optional<uint64_t> MemInfoBytes(const std::string& meminfo, std::string_view name) {
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t digit = line.find_first_of("0123456789");
    if (digit == std::string::npos) return std::nullopt;
    if (const auto kib = LeadingNumber(std::string_view(line).substr(digit))) return *kib * 1024;
  }
  return std::nullopt;
}

// The sum of the page-cache figures of a cgroup's memory.stat, whose lines read "inactive_file
// 4096". Version 1 has each figure twice, the one that begins with "total_" counting the groups
// below, as version 2 does.
std::optional<uint64_t> PageCacheBytes(const std::string& memory_stat) {
  std::istringstream lines(memory_stat);
  std::optional<uint64_t> own;
  std::optional<uint64_t> total;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    std::string_view name(line.data(), space);
    const bool is_total = name.starts_with("total_");
    if (is_total) name.remove_prefix(6);
    if (name != "inactive_file" && name != "active_file") continue;
    const auto bytes = LeadingNumber(std::string_view(line).substr(space + 1));
    if (bytes) (is_total ? total : own) = (is_total ? total : own).value_or(0) + *bytes;
  }
  return total ? total : own;
}

// The word in brackets of "always [madvise] never".
std::string ChosenWord(std::string_view words) {
  const size_t open = words.find('[');
  const size_t close = words.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return "";
  return std::string(words.substr(open + 1, close - open - 1));
}

// Sizes read "32768K", in one folder for each cache.
std::optional<uint64_t> LastLevelCacheBytes(const std::string& root) {
  std::optional<uint64_t> largest;
  for (int index = 0;; ++index) {
    const auto kib = LeadingNumber(ReadSmallFile(
        fmt::format("{}/sys/devices/system/cpu/cpu0/cache/index{}/size", root, index)));
    if (!kib) return largest;
    largest = std::max(largest.value_or(0), *kib * 1024);
  }
}

void ReadCgroup(const std::string& root, SystemInfo& info) {
  VisitCgroupFolders(root, "memory", [&](const std::string& folder, bool is_version1) {
    const std::string limit_name = is_version1 ? "memory.limit_in_bytes" : "memory.max";
    const std::string usage_name = is_version1 ? "memory.usage_in_bytes" : "memory.current";
    const auto limit = LeadingNumber(ReadSmallFile(folder + limit_name));  // none for "max"
    if (limit && *limit < kNoLimit && (!info.cgroup_limit || *limit < *info.cgroup_limit)) {
      info.cgroup_limit = limit;
      info.cgroup_used = LeadingNumber(ReadSmallFile(folder + usage_name));
      info.cgroup_page_cache = PageCacheBytes(ReadSmallFile(folder + "memory.stat"));
    }
  });
}

}  // namespace

SystemInfo ReadSystemInfo(const std::string& root) {
  SystemInfo info;
  const std::string meminfo = ReadSmallFile(root + "/proc/meminfo");
  info.memory_total = MemInfoBytes(meminfo, "MemTotal");
  info.memory_available = MemInfoBytes(meminfo, "MemAvailable");
  info.huge_pages = ChosenWord(ReadSmallFile(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  info.last_level_cache = LastLevelCacheBytes(root);
  ReadCgroup(root, info);
  return info;
}

}  // namespace thaw
