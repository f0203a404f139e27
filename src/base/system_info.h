// What the machine, and the container around this process, leave it to work with.
//
// Read from /proc and /sys at each call, some ten small files; nothing is kept. Figures that the
// system does not give are absent, never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace thaw {

struct SystemInfo {
  std::optional<uint64_t> memory_total;      // bytes of the machine (MemTotal)
  std::optional<uint64_t> memory_available;  // without swapping, as the kernel estimates it

  // The tightest memory limit among the process's cgroup and those above it, version 1 or 2, and
  // what that cgroup uses, page cache included; that part, which the system takes back when it is
  // needed. Absent where there is no limit.
  std::optional<uint64_t> cgroup_limit;
  std::optional<uint64_t> cgroup_used;
  std::optional<uint64_t> cgroup_page_cache;

  // Bytes of the largest cache that the first CPU has, its own or shared.
  std::optional<uint64_t> last_level_cache;

  // "always", "madvise" or "never": who gets huge pages. Empty where the kernel has none.
  std::string huge_pages;
};

// `root` is put before the absolute paths, for tests.
SystemInfo ReadSystemInfo(const std::string& root = "");

}  // namespace thaw
