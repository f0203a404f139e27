// The extent of a tensor in each dimension, as GGUF gives it.
//
// Dimension 0 is the contiguous one: a matrix [columns, rows] is `rows` rows of `columns` elements
// each. A tensor has 1 to 4 dimensions; those it lacks have extent 1. A small value, copied freely.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace thaw {

class Shape {
 public:
  static constexpr int kMaxDimensions = 4;

  // Fails unless there are 1 to 4 extents, all of them positive, and their product fits int64_t.
  static Result<Shape> Make(std::span<const uint64_t> extents);

  int dimensions() const { return dimensions_; }
  // Extent of dimension `index` in [0, 4), 1 past the tensor's own dimensions.
  int64_t operator[](int index) const;
  // The product of all extents.
  int64_t elements() const;
  // The product of all extents but the first: how many contiguous rows there are.
  int64_t rows() const;

  // For example "[576, 49152]".
  std::string ToString() const;

  bool operator==(const Shape&) const = default;

 private:
  Shape() = default;

  std::array<int64_t, kMaxDimensions> extents_ = {1, 1, 1, 1};
  int dimensions_ = 0;
};

}  // namespace thaw
