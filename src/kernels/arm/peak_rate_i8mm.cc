#include "kernels/arm/peak_loop.h"

namespace thaw::arm {

int32_t RunPeakI8mm(int64_t rounds) {
  return RunPeak(
      rounds, [](int32x4_t sum, int8x16_t a, int8x16_t b)
                  __attribute__((always_inline)) { return vmmlaq_s32(sum, a, b); });
}

}  // namespace thaw::arm
