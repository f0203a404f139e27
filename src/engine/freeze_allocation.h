// How many bits each tensor gets of a file of stated size.
//
// What is minimised is the sum over tensors of importance * (relative error)^2, subject to the
// bytes of all: at the minimum one more byte would do the same good in every tensor that is not at
// a bound of its own. That slope is found by bisection (docs/decisions/0017-freezing.md). Pure
// functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thaw {

// The bounds of bits per weight, all counted: below, errors grow past what a model stands; above,
// what is coded is little smaller than Q8_0.
inline constexpr double kLeastBits = 2;
inline constexpr double kMostBits = 6.5;

// Measured points of a tensor's bits per weight, relative errors and steps, by ascending bits;
// between them the logarithms of error and step are linear in the bits.
class RateCurve {
 public:
  struct Point {
    double bits = 0;
    double relative_rmse = 0;  // above 0
    double step = 0;
  };

  RateCurve() = default;
  // In any order, at least two; those that do not add bits and take away error are left out.
  explicit RateCurve(std::vector<Point> points);

  double StepAt(double bits) const;
  double SquaredErrorAt(double bits) const;

  // Within kLeastBits and kMostBits, where importance * error^2 + price * bits is least.
  double BitsAtPrice(double importance, double price) const;

 private:
  // The segment that holds `bits`, the first or the last beyond them.
  size_t SegmentOf(double bits) const;
  double LogErrorSlope(size_t segment) const;  // of log2 of the squared error, below 0

  std::vector<Point> points_;
};

struct AllocatedTensor {
  RateCurve curve;
  double importance = 0;
  double weights = 0;
  double kept_bits = 0;  // that a weight takes as it is, with no error
};

struct Allocation {
  double bits = 0;  // of a weight
  bool is_kept = false;
};

// For each tensor; all together take at most `bytes`. Where that is less than all take at least,
// each gets its least.
std::vector<Allocation> AllocateBits(std::span<const AllocatedTensor> tensors, double bytes);

// What all take at least.
double LeastBytes(std::span<const AllocatedTensor> tensors);

}  // namespace thaw
