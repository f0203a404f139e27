#include "base/process.h"

#include <cstdio>
#include <memory>

namespace thaw {

uint64_t PeakResidentBytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "r"),
                                                             &std::fclose);
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu kB", &kib) == 1) return uint64_t{kib} * 1024;
  }
  return 0;
}

}  // namespace thaw
