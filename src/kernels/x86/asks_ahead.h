// Whether kernels ask memory for the weights of single tokens well before they are used, by a
// constant of the machine. Intel's hardware prefetching alone left decode at 57 % of the rate of
// memory (Q4_0), asked ahead it reached 80 %; on Zen 4 asking cost a fifth. Measured:
// docs/decisions/0016-memory-ahead.md.
#pragma once

namespace thaw::x86 {

extern const bool kAsksAhead;

}  // namespace thaw::x86
