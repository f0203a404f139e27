// Numbers out of bytes at any alignment, in this machine's order of bytes.
#pragma once

#include <cstddef>
#include <cstring>

namespace thaw {

template <typename T>
T LoadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace thaw
