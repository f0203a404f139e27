#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thaw {
namespace {

#if defined(__x86_64__)
TEST(HostCpu, AgreesWithTheCompilersOwnDetection) {
  EXPECT_EQ(HostCpu().avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(HostCpu().fma, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(HostCpu().avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(HostCpu().avx512vnni, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(HostCpu().avx512vbmi, __builtin_cpu_supports("avx512vbmi") != 0);
  EXPECT_EQ(HostCpu().avx512vbmi2, __builtin_cpu_supports("avx512vbmi2") != 0);
  EXPECT_EQ(HostCpu().is_intel, __builtin_cpu_is("intel") != 0);
  EXPECT_EQ(HostCpu().amd_family != 0, __builtin_cpu_is("amd") != 0);
  EXPECT_EQ(HostCpu().amd_family == 0x17, __builtin_cpu_is("amdfam17h") != 0);
  EXPECT_EQ(HostCpu().amd_family == 0x19, __builtin_cpu_is("amdfam19h") != 0);
}
#elif defined(__aarch64__)
TEST(HostCpu, HasANameAndNothingOfAnotherArchitecture) {
  EXPECT_NE(HostCpu().name, "");
  EXPECT_FALSE(HostCpu().avx2);
  EXPECT_FALSE(HostCpu().avxvnni);
}
#endif

TEST(NameOfArmCpu, IsThatOfTheCoreOrItsNumbers) {
  EXPECT_EQ(NameOfArmCpu(0x413fd0c1), "Neoverse N1");
  EXPECT_EQ(NameOfArmCpu(0x410fd083), "Cortex-A72");
  EXPECT_EQ(NameOfArmCpu(0x611f0220), "ARM, implementer 0x61, part 0x022");
}

TEST(CpuFeatures, NamesListWhatIsThere) {
  CpuFeatures features;
  EXPECT_TRUE(features.Names().empty());
  features.avx2 = true;
  features.amx_int8 = true;
  EXPECT_EQ(features.Names(), (std::vector<std::string>{"avx2", "amx_int8"}));
}

TEST(AllCpuFeatures, AreThoseThatHaveNames) {
  CpuFeatures features;
  for (const auto& [name, feature] : AllCpuFeatures()) features.*feature = true;
  std::vector<std::string> names;
  for (const auto& [name, feature] : AllCpuFeatures()) names.emplace_back(name);
  EXPECT_EQ(features.Names(), names);
}

}  // namespace
}  // namespace thaw
