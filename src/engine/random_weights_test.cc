#include "engine/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/dequantize.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

// Of rows of 2048: what the weights of a model of that width have.
constexpr double kDeviation = 0.022;
constexpr int64_t kElements = 1 << 16;

std::vector<std::byte> RandomBytes(ElementType type, double deviation, uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(RowBytes(type, kElements)));
  RandomWeights(type, deviation, seed).Fill(bytes);
  return bytes;
}

class RandomWeightsOf : public ::testing::TestWithParam<ElementType> {};

TEST_P(RandomWeightsOf, AreFiniteAroundZeroWithTheStatedDeviation) {
  for (const double deviation : {kDeviation, 1 / std::sqrt(14336.0)}) {
    std::vector<float> values(kElements);
    ASSERT_TRUE(Dequantize(GetParam(), RandomBytes(GetParam(), deviation, 1), values));
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * value;
    }
    EXPECT_LT(std::abs(sum / kElements), 0.1 * deviation);
    // The steps of UE4M3 are as large as the scales of the smaller deviation.
    const double tolerance = GetParam() == ElementType::kNVFP4 ? 0.3 : 0.15;
    EXPECT_NEAR(std::sqrt(squares / kElements) / deviation, 1, tolerance);
  }
}

TEST_P(RandomWeightsOf, AreTheSameForASeedAndDifferForAnother) {
  const auto bytes = RandomBytes(GetParam(), kDeviation, 7);
  EXPECT_EQ(bytes, RandomBytes(GetParam(), kDeviation, 7));
  EXPECT_NE(bytes, RandomBytes(GetParam(), kDeviation, 8));
}

std::vector<ElementType> TypesToMultiply() {
  std::vector<ElementType> types;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (CanMultiply(info.type)) types.push_back(info.type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(, RandomWeightsOf, ::testing::ValuesIn(TypesToMultiply()),
                         [](const auto& test) { return std::string(Info(test.param).name); });

}  // namespace
}  // namespace thaw
