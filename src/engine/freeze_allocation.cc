#include "engine/freeze_allocation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace thaw {
namespace {

double BytesOf(const AllocatedTensor& tensor, const Allocation& allocation) {
  return tensor.weights * allocation.bits / 8;
}

// At a price of a byte, in units of what is minimised.
Allocation AtPrice(const AllocatedTensor& tensor, double price) {
  const double price_of_bit = price * tensor.weights / 8;
  const double bits = tensor.curve.BitsAtPrice(tensor.importance, price_of_bit);
  const double cost = tensor.importance * tensor.curve.SquaredErrorAt(bits) + price_of_bit * bits;
  if (price_of_bit * tensor.kept_bits <= cost) return {tensor.kept_bits, true};
  return {bits, false};
}

Allocation Least(const AllocatedTensor& tensor) {
  if (tensor.kept_bits <= kLeastBits) return {tensor.kept_bits, true};
  return {kLeastBits, false};
}

double BytesAtPrice(std::span<const AllocatedTensor> tensors, double price) {
  double bytes = 0;
  for (const AllocatedTensor& tensor : tensors) bytes += BytesOf(tensor, AtPrice(tensor, price));
  return bytes;
}

}  // namespace

RateCurve::RateCurve(std::vector<Point> points) {
  std::ranges::sort(points, {}, &Point::bits);
  for (const Point& point : points) {
    const bool adds = points_.empty() || (point.bits > points_.back().bits &&
                                          point.relative_rmse < points_.back().relative_rmse);
    if (adds && point.relative_rmse > 0) points_.push_back(point);
  }
  // A tensor of zeros, for one, has no error at any step: any line will do.
  while (points_.size() < 2) {
    const Point last = points_.empty() ? Point{kLeastBits, 1e-6, 1} : points_.back();
    points_.push_back({last.bits + 1, last.relative_rmse / 2, last.step / 2});
  }
}

size_t RateCurve::SegmentOf(double bits) const {
  size_t segment = 0;
  while (segment + 2 < points_.size() && bits > points_[segment + 1].bits) ++segment;
  return segment;
}

double RateCurve::LogErrorSlope(size_t segment) const {
  const Point& a = points_[segment];
  const Point& b = points_[segment + 1];
  return 2 * std::log2(b.relative_rmse / a.relative_rmse) / (b.bits - a.bits);
}

double RateCurve::StepAt(double bits) const {
  const Point& a = points_[SegmentOf(bits)];
  const Point& b = points_[SegmentOf(bits) + 1];
  const double slope = std::log2(b.step / a.step) / (b.bits - a.bits);
  return a.step * std::exp2(slope * (bits - a.bits));
}

double RateCurve::SquaredErrorAt(double bits) const {
  const size_t segment = SegmentOf(bits);
  const Point& a = points_[segment];
  return a.relative_rmse * a.relative_rmse * std::exp2(LogErrorSlope(segment) * (bits - a.bits));
}

double RateCurve::BitsAtPrice(double importance, double price) const {
  const auto cost = [&](double bits) { return importance * SquaredErrorAt(bits) + price * bits; };
  double best = kLeastBits;
  const auto consider = [&](double bits) {
    const double clamped = std::clamp(bits, kLeastBits, kMostBits);
    if (cost(clamped) < cost(best)) best = clamped;
  };
  consider(kMostBits);
  // Where a segment's derivative is zero, or else at its ends: the curve may bend either way there.
  for (size_t segment = 0; segment + 1 < points_.size(); ++segment) {
    const Point& a = points_[segment];
    const double slope = LogErrorSlope(segment) * std::log(2.0);
    const double gain = -importance * a.relative_rmse * a.relative_rmse * slope;
    const bool is_last = segment + 2 == points_.size();
    const double low = segment == 0 ? kLeastBits : a.bits;
    const double high = is_last ? kMostBits : points_[segment + 1].bits;
    consider(low);
    if (gain > 0 && price > 0 && low < high) {
      consider(std::clamp(a.bits + std::log(price / gain) / slope, low, high));
    }
  }
  return best;
}

std::vector<Allocation> AllocateBits(std::span<const AllocatedTensor> tensors, double bytes) {
  std::vector<Allocation> allocations;
  if (LeastBytes(tensors) >= bytes) {
    for (const AllocatedTensor& tensor : tensors) allocations.push_back(Least(tensor));
    return allocations;
  }
  // Powers of two between which all slopes lie; 120 halvings of the exponent leave one in 10^34.
  double low = -1000;
  double high = 1000;
  for (int i = 0; i < 120; ++i) {
    const double middle = (low + high) / 2;
    (BytesAtPrice(tensors, std::exp2(middle)) > bytes ? low : high) = middle;
  }
  for (const AllocatedTensor& tensor : tensors) {
    allocations.push_back(AtPrice(tensor, std::exp2(high)));
  }
  return allocations;
}

double LeastBytes(std::span<const AllocatedTensor> tensors) {
  double bytes = 0;
  for (const AllocatedTensor& tensor : tensors) bytes += BytesOf(tensor, Least(tensor));
  return bytes;
}

}  // namespace thaw
