#include "codec/trellis_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace thaw {
namespace {

constexpr auto kLanes = static_cast<size_t>(kFrozenLanes);
constexpr size_t kStates = 8;
// Sums of costs lose precision as they grow: after so many steps the least is taken off. 16 steps
// of 0.3 leave 20 of the 24 bits of a float behind the point of one step's cost.
constexpr int64_t kStepsOfSums = 16;
// What states cost that a group cannot begin in: more than any 3 steps, after which none is left.
constexpr float kUnreached = 1e15f;

using LaneFloats = std::array<float, kLanes>;

}  // namespace

TrellisCosts::TrellisCosts(std::span<const double, kFrozenNumbers> bits, double lambda) {
  const auto cost = [&](int q) {
    return lambda * bits[static_cast<size_t>((q >> 1) - kFrozenLeastNumber)];
  };
  for (int w = 0; w < kWindows; ++w) {
    for (int q = kFirstWindow + w; q < kFirstWindow + w + 4; ++q) {
      costs_[static_cast<size_t>(w)][static_cast<size_t>(q & 3)] = static_cast<float>(cost(q));
    }
  }
  for (int cell = 0; cell < kCells; ++cell) {
    const double target = (cell + .5) / kCellsOfUnit - kTrellisMaxTarget;  // its middle
    const auto near = static_cast<int>(std::floor(target)) - 1;
    // The nearest four, or up to 8 nearer to 0, where numbers take fewer bits.
    double least = std::numeric_limits<double>::infinity();
    for (int first = near - 8; first <= near + 8; ++first) {
      if (first < kFirstWindow || first > kFirstWindow + kWindows - 1) continue;
      double sum = 0;
      for (int q = first; q < first + 4; ++q) sum += (target - q) * (target - q) + cost(q);
      if (sum >= least) continue;
      least = sum;
      window_[static_cast<size_t>(cell)] = static_cast<int16_t>(first);
    }
  }
}

// One vector's targets, windows, and the costs of their integers by residue.
struct TrellisSearch::Step {
  alignas(64) LaneFloats targets;
  alignas(64) LaneFloats weights;  // of columns
  alignas(64) std::array<int32_t, kLanes> cells;
  alignas(64) std::array<int32_t, kLanes> windows;
  alignas(64) std::array<LaneFloats, 4> costs;

  void Load(const float* rows, int64_t cols, const float* reciprocals, int64_t blocks) {
    for (size_t row = 0; row < 16; ++row) {
      const float* from = rows + static_cast<int64_t>(row) * cols;
      const float reciprocal = reciprocals[static_cast<int64_t>(row) * blocks];
      for (size_t i = 0; i < 4; ++i) targets[4 * row + i] = from[i] * reciprocal;
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float target = std::min(std::max(targets[lane], -kTrellisMaxTarget), kTrellisMaxTarget);
      targets[lane] = target;
      cells[lane] = static_cast<int32_t>((target + kTrellisMaxTarget) * TrellisCosts::kCellsOfUnit);
    }
  }

  void LookUp(const TrellisCosts& table) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int32_t window = table.window_[static_cast<size_t>(cells[lane])];
      windows[lane] = window;
      const auto& of_window =
          table.costs_[static_cast<size_t>(window - TrellisCosts::kFirstWindow)];
      for (size_t residue = 0; residue < 4; ++residue) costs[residue][lane] = of_window[residue];
    }
  }

  void AddErrors() {
    for (size_t residue = 0; residue < 4; ++residue) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const int32_t window = windows[lane];
        const int32_t q = window + ((static_cast<int32_t>(residue) - window) & 3);
        const float error = targets[lane] - static_cast<float>(q);
        costs[residue][lane] += weights[lane] * (error * error);
      }
    }
  }
};

namespace {

// The sums of a vector from those of the one before it. State (z0, z1, z2) is reached from (0, z0,
// z1) and (1, z0, z1) by a number of lowest bit z2 ^ z1 ^ z(t - 1); its residue is 2 times that
// plus z0.
void Extend(const float* __restrict before, const std::array<LaneFloats, 4>& costs,
            float* __restrict after, uint8_t* __restrict origins) {
  alignas(64) std::array<int32_t, kLanes> bits;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    float from[kStates];
    float cost[4];
    for (size_t s = 0; s < kStates; ++s) from[s] = before[s * kLanes + lane];
    for (size_t r = 0; r < 4; ++r) cost[r] = costs[r][lane];
    int32_t chosen = 0;
    for (size_t s = 0; s < kStates; ++s) {
      const size_t z0 = s >> 2;
      const size_t parity = (s >> 1 & 1) ^ (s & 1);
      const float sum0 = from[s >> 1] + cost[2 * parity + z0];
      const float sum1 = from[4 + (s >> 1)] + cost[2 * (parity ^ 1) + z0];
      chosen |= sum1 < sum0 ? 1 << s : 0;
      after[s * kLanes + lane] = sum1 < sum0 ? sum1 : sum0;
    }
    bits[lane] = chosen;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) origins[lane] = static_cast<uint8_t>(bits[lane]);
}

