#include "kernels/activations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/kernel_test_support.h"
#include "kernels/portable/portable.h"
#include "tensor/half.h"

namespace thaw {
namespace {

class QuantizeKernels : public EachKernelTable {};

constexpr int64_t kLength = 96;
constexpr int64_t kWideLength = 2 * kWideActivationBlock;
constexpr int64_t kTokens = 200;

// Values from the smallest subnormals to 2^60, with zeros, ties and equal blocks among them.
std::vector<float> ManyMagnitudes(std::mt19937& random) {
  std::vector<float> values = RandomFloats(kTokens * kLength, random);
  for (int64_t token = 0; token < kTokens; ++token) {
    float* row = &values[static_cast<size_t>(token * kLength)];
    const int exponent = static_cast<int>(token) - 140;
    for (int64_t i = 0; i < kLength; ++i) {
      row[i] = token % 3 == 0 ? std::ldexp(row[i], exponent) : row[i] * static_cast<float>(token);
    }
    // A largest value of 127 makes steps of 1, so that these are exact ties.
    if (token % 5 == 0) {
      for (int64_t i = 0; i < kLength; ++i) row[i] = static_cast<float>(i) - 63.5f;
      row[0] = 127.0f;
    }
  }
  return values;
}

TEST_P(QuantizeKernels, QuantizingGivesTheSameBitsAsThePortableKernels) {
  std::mt19937 random(1);
  std::vector<float> values = ManyMagnitudes(random);
  std::fill_n(values.begin(), kLength, 0.0f);
  values[3 * kLength] = std::numeric_limits<float>::infinity();
  values[6 * kLength + 40] = -std::numeric_limits<float>::infinity();
  values[9 * kLength + 95] = std::numeric_limits<float>::quiet_NaN();
  ScratchMemory mine(ActivationBytes(kTokens, kLength));
  ScratchMemory reference(ActivationBytes(kTokens, kLength));
  const Activations a = ViewActivations(values.data(), kTokens, kLength, mine.data());
  const Activations b = ViewActivations(values.data(), kTokens, kLength, reference.data());
  table().quantize_activations(a, 0, 71);
  table().quantize_activations(a, 71, kTokens);
  portable::QuantizeActivations(b, 0, kTokens);
  EXPECT_EQ(0, std::memcmp(mine.data(), reference.data(),
                           static_cast<size_t>(ActivationBytes(kTokens, kLength))));
}

TEST_P(QuantizeKernels, QuantizingIsOffByHalfAStepAtMost) {
  std::mt19937 random(2);
  const std::vector<float> values = ManyMagnitudes(random);
  const OwnedActivations activations(table(), values, kTokens, kLength);
  for (int64_t i = 0; i < kTokens * kLength; ++i) {
    const float value = values[static_cast<size_t>(i)];
    const double step = activations.Step(i / kLength, i % kLength);
    // Blocks below 2^-121 become zero.
    const double bound = step == 0 ? 0x1p-121 : 0.50001 * step;
    ASSERT_NEAR(activations.Quantized(i / kLength, i % kLength), value, bound) << i;
    const int8_t* of_token = activations.view().quants + i / kLength * QuantStride(kLength);
    ASSERT_LE(std::abs(int{of_token[i % kLength]}), 127);
  }
}

TEST_P(QuantizeKernels, TheSumsAreThoseOfTheQuantizedValues) {
  std::mt19937 random(3);
  const OwnedActivations activations(table(), RandomFloats(kLength, random), 1, kLength);
  int sum_of_step = 0;
  for (int64_t group = 0; group < kLength / kActivationSum; ++group) {
    int sum = 0;
    for (int64_t i = 0; i < kActivationSum; ++i) {
      sum += activations.view().quants[group * kActivationSum + i];
    }
    EXPECT_EQ(activations.view().sums[group], static_cast<float>(sum));
    EXPECT_EQ(activations.view().corrections[group], -kCorrectionUnit * sum);
    sum_of_step += sum;
    if (group % 2 == 0) continue;
    EXPECT_EQ(activations.view().step_sums[group / 2], static_cast<float>(sum_of_step));
    EXPECT_EQ(activations.view().step_corrections[group / 2], -kCorrectionUnit * sum_of_step);
    sum_of_step = 0;
  }
}

// -kPairUnit times the sum of quants [first, first + 2) of each four of n, modulo 2^16.
int16_t PairCorrectionOf(const int8_t* quants, int64_t first, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = first; i < first + n; i += 4) sum += quants[i] + quants[i + 1];
  return static_cast<int16_t>(-kPairUnit * sum);
}

TEST_P(QuantizeKernels, PairCorrectionsAreThoseOfTheQuantizedValues) {
  std::mt19937 random(8);
  constexpr int64_t kNarrowLength = kWideLength + kActivationStep;
  std::vector<float> values = RandomFloats(2 * kNarrowLength, random);
  // Alike, so that the sums are as large as they can be.
  std::fill_n(values.begin() + 64, 32, 4.0f);
  std::fill_n(values.begin() + 96, 32, -4.0f);
  const OwnedActivations narrow(table(), values, 2, kNarrowLength);
  values.resize(2 * kWideLength);
  const OwnedActivations wide(table(), values, 2, kWideLength, ActivationCopy::kWide);
  const auto quants_of = [](const Activations& a, int64_t token) {
    return a.quants + token * QuantStride(a.k);
  };
  for (const OwnedActivations* activations : {&narrow, &wide}) {
    const Activations& a = activations->view();
    for (int64_t i = 0; i < 2 * (a.k / 4); ++i) {
      const int64_t at = i % (a.k / 4);
      const int8_t* quants = quants_of(a, i / (a.k / 4)) + at / 2 * 8;
      ASSERT_EQ(a.pair_corrections[i], PairCorrectionOf(quants, at % 2 * 2, 8)) << i;
    }
  }
  const Activations& a = wide.view();
  for (int64_t i = 0; i < 2 * (a.k / 8); ++i) {
    const int64_t at = i % (a.k / 8);
    const int8_t* quants = quants_of(a, i / (a.k / 8)) + at / 2 * 16;
    ASSERT_EQ(a.wide_pair_corrections[i], PairCorrectionOf(quants, at % 2 * 2, 16)) << i;
  }
  const Activations second = TokensOf(a, 1, 1);
  EXPECT_EQ(second.pair_corrections, a.pair_corrections + a.k / 4);
  EXPECT_EQ(second.wide_pair_corrections, a.wide_pair_corrections + a.k / 8);
}

TEST_P(QuantizeKernels, OutliersAreKeptApartAndLeaveTheirBlockItsSteps) {
  std::mt19937 random(4);
  std::vector<float> values = RandomFloats(2 * 576, random);
  // 576 numbers of about 1: these four raise the root mean square to about 6.
  const Outlier expected[] = {{5, 80.0f}, {247, -90.0f}, {250, 60.0f}, {575, 50.0f}};
  for (const Outlier& outlier : expected)
    values[static_cast<size_t>(outlier.index)] = outlier.value;
  const OwnedActivations activations(table(), values, 2, 576);
  const Activations& a = activations.view();
  ASSERT_EQ(OutlierCount(a, 0), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(a.outliers[i].index, expected[i].index);
    EXPECT_EQ(a.outliers[i].value, expected[i].value);
    EXPECT_EQ(a.quants[expected[i].index], 0);
  }
  for (int64_t i = 0; i < 576; ++i) EXPECT_LT(activations.Step(0, i), 4.0 / 127);
  EXPECT_EQ(OutlierCount(a, 1), 0);
}

TEST_P(QuantizeKernels, ATokenHasNoMoreOutliersThanItsLengthAllows) {
  // One number in seventeen far above the rest: as many as can be above four times the root mean
  // square, or just too many.
  for (const int64_t count : {1, 35, 36, 37, 576}) {
    std::vector<float> values(576, 0.0f);
    std::fill_n(values.begin(), count, 3.0f);
    const OwnedActivations activations(table(), values, 1, 576);
    EXPECT_EQ(OutlierCount(activations.view(), 0), count < 36 ? count : 0) << count;
    EXPECT_FLOAT_EQ(static_cast<float>(activations.Quantized(0, 0)), 3.0f);
  }
}

TEST_P(QuantizeKernels, OutliersOfAWideCopyAreFiveTimesTheRootMeanSquare) {
  // Of n numbers among 512, all others 0, each is sqrt(512 / n) times the root mean square.
  for (const int64_t count : {1, 20, 21, 33}) {
    std::vector<float> values(2 * kWideActivationBlock, 0.0f);
    std::fill_n(values.begin(), count, 3.0f);
    const OwnedActivations activations(table(), values, 1, 2 * kWideActivationBlock,
                                       ActivationCopy::kWide);
    EXPECT_EQ(OutlierCount(activations.view(), 0), count <= 20 ? count : 0) << count;
  }
}

TEST_P(QuantizeKernels, ARoundedCopyHasTheNearestNumbers) {
  std::mt19937 random(7);
  constexpr int64_t kRounded = 3 * kActivationStep;
  std::vector<float> values = RandomFloats(5 * kRounded, random);
  values[1] = 1 + 0x1p-8f;  // ties
  values[2] = 1 + 0x3p-8f;
  values[3] = std::numeric_limits<float>::infinity();
  values[4] = -std::numeric_limits<float>::max();
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const OwnedActivations all(table(), values, 5, kRounded, ActivationCopy::kRounded);
  const Activations last = TokensOf(all.view(), 4, 1);
  for (int64_t i = 0; i < 5 * kRounded; ++i) {
    const uint16_t expected = F32ToBF16(values[static_cast<size_t>(i)]);
    const int64_t at = i % kRounded;
    EXPECT_EQ(all.view().rounded[i / kRounded * RoundedStride(kRounded) + at], expected) << i;
    if (i / kRounded == 4) {
      EXPECT_EQ(last.rounded[at], expected) << i;
    }
  }
}

// Blocks of 64: of normal numbers, all alike, of one number, of one and small ones, zeros, numbers
// near the ends of float, and what is not finite.
std::vector<float> ValuesForShorts(std::mt19937& random) {
  std::vector<float> values = RandomFloats(9 * kActivationBlock, random);
  const auto fill = [&](int64_t block, float first, float rest) {
    const auto begin = values.begin() + block * kActivationBlock;
    std::fill_n(begin, kActivationBlock, rest);
    *begin = first;
  };
  fill(1, -3, 3);
  fill(2, 7, 0);
  fill(3, 1000, 0.5f);
  fill(4, 0, 0);
  fill(5, 1e-40f, -1e-40f);
  fill(6, -3e38f, 3e38f);
  fill(7, 1, std::numeric_limits<float>::infinity());
  fill(8, 1, std::numeric_limits<float>::quiet_NaN());
  return values;
}

TEST_P(QuantizeKernels, ShortsAreWithinHalfAStepAndTheirMagnitudesAddUpToNoMoreThanTheyMay) {
  std::mt19937 random(8);
  const std::vector<float> values = ValuesForShorts(random);
  const auto k = static_cast<int64_t>(values.size());
  const OwnedActivations activations(table(), values, 1, k, ActivationCopy::kShorts);
  for (int64_t block = 0; block < 7; ++block) {
    const double scale = double{activations.view().scales[block]};
    int64_t magnitudes = 0;
    int64_t largest = 0;
    for (int64_t i = block * kActivationBlock; i < (block + 1) * kActivationBlock; ++i) {
      const int64_t number = activations.view().shorts[i];
      magnitudes += std::abs(number);
      largest = std::max(largest, std::abs(number));
      const double value = double{values[static_cast<size_t>(i)]};
      EXPECT_NEAR(scale * static_cast<double>(number), value,
                  0.5 * scale + 1e-7 * std::abs(value) + 1e-39)
          << i;
    }
    EXPECT_LE(magnitudes, kMostOfShorts) << block;
    // As fine as either limit allows; a few steps are lost to rounding.
    if (block < 4 || block == 6) {
      EXPECT_TRUE(largest == 32767 || magnitudes > kMostOfShorts - 80) << block;
    }
  }
  EXPECT_TRUE(std::isinf(activations.view().scales[7]));
  EXPECT_TRUE(std::isnan(activations.view().scales[8]));
  for (int64_t i = 7 * kActivationBlock; i < 9 * kActivationBlock; ++i) {
    EXPECT_EQ(activations.view().shorts[i], 0) << i;
  }
}

TEST_P(QuantizeKernels, ShortsAreTheSameBitsInEveryTable) {
  std::mt19937 random(9);
  const std::vector<float> values = ValuesForShorts(random);
  const auto k = static_cast<int64_t>(values.size());
  const OwnedActivations found(table(), values, 1, k, ActivationCopy::kShorts);
  const OwnedActivations expected(*AllKernelTables().back(), values, 1, k, ActivationCopy::kShorts);
  for (int64_t i = 0; i < k; ++i) {
    EXPECT_EQ(found.view().shorts[i], expected.view().shorts[i]) << i;
  }
  EXPECT_EQ(0, std::memcmp(found.view().scales, expected.view().scales,
                           static_cast<size_t>(k / kActivationBlock) * sizeof(float)));
}

TEST_P(QuantizeKernels, ABlockWithoutFiniteLargestValueGetsItAsItsScale) {
  std::vector<float> values(2 * kActivationBlock, 1.0f);
  values[0] = std::numeric_limits<float>::infinity();
  values[2 * kActivationBlock - 1] = std::numeric_limits<float>::quiet_NaN();
  const OwnedActivations activations(table(), values, 1, 2 * kActivationBlock);
  EXPECT_TRUE(std::isinf(activations.view().scales[0]));
  EXPECT_TRUE(std::isnan(activations.view().scales[1]));
  EXPECT_EQ(activations.view().sums[0], 0.0f);
}

// Tokens of a wide copy: random ones, with outliers, and such that magnitudes add up to too much.
std::vector<float> WideValues(std::mt19937& random) {
  std::vector<float> values = RandomFloats(kTokens * kWideLength, random);
  for (int64_t token = 0; token < kTokens; ++token) {
    float* row = &values[static_cast<size_t>(token * kWideLength)];
    if (token % 4 == 1) row[token] *= 50;
    if (token % 4 == 2) std::fill_n(row + token, 40 + token % 3 * 60, -3.0f);
    if (token % 4 == 3)
      std::fill_n(row, kWideLength, std::ldexp(1.0f, static_cast<int>(token) - 100));
  }
  std::fill_n(values.begin(), kWideLength, 0.0f);
  values[4 * kWideLength + 300] = std::numeric_limits<float>::infinity();
  values[8 * kWideLength + 17] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

TEST_P(QuantizeKernels, WideCopiesAreTheSameBitsAsThoseOfThePortableKernels) {
  std::mt19937 random(5);
  const std::vector<float> values = WideValues(random);
  const int64_t bytes = ActivationBytes(kTokens, kWideLength);
  ScratchMemory mine(bytes);
  ScratchMemory reference(bytes);
  const auto view = [&](ScratchMemory& memory) {
    return ViewActivations(values.data(), kTokens, kWideLength, memory.data(),
                           ActivationCopy::kWide);
  };
  table().quantize_activations(view(mine), 0, 71);
  table().quantize_activations(view(mine), 71, kTokens);
  portable::QuantizeActivations(view(reference), 0, kTokens);
  EXPECT_EQ(0, std::memcmp(mine.data(), reference.data(), static_cast<size_t>(bytes)));
}

TEST_P(QuantizeKernels, AWideCopyHasOneScaleFor256AndSumsThatFit) {
  std::mt19937 random(6);
  const std::vector<float> values = WideValues(random);
  const OwnedActivations activations(table(), values, kTokens, kWideLength, ActivationCopy::kWide);
  const Activations& a = activations.view();
  int32_t most = 0;
  for (int64_t token = 0; token < kTokens; ++token) {
    if (token == 4 || token == 8) continue;  // infinite, NaN
    for (int64_t i = 0; i < kWideLength; ++i) {
      const double step = activations.Step(token, i);
      ASSERT_EQ(step, activations.Step(token, i / kWideActivationBlock * kWideActivationBlock));
      const double value = values[static_cast<size_t>(token * kWideLength + i)];
      ASSERT_NEAR(activations.Quantized(token, i), value, 0.50001 * step) << token << " " << i;
    }
    int32_t before = 0;
    for (int64_t group = 0; group < kWideLength / kActivationSum; ++group) {
      int32_t sum = 0;
      int32_t magnitude = 0;
      for (int64_t i = 0; i < kActivationSum; ++i) {
        const int32_t quant =
            a.quants[token * QuantStride(kWideLength) + group * kActivationSum + i];
        sum += quant;
        magnitude += std::abs(quant);
      }
      most = std::max(most, magnitude);
      ASSERT_LE(magnitude, kMostOfWideSum);
      ASSERT_EQ(a.half_sums[token * (kWideLength / kActivationSum) + group], sum);
      if (group % 2 == 1) {
        const int64_t step = token * (kWideLength / kActivationStep) + group / 2;
        ASSERT_EQ(a.half_step_sums[step], before + sum);
        ASSERT_EQ(a.second_corrections[step], (1 << 15) - kCorrectionUnit * sum);
      }
      before = sum;
    }
  }
  EXPECT_GT(most, kMostOfWideSum - 40);
}

TEST(Activations, HaveNoQuantizedCopyWhenTheirLengthIsNoMultipleOf32) {
  const std::vector<float> values(33);
  EXPECT_EQ(ActivationBytes(1, 33), 0);
  const Activations activations = ViewActivations(values.data(), 1, 33, nullptr);
  EXPECT_EQ(activations.quants, nullptr);
  portable::QuantizeActivations(activations, 0, 1);
}

// A copied token has the bits that quantizing it there would have given, whatever the copy, and its
// neighbors keep theirs.
TEST(Activations, CopyingATokenIsQuantizingItThere) {
  std::mt19937 random(1);
  std::vector<float> values = RandomFloats(3 * kWideLength, random);
  values[kWideLength + 7] = 50;  // an outlier of the second token
  std::vector<float> second_twice = values;
  std::copy_n(&values[kWideLength], kWideLength, &second_twice[2 * kWideLength]);
  const int64_t bytes = ActivationBytes(3, kWideLength);
  for (const auto copy :
       {ActivationCopy::kNone, ActivationCopy::kRounded, ActivationCopy::kSplit,
        ActivationCopy::kShorts, ActivationCopy::kWide, ActivationCopy::kNarrow}) {
    ScratchMemory read(bytes);
    ScratchMemory copied(bytes);
    ScratchMemory quantized(bytes);
    const auto view = [&](const float* of, ScratchMemory& memory) {
      return ViewActivations(of, 3, kWideLength, memory.data(), copy);
    };
    portable::QuantizeActivations(view(values.data(), read), 0, 3);
    portable::QuantizeActivations(view(second_twice.data(), quantized), 0, 3);
    portable::QuantizeActivations(view(values.data(), copied), 0, 3);
    CopyToken(view(values.data(), read), 1, view(nullptr, copied), 2);
    EXPECT_EQ(0, std::memcmp(copied.data(), quantized.data(), static_cast<size_t>(bytes)))
        << static_cast<int>(copy);
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(QuantizeKernels,
                              TablesByFunctions(&KernelTable::quantize_activations));

}  // namespace
}  // namespace thaw
