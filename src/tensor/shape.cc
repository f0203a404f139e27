#include "tensor/shape.h"

#include <fmt/ranges.h>

#include <limits>

#include "base/check.h"

namespace thaw {

Result<Shape> Shape::Make(std::span<const uint64_t> extents) {
  if (extents.empty() || extents.size() > kMaxDimensions) {
    return Fail(ErrorCode::kCorrupt, "{} dimensions, expected 1 to {}", extents.size(),
                kMaxDimensions);
  }
  Shape shape;
  uint64_t room = std::numeric_limits<int64_t>::max();  // how much the product may still grow
  for (const uint64_t extent : extents) {
    if (extent == 0) {
      return Fail(ErrorCode::kCorrupt, "dimension {} is 0, expected at least 1", shape.dimensions_);
    }
    if (extent > room) {
      return Fail(ErrorCode::kCorrupt, "dimensions [{}] multiply to more than 2^63 - 1 elements",
                  fmt::join(extents, ", "));
    }
    room /= extent;
    shape.extents_[shape.dimensions_++] = static_cast<int64_t>(extent);
  }
  return shape;
}

int64_t Shape::operator[](int index) const {
  THAW_CHECK(index >= 0 && index < kMaxDimensions);
  return extents_[index];
}

int64_t Shape::rows() const { return extents_[1] * extents_[2] * extents_[3]; }

int64_t Shape::elements() const { return extents_[0] * rows(); }

std::string Shape::ToString() const {
  return fmt::format("[{}]", fmt::join(std::span(extents_).first(dimensions_), ", "));
}

}  // namespace thaw
