// What the operating system knows about this process.
#pragma once

#include <cstdint>

namespace thaw {

// The largest resident set so far, in bytes (VmHWM of /proc/self/status, the figure that a test
// reads from outside); 0 where the system does not tell.
uint64_t PeakResidentBytes();

}  // namespace thaw
