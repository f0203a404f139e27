// SplitMix64, a 64-bit pseudo-random generator (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014). The standard library's distributions give
// different numbers from one implementation to the next; these are the same everywhere. Not for
// secrets.
#pragma once

#include <cstdint>

namespace thaw {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, 1): a multiple of 2^-53, the spacing of doubles just below 1.
  double NextUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace thaw
