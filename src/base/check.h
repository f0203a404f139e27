// THAW_CHECK: programmer errors stop the program, in every build.
//
// Only for conditions that our own code guarantees. Anything that a file, a user or the operating
// system can cause is an operating error and travels as a Result (base/result.h).
#pragma once

namespace thaw {

// Prints the place and the condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace thaw

#define THAW_CHECK(condition)                              \
  do {                                                     \
    if (!(condition)) [[unlikely]]                         \
      ::thaw::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
