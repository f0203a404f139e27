// What the CPU, and the operating system for it, can do: the choice of kernels rests on this.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace thaw {

struct CpuFeatures {
  std::string name;  // as the CPU calls itself; empty where it does not

  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512vnni = false;
  bool avx512vbmi2 = false;
  bool avx512bf16 = false;
  bool avxvnni = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;

  // The names of the features that are there, in the order above.
  std::vector<std::string> Names() const;
};

struct CpuFeatureName {
  const char* name;
  bool CpuFeatures::*feature;
};

// Every feature, in the order of Names().
std::span<const CpuFeatureName> AllCpuFeatures();

// Read from the CPU at the first call; a feature whose registers the system does not save counts as
// absent. Thread safe.
const CpuFeatures& HostCpu();

}  // namespace thaw
