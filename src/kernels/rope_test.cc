#include "kernels/rope.h"

#include <cmath>
#include <numbers>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

class RopeKernels : public EachKernelTable {};

// The rounding of cosine and sine to floats, of two products and a sum.
constexpr double kRopeTolerance = 3e-7;

RopeAngles Angles(const RopeConfig& config) {
  auto angles = RopeAngles::Create(config);
  EXPECT_TRUE(angles) << angles.error().message;
  return *angles;
}

TEST(RopeAngles, FallGeometricallyFromOneTurnPerRadian) {
  const RopeAngles angles = Angles({.rope_dim = 64, .freq_base = 10000});
  ASSERT_EQ(angles.rope_dim(), 64);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_DOUBLE_EQ(angles.frequencies()[i], 1 / std::pow(10000.0, static_cast<double>(i) / 32));
  }
  EXPECT_EQ(angles.magnitude(), 1);
}

TEST(RopeAngles, FillGivesCosinesThenSinesOfThePosition) {
  const RopeAngles angles = Angles({.rope_dim = 8, .freq_base = 500000});
  float row[8];
  angles.Fill(100000, row);
  for (size_t i = 0; i < 4; ++i) {
    const double angle = 100000 * angles.frequencies()[i];
    EXPECT_NEAR(row[i], std::cos(angle), kRopeTolerance);
    EXPECT_NEAR(row[4 + i], std::sin(angle), kRopeTolerance);
  }
}

TEST(RopeAngles, LinearScalingDividesEveryFrequency) {
  RopeConfig config{.rope_dim = 16};
  const RopeAngles plain = Angles(config);
  config.scaling = {.kind = RopeScalingKind::kLinear, .factor = 4};
  const RopeAngles scaled = Angles(config);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(scaled.frequencies()[i], plain.frequencies()[i] / 4);
  }
  EXPECT_EQ(scaled.magnitude(), 1);
}

TEST(RopeAngles, AFactorWithoutAKindOfScalingChangesNothing) {
  RopeConfig config{.rope_dim = 16};
  const RopeAngles plain = Angles(config);
  config.scaling = {.kind = RopeScalingKind::kNone, .factor = 4};
  EXPECT_EQ(Angles(config).frequencies(), plain.frequencies());
}

TEST(RopeAngles, FrequencyFactorsDivideTheirOwnPair) {
  RopeConfig config{.rope_dim = 6};
  const RopeAngles plain = Angles(config);
  config.frequency_factors = {1, 2, 8};
  const RopeAngles scaled = Angles(config);
  EXPECT_DOUBLE_EQ(scaled.frequencies()[0], plain.frequencies()[0]);
  EXPECT_DOUBLE_EQ(scaled.frequencies()[1], plain.frequencies()[1] / 2);
  EXPECT_DOUBLE_EQ(scaled.frequencies()[2], plain.frequencies()[2] / 8);
}

// Worked out by hand for dimension 128, base 10000, context 4096: a pair turns 32 times within the
// context at 20.94 and once at 45.03, so that the ramp goes from pair 20 to pair 46.
TEST(RopeAngles, YarnKeepsFastPairsDividesSlowOnesAndRampsBetween) {
  RopeConfig config{.rope_dim = 128};
  const RopeAngles plain = Angles(config);
  config.scaling = {.kind = RopeScalingKind::kYarn, .factor = 16, .original_context = 4096};
  const RopeAngles yarn = Angles(config);
  for (size_t i = 0; i < 64; ++i) {
    const double kept = i <= 20 ? 1 : i >= 46 ? 0 : 1 - (static_cast<double>(i) - 20) / 26;
    const double expected = plain.frequencies()[i] * (kept + (1 - kept) / 16);
    EXPECT_NEAR(yarn.frequencies()[i], expected, 1e-12 * expected) << i;
  }
  EXPECT_NEAR(yarn.magnitude(), 1 + 0.1 * std::log(16.0), 1e-12);
}

