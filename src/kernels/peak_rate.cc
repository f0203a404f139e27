#include "kernels/peak_rate.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include "kernels/x86/peak_rate.h"
#elif defined(__aarch64__)
#include "kernels/arm/peak_rate.h"
#endif

namespace thaw {
namespace {

#if defined(__x86_64__)

// A multiplication and an addition for each byte of a vector.
constexpr int64_t OperationsOf(int64_t vector_bytes, int64_t vectors) {
  return 2 * vector_bytes * vectors;
}

constexpr Int8PeakLoop kLoops[] = {
    {.instruction = "tdpbssd of 16 x 64 bytes",
     .is_available = [](const CpuFeatures& cpu) { return cpu.amx_int8; },
     // As many vectors of 64 bytes as there are pairs of a row and a column.
     .operations_per_round = OperationsOf(64, int64_t{16} * 16 * x86::kAmxProductsPerRound),
     .run = x86::RunPeakAmx},
    {.instruction = "vpdpbusd of 512 bits",
     .is_available = [](const CpuFeatures& cpu) { return cpu.avx512f && cpu.avx512vnni; },
     .operations_per_round = OperationsOf(64, x86::kVnniVectorsPerRound),
     .run = x86::RunPeakAvx512Vnni},
    {.instruction = "vpdpbusd of 256 bits",
     .is_available = [](const CpuFeatures& cpu) { return cpu.avx2 && cpu.avxvnni; },
     .operations_per_round = OperationsOf(32, x86::kVnniVectorsPerRound),
     .run = x86::RunPeakAvxVnni},
    {.instruction = "vpmaddubsw, vpmaddwd and vpaddd of 256 bits",
     .is_available = [](const CpuFeatures& cpu) { return cpu.avx2; },
     .operations_per_round = OperationsOf(32, x86::kAvx2VectorsPerRound),
     .run = x86::RunPeakAvx2},
};

#elif defined(__aarch64__)

// A multiplication and an addition for each of 16 products, of 32 where two rows of eight meet two.
constexpr Int8PeakLoop kLoops[] = {
    {.instruction = "smmla of 128 bits",
     .is_available = [](const CpuFeatures& cpu) { return cpu.i8mm; },
     .operations_per_round = int64_t{2 * 32 * arm::kVectorsPerRound},
     .run = arm::RunPeakI8mm},
    {.instruction = "sdot of 128 bits",
     .is_available = [](const CpuFeatures& cpu) { return cpu.asimddp; },
     .operations_per_round = int64_t{2 * 16 * arm::kVectorsPerRound},
     .run = arm::RunPeakDotProd},
};

#endif

}  // namespace

std::span<const Int8PeakLoop> AllInt8PeakLoops() {
#if defined(__x86_64__) || defined(__aarch64__)
  return kLoops;
#else
  return {};
#endif
}

uint64_t SumWords(std::span<const std::byte> bytes, [[maybe_unused]] const CpuFeatures& cpu) {
  uint64_t sum = 0;
  size_t done = 0;
#if defined(__x86_64__)
  if (cpu.avx512f) {
    done = bytes.size() / x86::kReadRunBytes * x86::kReadRunBytes;
    sum = x86::SumWordsAvx512(bytes.data(), done);
  } else if (cpu.avx2) {
    done = bytes.size() / x86::kReadRunBytes * x86::kReadRunBytes;
    sum = x86::SumWordsAvx2(bytes.data(), done);
  }
#elif defined(__aarch64__)
  done = bytes.size() / arm::kReadRunBytes * arm::kReadRunBytes;
  sum = arm::SumWordsNeon(bytes.data(), done);
#endif
  for (; done + sizeof(uint64_t) <= bytes.size(); done += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, &bytes[done], sizeof(word));
    sum += word;
  }
  return sum;
}

const Int8PeakLoop* FindInt8PeakLoop(const CpuFeatures& cpu) {
  const std::span<const Int8PeakLoop> loops = AllInt8PeakLoops();
  const auto found =
      std::ranges::find_if(loops, [&](const Int8PeakLoop& l) { return l.is_available(cpu); });
  return found == loops.end() ? nullptr : &*found;
}

}  // namespace thaw
