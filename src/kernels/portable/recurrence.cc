#include "kernels/recurrence.h"

#include <algorithm>

#include "kernels/portable/portable.h"

namespace thaw::portable {

void StepState(const StateStep& s) {
  constexpr int64_t kBlock = 64;  // columns whose sums are held at a time
  for (int64_t first = 0; first < s.values; first += kBlock) {
    const int64_t n = std::min(kBlock, s.values - first);
    float probed[kBlock] = {};
    float read[kBlock] = {};
    for (int64_t k = 0; k < s.keys && s.probe != nullptr; ++k) {
      const float* before = s.before + k * s.stride + first;
      for (int64_t i = 0; i < n; ++i) probed[i] += s.probe[k] * before[i];
    }
    for (int64_t k = 0; k < s.keys; ++k) {
      const float* before = s.before + k * s.stride + first;
      float* after = s.after + k * s.stride + first;
      for (int64_t i = 0; i < n; ++i) {
        const float decay =
            s.decay_stride == 0 ? s.decay[k] : s.decay[k * s.decay_stride + first + i];
        float x = decay * before[i] + s.key[k] * s.value[first + i];
        if (s.probe != nullptr) x += s.correction[k] * probed[i];
        after[i] = x;
        read[i] += s.query[k] * x;
      }
    }
    std::copy_n(read, n, s.out + first);
  }
}

}  // namespace thaw::portable