TEST(RopeAngles, YarnMagnitudeFollowsTheAttentionFactorAndLogMultiplier) {
  RopeConfig config{.rope_dim = 64};
  config.scaling = {.kind = RopeScalingKind::kYarn,
                    .factor = 40,
                    .attention_factor = 2,
                    .original_context = 4096};
  EXPECT_NEAR(Angles(config).magnitude(), 2 * (1 + 0.1 * std::log(40.0)), 1e-6);
  config.scaling.yarn_log_multiplier = 0.5f;
  EXPECT_NEAR(Angles(config).magnitude(),
              2 * (1 + 0.1 * std::log(40.0)) / (1 + 0.05 * std::log(40.0)), 1e-6);
  config.scaling.extrapolation_factor = 0;
  EXPECT_EQ(Angles(config).magnitude(), 2) << "no ramp: plain linear scaling";
  config.scaling = {.kind = RopeScalingKind::kYarn, .factor = 0.5f, .original_context = 4096};
  EXPECT_EQ(Angles(config).magnitude(), 1) << "a shorter context needs no correction";
}

TEST(RopeAngles, RefusesWhatHasNoMeaning) {
  const float nan = std::nanf("");
  const RopeScaling no_context{.kind = RopeScalingKind::kYarn, .factor = 2};
  const RopeScaling no_factor{.kind = RopeScalingKind::kLinear, .factor = 0};
  for (const RopeConfig& config : std::initializer_list<RopeConfig>{
           {.rope_dim = 0},
           {.rope_dim = 7},
           {.rope_dim = -2},
           {.rope_dim = 8, .freq_base = 0},
           {.rope_dim = 8, .freq_base = nan},
           {.rope_dim = 8, .scaling = no_context},
           {.rope_dim = 8, .scaling = no_factor},
           {.rope_dim = 8, .frequency_factors = {1, 2, 3}},
           {.rope_dim = 4, .frequency_factors = {1, 0}},
       }) {
    const auto angles = RopeAngles::Create(config);
    ASSERT_FALSE(angles);
    EXPECT_EQ(angles.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_P(RopeKernels, RopeTurnsPairsAndLeavesTheRestOfTheHead) {
  std::mt19937 random(1);
  constexpr int64_t kHeads = 3;
  for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
    for (const int64_t rope_dim : {2, 6, 8, 14, 16, 20, 64, 80, 96, 128}) {
      for (const int64_t head_stride : {rope_dim, rope_dim + 5}) {
        const RopeAngles angles = Angles({.rope_dim = rope_dim});
        std::vector<float> row(static_cast<size_t>(rope_dim));
        angles.Fill(777, row.data());
        const std::vector<float> before = RandomFloats(kHeads * head_stride, random);
        std::vector<float> after = before;
        table().rope(after.data(), kHeads, head_stride, row.data(), rope_dim, pairing);

        std::vector<double> expected(before.begin(), before.end());
        for (int64_t head = 0; head < kHeads; ++head) {
          for (int64_t pair = 0; pair < rope_dim / 2; ++pair) {
            const bool adjacent = pairing == RopePairing::kAdjacent;
            const auto i = static_cast<size_t>(head * head_stride + (adjacent ? 2 * pair : pair));
            const auto j = i + static_cast<size_t>(adjacent ? 1 : rope_dim / 2);
            const double angle = 777 * angles.frequencies()[static_cast<size_t>(pair)];
            expected[i] = before[i] * std::cos(angle) - before[j] * std::sin(angle);
            expected[j] = before[i] * std::sin(angle) + before[j] * std::cos(angle);
          }
        }
        for (size_t i = 0; i < after.size(); ++i) {
          const double turned = std::abs(expected[i]) + 4;
          ASSERT_NEAR(after[i], expected[i], kRopeTolerance * turned) << rope_dim << " " << i;
        }
        for (int64_t i = rope_dim; i < head_stride; ++i) {
          ASSERT_EQ(after[static_cast<size_t>(i)], before[static_cast<size_t>(i)]);
        }
      }
    }
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(RopeKernels, TablesByFunctions(&KernelTable::rope));

}  // namespace
}  // namespace thaw
