// Errors agree with those of llama.cpp's own quantizers.
#include "codec/type_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace thaw {
namespace {

using enum ElementType;

// Numbers that any language draws alike: the high 24 bits of a linear congruential generator as
// fractions, four of which less 2 make one that is nearly normal; its cube, with a tenth of itself,
// has heavy tails (kurtosis 15.8).
std::vector<float> Draw(int64_t weights, bool is_heavy) {
  std::vector<float> drawn(static_cast<size_t>(weights));
  uint64_t state = 1;
  for (float& w : drawn) {
    double g = -2;
    for (int i = 0; i < 4; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      g += static_cast<double>(state >> 40) / 16777216;
    }
    w = static_cast<float>(is_heavy ? g * g * g + 0.1 * g : g);
  }
  return drawn;
}

struct Expected {
  ElementType type;
  double normal;
  double heavy;
};

// sqrt(error / energy) of Draw(64 * 1024) by ggml-quants.c, compiled alone and called from Python:
// quantize_q4_0(weights, blocks, 64, 1024, NULL), dequantize_row_q4_0, and so on for each type;
// sums in double precision.
constexpr Expected kByGgml[] = {
    {kQ4_0, 0.081342, 0.114467}, {kQ4_1, 0.075634, 0.108951},   {kQ5_0, 0.040371, 0.061661},
    {kQ5_1, 0.036481, 0.052390}, {kQ8_0, 0.005077, 0.008637},   {kQ2_K, 0.287361, 0.390149},
    {kQ3_K, 0.145495, 0.167527}, {kQ4_K, 0.068799, 0.093760},   {kQ5_K, 0.034685, 0.049890},
    {kQ6_K, 0.016938, 0.025659}, {kIQ4_NL, 0.073637, 0.093936}, {kIQ4_XS, 0.074200, 0.094769},
};

// The difference allowed: 0.1 % is what ties between scales make on real weights.
constexpr double kTolerance = 0.002;

TEST(TypeError, IsThatOfLlamaCpp) {
  std::vector<ElementType> tested;
  for (const Expected& expected : kByGgml) {
    const auto normal = TypeRelativeRmse(expected.type, 1024, Draw(64 * 1024, false), {});
    const auto heavy = TypeRelativeRmse(expected.type, 1024, Draw(64 * 1024, true), {});
    ASSERT_TRUE(normal && heavy);
    EXPECT_NEAR(*normal / expected.normal, 1, kTolerance) << Info(expected.type).name;
    EXPECT_NEAR(*heavy / expected.heavy, 1, kTolerance) << Info(expected.type).name;
    tested.push_back(expected.type);
  }
  EXPECT_THAT(TypesWithError(), testing::UnorderedElementsAreArray(tested));
}

TEST(TypeError, ColumnsThatDoNotFillABlockTakeTheTypeThatLlamaCppTakes) {
  EXPECT_EQ(TypeForColumns(kQ4_K, 1024), kQ4_K);
  EXPECT_EQ(TypeForColumns(kQ4_K, 96), kQ5_0);
  EXPECT_EQ(TypeForColumns(kQ5_K, 96), kQ5_1);
  EXPECT_EQ(TypeForColumns(kQ6_K, 96), kQ8_0);
  EXPECT_EQ(TypeForColumns(kQ3_K, 96), kQ4_0);
  EXPECT_EQ(TypeForColumns(kQ2_K, 96), kQ4_0);
  EXPECT_EQ(TypeForColumns(kIQ4_XS, 96), kIQ4_NL);
  const std::vector<float> weights = Draw(32 * 96, false);
  for (const ElementType type : TypesWithError()) {
    EXPECT_EQ(TypeRelativeRmse(type, 96, weights, {}).value(),
              TypeRelativeRmse(TypeForColumns(type, 96), 96, weights, {}).value());
  }
}

TEST(TypeError, CountsColumnsByTheirWeights) {
  constexpr size_t kCols = 512;
  std::vector<float> weights = Draw(16 * kCols, false);
  // The last half is exact in Q8_0 where the scale is a power of 2.
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % kCols >= kCols / 2) weights[i] = static_cast<float>(i % 32 == 0 ? 127 : i % 7) / 64;
  }
  std::vector<float> columns(kCols, 1.0F);
  const double equal = TypeRelativeRmse(kQ8_0, kCols, weights, columns).value();
  EXPECT_EQ(equal, TypeRelativeRmse(kQ8_0, kCols, weights, {}).value());
  EXPECT_GT(equal, 0);
  std::fill_n(columns.begin(), kCols / 2, 0.0F);
  EXPECT_EQ(TypeRelativeRmse(kQ8_0, kCols, weights, columns).value(), 0);
}

TEST(TypeError, OfUnusualWeightsIsANumber) {
  constexpr int64_t kCols = 256;
  for (const ElementType type : TypesWithError()) {
    for (const float value : {0.0F, 1.0F, -1.0F, 1e-42F, 1e-20F, 1e30F, -3e38F}) {
      std::vector<float> weights(16 * kCols, value);
      for (const bool has_one : {false, true}) {
        if (has_one) weights[77] = -value / 2;
        const double rmse = TypeRelativeRmse(type, kCols, weights, {}).value();
        SCOPED_TRACE(testing::Message() << Info(type).name << " " << value << " " << has_one);
        EXPECT_TRUE(std::isfinite(rmse));
        EXPECT_LE(rmse, value == 0 ? 0 : std::abs(value) == 1 ? 0.13 : 1.0001);
      }
    }
  }
}

TEST(TypeError, OfOtherTypesIsRefusedWithTheList) {
  const auto refused = TypeRelativeRmse(kIQ2_XS, 256, std::vector<float>(256), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("IQ2_XS"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("Q4_0, Q4_1, Q5_0"));
}

}  // namespace
}  // namespace thaw