void TakeOffLeast(float* sums) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    float least = sums[lane];
    for (size_t s = 1; s < kStates; ++s) least = std::min(least, sums[s * kLanes + lane]);
    for (size_t s = 0; s < kStates; ++s) sums[s * kLanes + lane] -= least;
  }
}

}  // namespace

TrellisSearch::TrellisSearch(int64_t cols)
    : cols_(cols),
      windows_(static_cast<size_t>(kFrozenGroupRows * cols)),
      origins_(static_cast<size_t>(kFrozenGroupRows * cols)) {}

void TrellisSearch::Search(std::span<const float> weights, std::span<const float> reciprocals,
                           std::span<const float> column_weights, const TrellisCosts& costs,
                           std::span<int8_t> q) {
  THAW_CHECK(std::ssize(weights) == kFrozenGroupRows * cols_ && q.size() == weights.size());
  THAW_CHECK(std::ssize(column_weights) == cols_);
  const int64_t blocks = cols_ / kFrozenBlock;
  THAW_CHECK(std::ssize(reciprocals) == kFrozenGroupRows * blocks);
  alignas(64) std::array<float, kStates * kLanes> sums[2];
  sums[0].fill(kUnreached);
  std::fill_n(sums[0].begin(), kLanes, 0.0f);
  Step step;
  const int64_t vectors = cols_ / kFrozenColsOfVector;
  for (int64_t t = 0; t < vectors; ++t) {
    const int64_t col = t * kFrozenColsOfVector;
    step.Load(weights.data() + col, cols_, reciprocals.data() + col / kFrozenBlock, blocks);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      step.weights[lane] = column_weights[static_cast<size_t>(col) + lane % 4];
    }
    step.LookUp(costs);
    step.AddErrors();
    const auto at = static_cast<size_t>(t) * kLanes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      windows_[at + lane] = static_cast<int8_t>(step.windows[lane]);
    }
    Extend(sums[t % 2].data(), step.costs, sums[(t + 1) % 2].data(), origins_.data() + at);
    if (t % kStepsOfSums == kStepsOfSums - 1) TakeOffLeast(sums[(t + 1) % 2].data());
  }
  Walk(q, sums[vectors % 2]);
}

// Back from the best end of each lane. Bits of states are bytes of 0 or 255, so that what follows
// is the same operations for 16 lanes at a time.
void TrellisSearch::Walk(std::span<int8_t> q,
                         const std::array<float, 8 * kFrozenLanes>& ends) const {
  alignas(64) std::array<uint8_t, kLanes> z0;
  alignas(64) std::array<uint8_t, kLanes> z1;
  alignas(64) std::array<uint8_t, kLanes> z2;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    size_t best = 0;
    for (size_t s = 1; s < kStates; ++s) {
      if (ends[s * kLanes + lane] < ends[best * kLanes + lane]) best = s;
    }
    z0[lane] = best & 4 ? 255 : 0;
    z1[lane] = best & 2 ? 255 : 0;
    z2[lane] = best & 1 ? 255 : 0;
  }
  for (int64_t t = cols_ / kFrozenColsOfVector - 1; t >= 0; --t) {
    const int8_t* windows = windows_.data() + t * kFrozenLanes;
    const uint8_t* origins = origins_.data() + t * kFrozenLanes;
    alignas(64) std::array<int8_t, kLanes> chosen;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      // The bit of origins that is the state's: 4 z0 + 2 z1 + z2.
      const auto bit =
          static_cast<uint8_t>((z0[lane] ^ 0x0f) & (z1[lane] ^ 0x33) & (z2[lane] ^ 0x55));
      const auto before = static_cast<uint8_t>((origins[lane] & bit) != 0 ? 255 : 0);
      const auto parity = static_cast<uint8_t>(z2[lane] ^ z1[lane] ^ before);
      const auto residue = static_cast<uint8_t>((parity & 2) | (z0[lane] & 1));
      const auto window = static_cast<uint8_t>(windows[lane]);
      chosen[lane] = static_cast<int8_t>(
          static_cast<uint8_t>(window + (static_cast<uint8_t>(residue - window) & 3)));
      z2[lane] = z1[lane];
      z1[lane] = z0[lane];
      z0[lane] = before;
    }
    for (int64_t row = 0; row < kFrozenGroupRows; ++row) {
      std::memcpy(q.data() + row * cols_ + t * kFrozenColsOfVector, chosen.data() + 4 * row, 4);
    }
  }
}

}  // namespace thaw
