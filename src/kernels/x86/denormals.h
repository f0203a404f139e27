// Floats as products of tiles of bfloat16 treat them: denormal ones are taken for zeros, and become
// zeros. In an anonymous namespace, for the reason given in avx2.h.
#pragma once

#include <cstdint>

namespace thaw {
namespace {

// What vectors and scalars of this thread do while one exists. What they compute must be in
// functions that are not inlined beside it: a compiler does not know that it changes them.
class DenormalsAsZeros {
 public:
  DenormalsAsZeros() {
    asm volatile("stmxcsr %0" : "=m"(before_) : : "memory");
    const uint32_t with = before_ | kFlushToZero | kDenormalsAreZeros;
    asm volatile("ldmxcsr %0" : : "m"(with) : "memory");
  }
  ~DenormalsAsZeros() { asm volatile("ldmxcsr %0" : : "m"(before_) : "memory"); }
  DenormalsAsZeros(const DenormalsAsZeros&) = delete;
  DenormalsAsZeros& operator=(const DenormalsAsZeros&) = delete;

 private:
  static constexpr uint32_t kDenormalsAreZeros = 1 << 6;
  static constexpr uint32_t kFlushToZero = 1 << 15;

  uint32_t before_;
};

}  // namespace
}  // namespace thaw
