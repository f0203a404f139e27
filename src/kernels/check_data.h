// What the checks of every start compute with: numbers that are the same each time, and memory.
//
// Plain values for one thread; the case that made a table disagree once makes it disagree again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"

namespace thaw {

// Numerical Recipes' "quick and dirty" generator.
class CheckNumbers {
 public:
  uint32_t Next() { return state_ = state_ * 1664525 + 1013904223; }
  // In [-1, 1).
  float NextFloat() { return static_cast<float>(Next() >> 8) * 0x1p-23f - 1; }
  std::vector<float> Floats(int64_t n) {
    std::vector<float> floats(static_cast<size_t>(n));
    for (float& f : floats) f = NextFloat();
    return floats;
  }

 private:
  uint32_t state_ = 1;
};

// Aligned to 64. A check takes some 100 KB: a machine without them is one that nothing runs on.
inline AlignedBuffer AllocateForCheck(int64_t bytes) {
  auto buffer = AlignedBuffer::Allocate(static_cast<size_t>(bytes), "checking the kernels");
  THAW_CHECK(buffer);
  return *std::move(buffer);
}

}  // namespace thaw
