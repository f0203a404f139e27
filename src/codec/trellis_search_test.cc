// What is found keeps to the trellis and costs what the cheapest path costs.
#include "codec/trellis_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "codec/frozen_format.h"

namespace thaw {
namespace {

constexpr double kLambda = 0.35;

size_t At(int m) { return static_cast<size_t>(m - kFrozenLeastNumber); }

std::array<double, kFrozenNumbers> BitsGrowing(double per_number) {
  std::array<double, kFrozenNumbers> bits;
  for (int m = -64; m < 64; ++m) bits[At(m)] = 1 + per_number * std::abs(m);
  return bits;
}

struct Lane {
  std::vector<double> targets;
  std::vector<double> weights;
};

double CostOf(double target, double weight, int q, std::span<const double> bits) {
  return weight * (target - q) * (target - q) + kLambda * bits[At(q >> 1)];
}

// The least cost of a lane, by all integers in all states.
double LeastCost(const Lane& lane, std::span<const double> bits) {
  struct Path {
    Trellis trellis;
    double cost = 0;
  };
  // By the bits that the next three numbers depend on.
  const auto key = [](const Trellis& trellis) {
    Trellis even = trellis;
    even.Step(0);
    Trellis further = even;
    further.Step(0);
    return std::tuple(trellis.bit(), even.bit(), further.bit());
  };
  std::map<std::tuple<int, int, int>, Path> paths;
  paths[key(Trellis())] = {};
  for (size_t t = 0; t < lane.targets.size(); ++t) {
    std::map<std::tuple<int, int, int>, Path> next;
    for (const auto& [ignored, path] : paths) {
      for (int m = -64; m < 64; ++m) {
        const int q = 2 * m + path.trellis.bit();
        Path longer = path;
        longer.trellis.Step(m & 1);
        longer.cost += CostOf(lane.targets[t], lane.weights[t], q, bits);
        const auto [at, is_new] = next.try_emplace(key(longer.trellis), longer);
        if (!is_new && longer.cost < at->second.cost) at->second = longer;
      }
    }
    paths = std::move(next);
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [ignored, path] : paths) least = std::min(least, path.cost);
  return least;
}

// A group and what is found for it.
struct Found {
  int64_t cols;
  std::vector<float> weights;
  std::vector<float> reciprocals;
  std::vector<float> column_weights;
  std::vector<int8_t> q;

  Found(int64_t columns, float deviation, std::span<const double, kFrozenNumbers> bits)
      : cols(columns),
        reciprocals(static_cast<size_t>(columns / 2)),
        q(static_cast<size_t>(16 * columns)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, deviation);
    for (int64_t i = 0; i < 16 * cols; ++i) weights.push_back(normal(random));
    std::uniform_real_distribution<float> uniform(0.5F, 1.5F);
    for (float& reciprocal : reciprocals) reciprocal = uniform(random);
    for (int64_t i = 0; i < cols; ++i) column_weights.push_back(uniform(random));
    TrellisSearch search(cols);
    search.Search(weights, reciprocals, column_weights, TrellisCosts(bits, kLambda), q);
  }

  Lane LaneOf(int64_t number) const {
    const LanePlace place = PlaceOfLane(FrozenKind::kEcq, number);
    Lane lane;
    for (int64_t col = place.col; col < cols; col += 4) {
      const double reciprocal = reciprocals[static_cast<size_t>(place.row * cols / 32 + col / 32)];
      const float target = weights[static_cast<size_t>(place.row * cols + col)] * reciprocal;
      lane.targets.push_back(std::clamp(target, -kTrellisMaxTarget, kTrellisMaxTarget));
      lane.weights.push_back(column_weights[static_cast<size_t>(col)]);
    }
    return lane;
  }
};

class TrellisSearchTest : public testing::TestWithParam<float> {};

TEST_P(TrellisSearchTest, FindsTheCheapestPath) {
  const auto bits = BitsGrowing(0.4);
  const Found found(64, GetParam(), bits);
  for (int64_t number = 0; number < kFrozenLanes; ++number) {
    const LanePlace place = PlaceOfLane(FrozenKind::kEcq, number);
    const Lane lane = found.LaneOf(number);
    double cost = 0;
    Trellis trellis;
    for (size_t t = 0; t < lane.targets.size(); ++t) {
      const int8_t q = found.q[static_cast<size_t>(place.row * found.cols + place.col) + 4 * t];
      ASSERT_EQ(q & 1, trellis.bit()) << "lane " << number << ", number " << t;
      trellis.Step(q >> 1 & 1);
      cost += CostOf(lane.targets[t], lane.weights[t], q, bits);
    }
    // Not exactly: which four integers are looked at is decided by cells of a quarter.
    const double least = LeastCost(lane, bits);
    EXPECT_GE(cost, least * (1 - 1e-5));
    EXPECT_LE(cost, least * 1.01) << "lane " << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Deviations, TrellisSearchTest, testing::Values(0.5F, 3.0F, 20.0F, 60.0F));

}  // namespace
}  // namespace thaw
