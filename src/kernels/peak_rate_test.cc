#include "kernels/peak_rate.h"

#include <gtest/gtest.h>

#include <string_view>

namespace thaw {
namespace {

// Each of the four int8 products of a lane of sum i, which begins with i, is 3 * -2.
int32_t ExpectedSum(const Int8PeakLoop& loop, int64_t rounds) {
  const bool is_wide = std::string_view(loop.instruction).find("512") != std::string_view::npos;
  const int64_t sums = loop.operations_per_round / (2 * (is_wide ? 64 : 32));
  return static_cast<int32_t>(sums * (sums - 1) / 2 - sums * rounds * 4 * 6);
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

TEST(Int8PeakLoops, AreNotForCpusWithoutTheInstruction) {
  EXPECT_EQ(FindInt8PeakLoop(CpuFeatures{}), nullptr);
  for (const Int8PeakLoop& loop : AllInt8PeakLoops()) {
    EXPECT_FALSE(loop.is_available(CpuFeatures{})) << loop.instruction;
  }
}

TEST(Int8PeakLoops, TheFirstThatTheCpuHasIsTaken) {
  if (AllInt8PeakLoops().empty()) GTEST_SKIP() << "this build has none";
  CpuFeatures cpu;
  cpu.avx2 = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpmaddubsw, vpmaddwd and vpaddd of 256 bits");
  cpu.avxvnni = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpdpbusd of 256 bits");
  cpu.avx512f = cpu.avx512vnni = true;
  EXPECT_STREQ(FindInt8PeakLoop(cpu)->instruction, "vpdpbusd of 512 bits");
}

}  // namespace
}  // namespace thaw
