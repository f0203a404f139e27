#include "engine/freeze_allocation.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

namespace thaw {
namespace {

// error = scale * 2^-bits at whole bits from 1 to 8: 6 dB a bit.
RateCurve Curve(double scale) {
  std::vector<RateCurve::Point> points;
  for (int bits = 1; bits <= 8; ++bits) {
    const double rmse = scale * std::exp2(-bits);
    points.push_back({.bits = static_cast<double>(bits), .relative_rmse = rmse, .step = 3 * rmse});
  }
  return RateCurve(points);
}

AllocatedTensor Tensor(double importance, double weights, double kept_bits = 16) {
  return {.curve = Curve(1), .importance = importance, .weights = weights, .kept_bits = kept_bits};
}

double Bytes(std::span<const AllocatedTensor> tensors, std::span<const Allocation> allocations) {
  double bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) bytes += tensors[i].weights * allocations[i].bits / 8;
  return bytes;
}

TEST(RateCurve, GoesThroughItsPointsAndStraightBetweenThem) {
  const RateCurve curve = Curve(2);
  EXPECT_NEAR(std::sqrt(curve.SquaredErrorAt(3)), 0.25, 1e-12);
  EXPECT_NEAR(std::sqrt(curve.SquaredErrorAt(3.5)), 0.25 / std::sqrt(2), 1e-12);
  EXPECT_NEAR(curve.StepAt(3), 0.75, 1e-12);
  EXPECT_NEAR(curve.StepAt(9), 0.75 / 64, 1e-12);  // beyond the last point
}

TEST(RateCurve, LeavesOutPointsThatCostMoreAndErrMore) {
  const RateCurve curve({{2, 0.2, 0.6}, {3, 0.1, 0.3}, {3.5, 0.12, 0.1}});
  EXPECT_NEAR(curve.StepAt(3), 0.3, 1e-12);
  EXPECT_NEAR(std::sqrt(curve.SquaredErrorAt(4)), 0.05, 1e-12);
}

TEST(AllocateBits, GivesAlikeTensorsTheSameBits) {
  const std::vector<AllocatedTensor> tensors = {Tensor(1, 1000), Tensor(3, 3000)};
  const auto allocations = AllocateBits(tensors, 4000 * 4.0 / 8);
  EXPECT_NEAR(allocations[0].bits, 4, 1e-6);
  EXPECT_NEAR(allocations[1].bits, 4, 1e-6);
}

TEST(AllocateBits, GivesABitMoreForFourTimesTheImportance) {
  const std::vector<AllocatedTensor> tensors = {Tensor(1, 1000), Tensor(4, 1000)};
  const auto allocations = AllocateBits(tensors, 2000 * 4.0 / 8);
  EXPECT_NEAR(allocations[0].bits, 3.5, 1e-6);
  EXPECT_NEAR(allocations[1].bits, 4.5, 1e-6);
}

// What is minimised does not fall when bytes move from any tensor to any other.
TEST(AllocateBits, LeavesNothingToGainByMovingBytes) {
  std::vector<AllocatedTensor> tensors;
  for (int i = 1; i <= 6; ++i) {
    tensors.push_back({Curve(0.5 + 0.3 * i), 1.0 * i * i, 1000.0 * (7 - i), 16});
  }
  const double bytes = 21000 * 3.7 / 8;
  const auto allocations = AllocateBits(tensors, bytes);
  EXPECT_LE(Bytes(tensors, allocations), bytes);
  EXPECT_GT(Bytes(tensors, allocations), bytes * 0.999);
  const auto cost = [&](size_t i, double bits) {
    return tensors[i].importance * tensors[i].curve.SquaredErrorAt(bits);
  };
  for (size_t from = 0; from < tensors.size(); ++from) {
    for (size_t to = 0; to < tensors.size(); ++to) {
      const double moved = 10;  // weight bits
      const double less = allocations[from].bits - moved / tensors[from].weights;
      const double more = allocations[to].bits + moved / tensors[to].weights;
      if (from == to || less < kLeastBits || more > kMostBits) continue;
      EXPECT_GE(cost(from, less) + cost(to, more),
                (cost(from, allocations[from].bits) + cost(to, allocations[to].bits)) * (1 - 1e-9));
    }
  }
}

TEST(AllocateBits, StaysWithinItsBounds) {
  const std::vector<AllocatedTensor> tensors = {Tensor(1e-9, 1000), Tensor(1e9, 1000)};
  const auto allocations = AllocateBits(tensors, 2000 * 4.0 / 8);
  EXPECT_EQ(allocations[0].bits, kLeastBits);
  EXPECT_NEAR(allocations[1].bits, 6, 1e-6);
  EXPECT_EQ(AllocateBits(tensors, 2000 * 11.5 / 8)[0].bits, kMostBits);
  EXPECT_EQ(AllocateBits(tensors, 1)[1].bits, kLeastBits);
  EXPECT_EQ(LeastBytes(tensors), 2000 * kLeastBits / 8);
}

TEST(AllocateBits, KeepsWhatTakesNoMoreAsItIs) {
  const std::vector<AllocatedTensor> tensors = {Tensor(1, 1000, 4.5), Tensor(1, 1000, 16)};
  const auto roomy = AllocateBits(tensors, 2000 * 6.0 / 8);
  EXPECT_TRUE(roomy[0].is_kept);
  EXPECT_EQ(roomy[0].bits, 4.5);
  EXPECT_FALSE(roomy[1].is_kept);
  EXPECT_EQ(roomy[1].bits, kMostBits);
  EXPECT_TRUE(AllocateBits(tensors, 2000 * 16.0 / 8)[1].is_kept);
  const auto tight = AllocateBits(tensors, 2000 * 2.5 / 8);
  EXPECT_FALSE(tight[0].is_kept);
  EXPECT_NEAR(tight[0].bits, 2.5, 1e-6);
}

}  // namespace
}  // namespace thaw
