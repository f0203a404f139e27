#include "kernels/x86/asks_ahead.h"

#include "base/cpu_features.h"

namespace thaw::x86 {

const bool kAsksAhead = HostCpu().is_intel;

}  // namespace thaw::x86
