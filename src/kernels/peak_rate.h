// The most that a core can do of the two things that bound products of quantized weights: int8
// arithmetic, by loops of nothing but the instruction that multiplies int8 numbers and adds the
// products into int32 sums, and reading memory, by the widest loads.
//
// A loop keeps its operands and its sums in registers and has as many independent sums as it takes
// to hide the latency of the instruction, so what it does in a second is the roof over every
// product of quantized weights that is made of the same instruction. Products by tiles of AMX stay
// far below theirs: what they do with the sums takes longer than the sums.
//
// Pure functions without memory; they may run on any thread. Which loop a CPU may run is asked for
// as with kernels/kernel_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_features.h"

namespace thaw {

struct Int8PeakLoop {
  const char* instruction;  // "vpdpbusd of 512 bits"
  bool (*is_available)(const CpuFeatures& cpu);
  int64_t operations_per_round;  // multiplications and additions of int8 numbers

  // Does `rounds` of them. The result is of no use but to be taken, so that nothing is left out.
  int32_t (*run)(int64_t rounds);
};

// Every loop in this build, best first, whether this CPU can run it or not.
std::span<const Int8PeakLoop> AllInt8PeakLoops();

// The best one that the CPU runs; nullptr where it has no such instruction.
const Int8PeakLoop* FindInt8PeakLoop(const CpuFeatures& cpu);

// The sum of the 64-bit words of `bytes`, modulo 2^64; bytes behind the last whole word do not
// count. It is there to read all of them, by the widest loads that the CPU has: with narrow ones a
// core asks for fewer lines at a time, and reads up to a third slower. Lines are asked for ahead
// where kernels do so in turn (lines_in_turn.h).
uint64_t SumWords(std::span<const std::byte> bytes, const CpuFeatures& cpu);

}  // namespace thaw
