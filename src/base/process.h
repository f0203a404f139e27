// What the operating system knows about the memory and the CPU time of this process, and how to
// give memory back.
#pragma once

#include <cstdint>

namespace thaw {

// The largest resident set so far, in bytes (VmHWM of /proc/self/status, the figure that a test
// reads from outside); 0 where the system does not tell.
uint64_t PeakResidentBytes();

// The resident set now, in bytes; 0 where the system does not tell. Counted page by page (Rss of
// /proc/self/smaps_rollup), because the running count of the kernel (VmRSS) lags, by up to 128 KiB
// for each core; that one is taken where there is no other. The count walks the page tables.
uint64_t ResidentBytes();

// CPU time of all threads of this process so far, in user and kernel mode.
double ProcessCpuSeconds();

// Gives the memory that was freed, and that the C library keeps for later, back to the system, as
// far as whole pages of it are free. Does nothing with C libraries that have no such call.
void ReturnFreedMemory();

}  // namespace thaw
