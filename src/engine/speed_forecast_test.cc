#include "engine/speed_forecast.h"

#include <gtest/gtest.h>

#include "io/memory_file.h"

namespace thaw {
namespace {

constexpr int64_t kRows = 1024;
constexpr int64_t kColumns = 1024;
constexpr uint64_t kWeightBytes = kRows * kColumns * 4;

class SpeedForecastTest : public ::testing::Test {
 protected:
  SpeedForecastTest() {
    std::vector<WeightMatrix> matrices;
    matrices.push_back(
        {.name = "w",
         .type = ElementType::kF32,
         .rows = kRows,
         .cols = kColumns,
         .file = std::make_shared<MemoryFile>("m", std::vector<std::byte>(kWeightBytes))});
    map_ = *TileMap::Create(std::move(matrices));
    config_.n_layers = 1;
    rates_.memory_bytes_per_second = 10e9;
    rates_.Set(MatMulRate{.type = ElementType::kF32, .decode_bytes_per_second = 9e9});
    rates_.Set(DiskRate{.device = "1:0", .bytes_per_second = 1e9});
  }

  SpeedForecast Streaming(uint64_t bytes) const {
    const WeightShares shares{.read_bytes_per_token = static_cast<double>(bytes)};
    return ForecastSpeed({.shares = shares}, config_, map_, rates_, "1:0");
  }

  TileMap map_ = *TileMap::Create({});
  ModelConfig config_;
  MachineRates rates_;
};

TEST_F(SpeedForecastTest, WithoutStreamingATokenTakesTheProducts) {
  const SpeedForecast forecast = Streaming(0);
  EXPECT_DOUBLE_EQ(forecast.compute_seconds, kWeightBytes / 9e9);
  EXPECT_DOUBLE_EQ(forecast.decode_tok_per_s, 9e9 / kWeightBytes);
  EXPECT_EQ(forecast.disk_seconds, 0);
  EXPECT_EQ(forecast.bound_by, "memory");
}

TEST_F(SpeedForecastTest, StreamingEverythingTakesTheDisksTime) {
  const SpeedForecast forecast = Streaming(kWeightBytes);
  EXPECT_EQ(forecast.bound_by, "disk");
  // The disk gives less than its 1e9 while there is computing.
  EXPECT_DOUBLE_EQ(forecast.disk_seconds, kWeightBytes / 0.72e9);
  EXPECT_LT(forecast.decode_tok_per_s, 0.72e9 / kWeightBytes);
  EXPECT_GT(forecast.decode_tok_per_s, 0.7e9 / kWeightBytes);
}

TEST_F(SpeedForecastTest, KernelsFarFromTheMemoryRateAreNamed) {
  rates_.Set(MatMulRate{.type = ElementType::kF32, .decode_bytes_per_second = 2e9});
  EXPECT_EQ(Streaming(0).bound_by, "compute");
}

TEST_F(SpeedForecastTest, BytesAreCountedByType) {
  const std::vector<TypeBytes> bytes = BytesByType(map_);
  ASSERT_EQ(bytes.size(), 1);
  EXPECT_EQ(bytes[0].type, ElementType::kF32);
  EXPECT_EQ(bytes[0].bytes, kWeightBytes);
}

TEST_F(SpeedForecastTest, OfExpertsThoseThatATokenGoesThroughAreCounted) {
  std::vector<WeightMatrix> matrices(map_.matrices().begin(), map_.matrices().end());
  matrices[0].n_experts = 8;
  matrices[0].n_used = 2;
  map_ = *TileMap::Create(std::move(matrices));
  EXPECT_EQ(BytesByType(map_)[0].bytes, kWeightBytes / 4);
  EXPECT_DOUBLE_EQ(Streaming(0).compute_seconds, kWeightBytes / 4 / 9e9);
}

TEST(Knee, IsTheLeastBudgetNearTheBestSpeed) {
  const std::vector<BudgetPoint> curve = {{100, 50, 1}, {200, 20, 5}, {300, 4, 9.2}, {400, 0, 10}};
  EXPECT_EQ(Knee(curve), 300);
  EXPECT_EQ(Knee({}), 0);
}

}  // namespace
}  // namespace thaw
