#include "base/cpu_features.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace thaw {
namespace {

constexpr CpuFeatureName kFeatures[] = {
    {"avx2", &CpuFeatures::avx2},
    {"fma", &CpuFeatures::fma},
    {"f16c", &CpuFeatures::f16c},
    {"avx512f", &CpuFeatures::avx512f},
    {"avx512bw", &CpuFeatures::avx512bw},
    {"avx512vl", &CpuFeatures::avx512vl},
    {"avx512vnni", &CpuFeatures::avx512vnni},
    {"avx512vbmi", &CpuFeatures::avx512vbmi},
    {"avx512vbmi2", &CpuFeatures::avx512vbmi2},
    {"avx512bf16", &CpuFeatures::avx512bf16},
    {"avxvnni", &CpuFeatures::avxvnni},
    {"amx_int8", &CpuFeatures::amx_int8},
    {"amx_bf16", &CpuFeatures::amx_bf16},
    {"asimdhp", &CpuFeatures::asimdhp},
    {"asimddp", &CpuFeatures::asimddp},
    {"i8mm", &CpuFeatures::i8mm},
    {"bf16", &CpuFeatures::bf16},
    {"sve", &CpuFeatures::sve},
};

// Implementer and part number of common cores (MIDR_EL1, from the technical reference manuals).
struct ArmCore {
  uint32_t implementer;
  uint32_t part;
  const char* name;
};

constexpr ArmCore kArmCores[] = {
    {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},  {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},  {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"}, {0x41, 0xd0d, "Cortex-A77"},
    {0x41, 0xd40, "Neoverse V1"}, {0x41, 0xd41, "Cortex-A78"},  {0x41, 0xd44, "Cortex-X1"},
    {0x41, 0xd46, "Cortex-A510"}, {0x41, 0xd47, "Cortex-A710"}, {0x41, 0xd48, "Cortex-X2"},
    {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4a, "Neoverse E1"}, {0x41, 0xd4d, "Cortex-A715"},
    {0x41, 0xd4e, "Cortex-X3"},   {0x41, 0xd4f, "Neoverse V2"}, {0xc0, 0xac3, "Ampere-1"},
};

#if defined(__x86_64__)

struct CpuidRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool Bit(uint32_t word, int bit) { return (word >> bit) & 1; }

// XCR0: which register states the operating system saves (Intel SDM vol. 1, 13.3).
uint64_t SavedStates() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Asks the system for the tile registers. Linux lends them only to processes that have asked once,
// for all their threads (Documentation/arch/x86/xstate.rst), and refuses where a signal stack is
// too small for them.
bool MayUseTiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // the state component, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return true;
#endif
}

// The maker's name is spelt by three registers of leaf 0.
bool IsMadeByIntel(const CpuidRegisters& leaf0) {
  return leaf0.ebx == signature_INTEL_ebx && leaf0.edx == signature_INTEL_edx &&
         leaf0.ecx == signature_INTEL_ecx;
}

bool IsMadeByAmd(const CpuidRegisters& leaf0) {
  return leaf0.ebx == signature_AMD_ebx && leaf0.edx == signature_AMD_edx &&
         leaf0.ecx == signature_AMD_ecx;
}

// The family that leaf 1 tells: the base one, from 15 on with the extended one added to it.
int FamilyOf(const CpuidRegisters& leaf1) {
  const uint32_t base = leaf1.eax >> 8 & 0xf;
  return static_cast<int>(base < 0xf ? base : base + (leaf1.eax >> 20 & 0xff));
}

std::string BrandString() {
  std::array<uint32_t, 12> words{};
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004) return "";
  for (uint32_t i = 0; i < 3; ++i) {
    const CpuidRegisters r = Cpuid(0x80000002 + i, 0);
    words[4 * i] = r.eax;
    words[4 * i + 1] = r.ebx;
    words[4 * i + 2] = r.ecx;
    words[4 * i + 3] = r.edx;
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  std::string name(text.data());
  const auto first = name.find_first_not_of(' ');
  const auto last = name.find_last_not_of(' ');
  return first == std::string::npos ? "" : name.substr(first, last - first + 1);
}

CpuFeatures Detect() {
  CpuFeatures f;
  f.name = BrandString();
  const CpuidRegisters leaf0 = Cpuid(0, 0);
  const CpuidRegisters leaf1 = Cpuid(1, 0);
  f.is_intel = IsMadeByIntel(leaf0);
  if (IsMadeByAmd(leaf0)) f.amd_family = FamilyOf(leaf1);
  if (!Bit(leaf1.ecx, 27)) return f;  // no XGETBV: nothing beyond SSE is usable
  constexpr uint64_t kAvxStates = 0x6;
  constexpr uint64_t kAvx512States = 0xe6;
  constexpr uint64_t kAmxStates = 0x60000;
  const uint64_t saved = SavedStates();
  const bool avx = (saved & kAvxStates) == kAvxStates && Bit(leaf1.ecx, 28);
  const bool avx512 = avx && (saved & kAvx512States) == kAvx512States;
  const CpuidRegisters leaf7 = Cpuid(7, 0);
  const bool amx = (saved & kAmxStates) == kAmxStates && Bit(leaf7.edx, 24) && MayUseTiles();
  const CpuidRegisters leaf7_1 = leaf7.eax >= 1 ? Cpuid(7, 1) : CpuidRegisters{};
  f.avx2 = avx && Bit(leaf7.ebx, 5);
  f.fma = avx && Bit(leaf1.ecx, 12);
  f.f16c = avx && Bit(leaf1.ecx, 29);
  f.avx512f = avx512 && Bit(leaf7.ebx, 16);
  f.avx512bw = avx512 && Bit(leaf7.ebx, 30);
  f.avx512vl = avx512 && Bit(leaf7.ebx, 31);
  f.avx512vnni = avx512 && Bit(leaf7.ecx, 11);
  f.avx512vbmi = avx512 && Bit(leaf7.ecx, 1);
  f.avx512vbmi2 = avx512 && Bit(leaf7.ecx, 6);
  f.avx512bf16 = avx512 && Bit(leaf7_1.eax, 5);
  f.avxvnni = avx && Bit(leaf7_1.eax, 4);
  f.amx_bf16 = amx && Bit(leaf7.edx, 22);
  f.amx_int8 = amx && Bit(leaf7.edx, 25);
  return f;
}

#elif defined(__aarch64__)

// The system says here what it lets programs use (Linux: arch/arm64/elf_hwcaps.rst).
CpuFeatures Detect() {
  CpuFeatures f;
  const uint64_t first = getauxval(AT_HWCAP);
  const uint64_t second = getauxval(AT_HWCAP2);
  f.asimdhp = (first & HWCAP_ASIMDHP) != 0;
  f.asimddp = (first & HWCAP_ASIMDDP) != 0;
  f.sve = (first & HWCAP_SVE) != 0;
  f.i8mm = (second & HWCAP2_I8MM) != 0;
  f.bf16 = (second & HWCAP2_BF16) != 0;
  if ((first & HWCAP_CPUID) != 0) {
    uint64_t midr = 0;
    asm("mrs %0, MIDR_EL1" : "=r"(midr));
    f.name = NameOfArmCpu(midr);
  }
  return f;
}

#else

CpuFeatures Detect() { return {}; }

#endif

}  // namespace

std::vector<std::string> CpuFeatures::Names() const {
  std::vector<std::string> names;
  for (const CpuFeatureName& each : kFeatures) {
    if (this->*each.feature) names.emplace_back(each.name);
  }
  return names;
}

std::span<const CpuFeatureName> AllCpuFeatures() { return kFeatures; }

std::string NameOfArmCpu(uint64_t midr) {
  const auto implementer = static_cast<uint32_t>(midr >> 24 & 0xff);
  const auto part = static_cast<uint32_t>(midr >> 4 & 0xfff);
  for (const ArmCore& core : kArmCores) {
    if (core.implementer == implementer && core.part == part) return core.name;
  }
  return fmt::format("ARM, implementer {:#04x}, part {:#05x}", implementer, part);
}

const CpuFeatures& HostCpu() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace thaw
