#include "base/process.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace thaw {
namespace {

// The number after `name` ("VmHWM:") in a table of /proc whose unit is kB, in bytes; 0 when the
// file or the line is missing.
uint64_t ReadBytes(const char* path, std::string_view name) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "r"), &std::fclose);
  if (file == nullptr) return 0;
  char line[256];
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    if (!std::string_view(line).starts_with(name)) continue;
    return uint64_t{std::strtoull(line + name.size(), nullptr, 10)} * 1024;
  }
  return 0;
}

}  // namespace

uint64_t PeakResidentBytes() { return ReadBytes("/proc/self/status", "VmHWM:"); }

uint64_t ResidentBytes() {
  const uint64_t counted = ReadBytes("/proc/self/smaps_rollup", "Rss:");
  return counted != 0 ? counted : ReadBytes("/proc/self/status", "VmRSS:");
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace thaw
