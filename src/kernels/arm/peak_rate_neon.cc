#include <arm_neon.h>

#include "kernels/arm/peak_rate.h"

namespace thaw::arm {

uint64_t SumWordsNeon(const std::byte* p, size_t bytes) {
  uint64x2_t sums[8];
  for (uint64x2_t& sum : sums) sum = vdupq_n_u64(0);
  for (const std::byte* end = p + bytes; p != end; p += kReadRunBytes) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t words = vld1q_u8(reinterpret_cast<const uint8_t*>(p + 16 * i));
      sums[i] = vaddq_u64(sums[i], vreinterpretq_u64_u8(words));
    }
  }
  for (int i = 1; i < 8; ++i) sums[0] = vaddq_u64(sums[0], sums[i]);
  return vaddvq_u64(sums[0]);
}

}  // namespace thaw::arm
