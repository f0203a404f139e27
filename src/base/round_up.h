// Sizes and offsets up to the next multiple of something.
#pragma once

#include <type_traits>

namespace thaw {

// The least multiple of `unit` that is at least x. x >= 0, unit > 0; their sum must fit.
template <typename T>
constexpr T RoundUp(T x, std::type_identity_t<T> unit) {
  return (x + unit - 1) / unit * unit;
}

}  // namespace thaw
