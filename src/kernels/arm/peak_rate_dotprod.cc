#include "kernels/arm/peak_loop.h"

namespace thaw::arm {

int32_t RunPeakDotProd(int64_t rounds) {
  return RunPeak(
      rounds, [](int32x4_t sum, int8x16_t a, int8x16_t b)
                  __attribute__((always_inline)) { return vdotq_s32(sum, a, b); });
}

}  // namespace thaw::arm
