#include "base/system_info.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace thaw {
namespace {

// A version 1 cgroup without a limit says so by a number near 2^63; no machine has this much.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// Empty when there is no such file.
std::string ReadSmallFile(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  return std::move(text).str();
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// The figure of a line such as "MemTotal:  24033188 kB", in bytes.
std::optional<uint64_t> MemInfoBytes(const std::string& meminfo, std::string_view name) {
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const size_t digit = line.find_first_of("0123456789");
    if (digit == std::string::npos) return std::nullopt;
    if (const auto kib = ParseNumber(std::string_view(line).substr(digit))) return *kib * 1024;
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
    const auto bytes = ParseNumber(std::string_view(line).substr(space + 1));
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

struct CgroupFiles {
  std::string mount;  // folder of the hierarchy's root
  std::string limit_name;
  std::string usage_name;
};

// Visits the cgroup at `path` and those above it, and keeps the tightest limit.
void ReadCgroupLimits(const CgroupFiles& files, std::string path, SystemInfo& info) {
  for (;;) {
    const std::string folder = files.mount + path + (path.ends_with('/') ? "" : "/");
    const auto limit = ParseNumber(ReadSmallFile(folder + files.limit_name));  // none for "max"
    if (limit && *limit < kNoLimit && (!info.cgroup_limit || *limit < *info.cgroup_limit)) {
      info.cgroup_limit = limit;
      info.cgroup_used = ParseNumber(ReadSmallFile(folder + files.usage_name));
      info.cgroup_page_cache = PageCacheBytes(ReadSmallFile(folder + "memory.stat"));
    }
    if (path.size() <= 1) return;
    path.resize(path.find_last_of('/'));
  }
}

bool HasWord(std::string_view comma_separated, std::string_view word) {
  std::istringstream words{std::string(comma_separated)};
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// Lines of /proc/self/cgroup read "hierarchy:controllers:path"; version 2 has no controllers there.
void ReadCgroup(const std::string& root, SystemInfo& info) {
  const CgroupFiles unified = {root + "/sys/fs/cgroup", "memory.max", "memory.current"};
  const CgroupFiles version1 = {root + "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes"};
  std::istringstream lines(ReadSmallFile(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) ReadCgroupLimits(unified, path, info);
    if (HasWord(controllers, "memory")) ReadCgroupLimits(version1, path, info);
  }
}

}  // namespace

SystemInfo ReadSystemInfo(const std::string& root) {
  SystemInfo info;
  const std::string meminfo = ReadSmallFile(root + "/proc/meminfo");
  info.memory_total = MemInfoBytes(meminfo, "MemTotal");
  info.memory_available = MemInfoBytes(meminfo, "MemAvailable");
  info.huge_pages = ChosenWord(ReadSmallFile(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  ReadCgroup(root, info);
  return info;
}

}  // namespace thaw
