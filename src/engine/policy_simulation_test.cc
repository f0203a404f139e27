#include "engine/policy_simulation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "base/process.h"
#include "residency/placement.h"
#include "residency/policy.h"

namespace thaw {
namespace {

using ::testing::SizeIs;

// A file that must not be read: what is simulated needs its size alone.
class UnreadableFile final : public File {
 public:
  explicit UnreadableFile(uint64_t size) : size_(size) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  Result<size_t> ReadSomeAt(uint64_t, std::span<std::byte>) const override {
    return Fail(ErrorCode::kIo, "the simulation read a file");
  }

 private:
  const std::string path_ = "m.gguf";
  const uint64_t size_;
};

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 40 matrices of 4 MiB, one a layer: 320 tiles of 512 KiB.
TileMap LargeMap() {
  constexpr uint64_t kMatrixBytes = 4 * kMiB;
  const auto file = std::make_shared<UnreadableFile>(40 * kMatrixBytes);
  std::vector<WeightMatrix> matrices;
  for (int32_t layer = 0; layer < 40; ++layer) {
    matrices.push_back({.name = "m" + std::to_string(layer),
                        .type = ElementType::kF32,
                        .rows = 1024,
                        .cols = 1024,
                        .file = file,
                        .offset = static_cast<uint64_t>(layer) * kMatrixBytes,
                        .layer = layer});
  }
  return *TileMap::Create(std::move(matrices));
}

PolicySimulation Simulate(uint64_t capacity_bytes, std::vector<std::string> pinned = {}) {
  auto simulation =
      SimulatePolicies(LargeMap(), capacity_bytes, pinned, 10, SimulatedRouter::kUniform);
  EXPECT_TRUE(simulation) << simulation.error().message;
  return *std::move(simulation);
}

const SimulatedPolicy& Of(const PolicySimulation& simulation, std::string_view policy) {
  return *std::ranges::find(simulation.policies, policy, &SimulatedPolicy::policy);
}

TEST(SimulatePolicies, TellsOfEveryPolicy) {
  const PolicySimulation simulation = Simulate(80 * kMiB);
  EXPECT_THAT(simulation.policies, SizeIs(AllPolicies().size()));
  EXPECT_EQ(simulation.passes, 10);
}

TEST(SimulatePolicies, BelowACycleLruHitsNothingAndPlannedWhatCanBeHit) {
  const PolicySimulation simulation = Simulate(80 * kMiB);
  EXPECT_EQ(Of(simulation, "lru").hit_rate_bytes, 0);
  EXPECT_EQ(Of(simulation, "off").hit_rate_bytes, 0);
  EXPECT_DOUBLE_EQ(Of(simulation, "planned").hit_rate_bytes,
                   simulation.best_possible_hit_rate_bytes);
  EXPECT_NEAR(simulation.best_possible_hit_rate_bytes, 80.0 / 160, 0.1);
  EXPECT_GT(Of(simulation, "mru").hit_rate_bytes, 0);
  EXPECT_LE(Of(simulation, "mru").hit_rate_bytes, 80.0 / 160);
  EXPECT_FALSE(Of(simulation, "keep-all").fits);
}

TEST(SimulatePolicies, WithRoomForAllEveryPolicyButOffHitsAll) {
  const PolicySimulation simulation = Simulate(FullCapacity(LargeMap(), LruPolicy()) + 16 * kMiB);
  for (const SimulatedPolicy& result : simulation.policies) {
    EXPECT_TRUE(result.fits) << result.policy;
    EXPECT_EQ(result.hit_rate, result.policy == "off" ? 0 : 1) << result.policy;
  }
}

TEST(SimulatePolicies, WhatIsPinnedIsHitUnderEveryPolicy) {
  const PolicySimulation simulation = Simulate(80 * kMiB, {"m3"});
  EXPECT_DOUBLE_EQ(Of(simulation, "off").hit_rate_bytes, 1.0 / 40);
  EXPECT_DOUBLE_EQ(Of(simulation, "lru").hit_rate_bytes, 1.0 / 40);
}

// 10 layers of one matrix of 1 MiB and of 32 experts, 4 of them used, of one tile of 256 KiB each.
TileMap ExpertMap() {
  constexpr uint64_t kLayerBytes = 9 * kMiB;
  const auto file = std::make_shared<UnreadableFile>(10 * kLayerBytes);
  std::vector<WeightMatrix> matrices;
  for (int32_t layer = 0; layer < 10; ++layer) {
    WeightMatrix matrix{.name = "m" + std::to_string(layer),
                        .type = ElementType::kF32,
                        .rows = 256,
                        .cols = 1024,
                        .file = file,
                        .offset = static_cast<uint64_t>(layer) * kLayerBytes,
                        .layer = layer};
    matrices.push_back(matrix);
    matrix.name += "exps";
    matrix.offset += kMiB;
    matrix.rows = 32 * 64;
    matrix.n_experts = 32;
    matrix.n_used = 4;
    matrices.push_back(matrix);
  }
  return *TileMap::Create(std::move(matrices));
}

TEST(SimulatePolicies, OfExpertsPlannedComesNearTheOptimum) {
  for (const SimulatedRouter router : {SimulatedRouter::kUniform, SimulatedRouter::kZipf}) {
    SCOPED_TRACE(SimulatedRouterName(router));
    const auto simulation = SimulatePolicies(ExpertMap(), 50 * kMiB, {}, 60, router);
    ASSERT_TRUE(simulation) << simulation.error().message;
    const double best = simulation->best_possible_hit_rate_bytes;
    const double planned = Of(*simulation, "planned").hit_rate_bytes;
    EXPECT_LT(best, 1);
    EXPECT_LE(planned, best);
    for (const SimulatedPolicy& other : simulation->policies) {
      if (!other.fits) continue;
      EXPECT_LE(other.hit_rate_bytes, planned) << other.policy;
    }
    // A half of a token's bytes is what every token visits; of experts one in two fits.
    if (router == SimulatedRouter::kUniform) {
      EXPECT_NEAR(planned, 0.75, 0.03);
    } else {
      EXPECT_GT(planned, 0.85);
      EXPECT_GT(planned, best - 0.1);
    }
  }
}

TEST(SimulatePolicies, TakesNoMemoryForWeights) {
  (void)Simulate(80 * kMiB);
  const uint64_t before = PeakResidentBytes();
  (void)Simulate(128 * kMiB);
  EXPECT_LT(PeakResidentBytes(), before + 8 * kMiB);
}

}  // namespace
}  // namespace thaw
