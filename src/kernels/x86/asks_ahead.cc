#include "kernels/x86/asks_ahead.h"

#include "base/cpu_features.h"

namespace thaw::x86 {
namespace {

constexpr int kFamilyOfZen5 = 0x1a;

}  // namespace

const bool kAsksAhead = HostCpu().is_intel || HostCpu().amd_family >= kFamilyOfZen5;
const bool kAsksAheadIntoL2 = !kAsksAhead && !HostCpu().avx512f;
const bool kAsksInTurn = HostCpu().is_intel;

}  // namespace thaw::x86
