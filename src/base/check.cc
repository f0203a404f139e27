#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace thaw {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "thaw: internal error: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace thaw
