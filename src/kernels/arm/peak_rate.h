// The loops of kernels/peak_rate.h on 64-bit ARM. Each of RunPeak may be called only where the CPU
// has the instruction that it is named for; the rule of kernels/x86/avx2.h holds for their files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw::arm {

// sdot and smmla take up to 4 cycles and up to four start in each: 16 sums keep a core busy and
// leave room for the operands among 32 registers.
inline constexpr int kVectorsPerRound = 16;
int32_t RunPeakDotProd(int64_t rounds);
int32_t RunPeakI8mm(int64_t rounds);

// The sum of the words of `bytes` bytes, a multiple of kReadRunBytes, by loads of 16 bytes.
inline constexpr size_t kReadRunBytes = 128;
uint64_t SumWordsNeon(const std::byte* p, size_t bytes);

}  // namespace thaw::arm
