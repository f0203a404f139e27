#include "base/cpu_features.h"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
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
    {"avx512vbmi2", &CpuFeatures::avx512vbmi2},
    {"avx512bf16", &CpuFeatures::avx512bf16},
    {"avxvnni", &CpuFeatures::avxvnni},
    {"amx_int8", &CpuFeatures::amx_int8},
    {"amx_bf16", &CpuFeatures::amx_bf16},
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
  const CpuidRegisters leaf1 = Cpuid(1, 0);
  if (!Bit(leaf1.ecx, 27)) return f;  // no XGETBV: nothing beyond SSE is usable
  constexpr uint64_t kAvxStates = 0x6;
  constexpr uint64_t kAvx512States = 0xe6;
  constexpr uint64_t kAmxStates = 0x60000;
  const uint64_t saved = SavedStates();
  const bool avx = (saved & kAvxStates) == kAvxStates && Bit(leaf1.ecx, 28);
  const bool avx512 = avx && (saved & kAvx512States) == kAvx512States;
  const bool amx = (saved & kAmxStates) == kAmxStates;
  const CpuidRegisters leaf7 = Cpuid(7, 0);
  const CpuidRegisters leaf7_1 = leaf7.eax >= 1 ? Cpuid(7, 1) : CpuidRegisters{};
  f.avx2 = avx && Bit(leaf7.ebx, 5);
  f.fma = avx && Bit(leaf1.ecx, 12);
  f.f16c = avx && Bit(leaf1.ecx, 29);
  f.avx512f = avx512 && Bit(leaf7.ebx, 16);
  f.avx512bw = avx512 && Bit(leaf7.ebx, 30);
  f.avx512vl = avx512 && Bit(leaf7.ebx, 31);
  f.avx512vnni = avx512 && Bit(leaf7.ecx, 11);
  f.avx512vbmi2 = avx512 && Bit(leaf7.ecx, 6);
  f.avx512bf16 = avx512 && Bit(leaf7_1.eax, 5);
  f.avxvnni = avx && Bit(leaf7_1.eax, 4);
  f.amx_bf16 = amx && Bit(leaf7.edx, 22);
  f.amx_int8 = amx && Bit(leaf7.edx, 25);
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

const CpuFeatures& HostCpu() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace thaw
