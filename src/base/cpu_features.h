// What the CPU, and the operating system for it, can do: the choice of kernels rests on this.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace thaw {

// Those of all architectures; the ones of another are absent.
struct CpuFeatures {
  std::string name;  // as the CPU calls itself, or as its number is known; empty without either

  // x86-64
  bool is_intel = false;  // made by Intel: how memory is best read differs
  int amd_family = 0;     // of those made by AMD: 0x19 is Zen 3 and 4, 0x1a Zen 5
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512vnni = false;
  bool avx512vbmi = false;
  bool avx512vbmi2 = false;
  bool avx512bf16 = false;
  bool avxvnni = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;

  // 64-bit ARM, named as in /proc/cpuinfo
  bool asimdhp = false;  // arithmetic on half-precision numbers
  bool asimddp = false;  // dot products of int8
  bool i8mm = false;     // matrix products of int8
  bool bf16 = false;
  bool sve = false;

  // The names of the features that are there, in the order above.
  std::vector<std::string> Names() const;
};

struct CpuFeatureName {
  const char* name;
  bool CpuFeatures::*feature;
};

// Every feature, in the order of Names().
std::span<const CpuFeatureName> AllCpuFeatures();

// Read from the CPU at the first call, which also asks the system for the registers of AMX, for the
// whole process; a feature whose registers the system does not save or lend counts as absent.
// Thread safe.
const CpuFeatures& HostCpu();

// What a 64-bit ARM CPU is called whose register MIDR_EL1 is `midr`: "Neoverse N1", or its numbers
// where the name is not known.
std::string NameOfArmCpu(uint64_t midr);

}  // namespace thaw
