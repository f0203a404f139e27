// The loops of kernels/peak_rate.h on x86. Each may be called only where the CPU has the
// instructions that its file is compiled for; the rule of kernels/x86/avx2.h holds for all of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw::x86 {

// tdpbssd multiplies 16 rows of 64 bytes with 16 columns in 16 cycles, and its sums are there after
// 52: four sums keep the unit busy (Sapphire Rapids, Intel's optimization manual; not measured).
inline constexpr int kAmxProductsPerRound = 4;
int32_t RunPeakAmx(int64_t rounds);

// vpdpbusd takes up to 5 cycles and up to two start in each: 10 sums keep a core busy; 12 are even
// runs of 4 and leave room for the operands among 16 registers.
inline constexpr int kVnniVectorsPerRound = 12;
int32_t RunPeakAvx512Vnni(int64_t rounds);
int32_t RunPeakAvxVnni(int64_t rounds);

// Only the addition waits for the one before it, and takes one cycle; 8 sums, with the products
// under way, fill 16 registers.
inline constexpr int kAvx2VectorsPerRound = 8;
int32_t RunPeakAvx2(int64_t rounds);

// The sum of the words of `bytes` bytes, a multiple of kReadRunBytes.
inline constexpr size_t kReadRunBytes = 256;
uint64_t SumWordsAvx512(const std::byte* p, size_t bytes);
uint64_t SumWordsAvx2(const std::byte* p, size_t bytes);

}  // namespace thaw::x86
