#include "base/process.h"

#include <sys/resource.h>

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

double ProcessCpuSeconds() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace thaw
