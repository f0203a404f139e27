// Whether kernels ask memory for all weights well before they are used, by constants of the
// machine. Where they do not, only what needs it is asked for, into L2. The hardware's prefetching
// alone left decode of Q4_0 at 57 % of the rate of memory on Intel; on a Zen 5 prototypes read Q4_K
// at 95 to 100 % of it, and at 52 to 67 % when nothing was asked; on a Zen 4 asking for all cost a
// tenth and more. docs/decisions/0016-memory-ahead.md
#pragma once

namespace thaw::x86 {

// Into L1.
extern const bool kAsksAhead;

// Whether quantized weights, and the keys and values of a token, are all asked for into L2, where
// kAsksAhead is not: on AMD's CPUs before the Zen 4, those without AVX-512 (0006, 0016).
extern const bool kAsksAheadIntoL2;

// Whether they are asked for in turn with those of other pages (kernels/lines_in_turn.h) where a
// stream of memory is read alone: on Intel's CPUs, which kAsksAhead holds for, too.
extern const bool kAsksInTurn;

}  // namespace thaw::x86
