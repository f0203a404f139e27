#include "kernels/peak_rate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace thaw {
namespace {

// Sum i begins with i in each lane; each int8 product that a lane adds is 3 * -2: 64 of them of a
// tile, eight of a matrix of ARM, four of a vector.
int32_t ExpectedSum(const Int8PeakLoop& loop, int64_t rounds) {
  const std::string_view instruction = loop.instruction;
  const int64_t products = instruction.starts_with("tdp")     ? 64
                           : instruction.starts_with("smmla") ? 8
                                                              : 4;
  const int64_t lanes = instruction.starts_with("tdp")      ? 16 * 16
                        : instruction.ends_with("512 bits") ? 16
                        : instruction.ends_with("256 bits") ? 8
                                                            : 4;
  const int64_t sums = loop.operations_per_round / (2 * lanes * products);
  return static_cast<int32_t>(sums * (sums - 1) / 2 - sums * rounds * products * 6);
}

TEST(Int8PeakLoops, MultiplyAndAddAsOftenAsTheySay) {
  for (const Int8PeakLoop& loop : AllInt8PeakLoops()) {
    if (!loop.is_available(HostCpu())) {
      GTEST_LOG_(INFO) << "SKIP: this CPU has no " << loop.instruction;
      continue;
    }
    for (const int64_t rounds : {0, 1, 1000}) {
      EXPECT_EQ(loop.run(rounds), ExpectedSum(loop, rounds)) << loop.instruction;
    }
  }
}

TEST(SumWords, CountsEveryWholeWordOnceWithEveryWidthOfLoads) {
  std::vector<std::byte> bytes(2000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  CpuFeatures only_avx2;
  only_avx2.avx2 = HostCpu().avx2;
  for (const size_t size : {0, 7, 8, 255, 256, 264, 1024, 1999}) {
    const std::span<const std::byte> part(bytes.data() + 1, size);
    uint64_t expected = 0;
    for (size_t at = 0; at + 8 <= size; at += 8) {
      uint64_t word;
      std::memcpy(&word, &part[at], sizeof(word));
      expected += word;
    }
    for (const CpuFeatures& cpu : {CpuFeatures{}, only_avx2, HostCpu()}) {
      EXPECT_EQ(SumWords(part, cpu), expected) << size;
    }
  }
}

TEST(Int8PeakLoops, AreNotForCpusWithoutTheInstruction) {
  EXPECT_EQ(FindInt8PeakLoop(CpuFeatures{}), nullptr);
  for (const Int8PeakLoop& loop : AllInt8PeakLoops()) {
    EXPECT_FALSE(loop.is_available(CpuFeatures{})) << loop.instruction;
  }
}

#if defined(__x86_64__)
TEST(Int8PeakLoops, TheFirstThatTheCpuHasIsTaken) {
  CpuFeatures cpu;
  cpu.avx2 = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpmaddubsw, vpmaddwd and vpaddd of 256 bits");
  cpu.avxvnni = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpdpbusd of 256 bits");
  cpu.avx512f = cpu.avx512vnni = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpdpbusd of 512 bits");
  cpu.amx_int8 = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "tdpbssd of 16 x 64 bytes");
}
#elif defined(__aarch64__)
TEST(Int8PeakLoops, TheFirstThatTheCpuHasIsTaken) {
  CpuFeatures cpu;
  cpu.asimddp = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "sdot of 128 bits");
  cpu.i8mm = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "smmla of 128 bits");
}
#endif

}  // namespace
}  // namespace thaw
