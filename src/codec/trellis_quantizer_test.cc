// What is quantized keeps to the format, and its errors and bits are what the quantizer says.
#include "codec/trellis_quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "codec/frozen_format.h"
#include "codec/stream_encoder.h"
#include "tensor/half.h"

namespace thaw {
namespace {

template <typename Distribution>
std::vector<float> Draw(int64_t weights, Distribution distribution, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> drawn(static_cast<size_t>(weights));
  for (float& w : drawn) w = static_cast<float>(distribution(random));
  return drawn;
}

std::vector<float> Gaussian(int64_t weights, uint32_t seed = 1) {
  return Draw(weights, std::normal_distribution<double>(0, 0.02), seed);
}

std::vector<float> HeavyTailed(int64_t weights) {
  return Draw(weights, std::student_t_distribution<double>(5));
}

// As the format says, section 5.
std::vector<float> Decode(int64_t cols, const QuantizedRows& rows) {
  std::vector<float> decoded(rows.q.size());
  for (size_t i = 0; i < rows.q.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / cols;
    decoded[i] = F16ToF32(rows.scales[static_cast<size_t>(row)]) * rows.q[i];
  }
  for (const BlockShift& shift : rows.shifts) {
    for (int64_t i = 0; i < 32; ++i) {
      float& w = decoded[static_cast<size_t>(shift.row * cols + 32 * shift.block + i)];
      w = std::ldexp(w, shift.shift);
    }
  }
  return decoded;
}

double SumOfSquares(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  return sum;
}

double StreamBits(int64_t cols, const QuantizedRows& rows) {
  std::vector<std::byte> stream;
  AppendEcqStream(std::ssize(rows.scales), cols, rows.q, rows.scales, rows.shifts, stream);
  return 8 * static_cast<double>(stream.size()) / static_cast<double>(rows.q.size());
}

void ExpectKeepsToTheFormat(int64_t cols, const QuantizedRows& rows) {
  for (size_t begin = 0; begin < rows.q.size(); begin += static_cast<size_t>(cols)) {
    for (size_t lane = 0; lane < 4; ++lane) {
      Trellis trellis;
      for (size_t col = lane; col < static_cast<size_t>(cols); col += 4) {
        const int8_t q = rows.q[begin + col];
        ASSERT_EQ(q & 1, trellis.bit()) << begin << " " << col;
        trellis.Step(q >> 1 & 1);
      }
    }
  }
  for (const uint16_t scale : rows.scales) EXPECT_LT(scale, 0x7c00);
  for (const BlockShift& shift : rows.shifts) {
    EXPECT_GE(shift.shift, 1);
    EXPECT_LE(shift.shift, 15);
    const float scale = F16ToF32(rows.scales[static_cast<size_t>(shift.row)]);
    EXPECT_LE(std::ldexp(scale, shift.shift), 65504);
  }
}

QuantizedRows LearnAndQuantize(int64_t cols, const std::vector<float>& weights, double step) {
  const auto quantizer = TrellisQuantizer::Learn(cols, weights, step, {});
  return quantizer.Quantize(std::ssize(weights) / cols, weights);
}

TEST(TrellisQuantizer, KeepsToTheTrellisInEveryLane) {
  for (const int64_t cols : {32, 96, 1056}) {
    for (const double step : {0.02, 0.1, 0.3, 1.0, 4.0}) {
      ExpectKeepsToTheFormat(cols, LearnAndQuantize(cols, Gaussian(32 * cols), step));
      ExpectKeepsToTheFormat(cols, LearnAndQuantize(cols, HeavyTailed(32 * cols), step));
    }
  }
}

TEST(TrellisQuantizer, SaysTheErrorThatDecodingHas) {
  constexpr int64_t kCols = 512;
  const std::vector<float> weights = HeavyTailed(64 * kCols);
  for (const double step : {0.03, 0.3}) {
    const QuantizedRows rows = LearnAndQuantize(kCols, weights, step);
    EXPECT_EQ(rows.shifts.empty(), step > 0.1);
    EXPECT_NEAR(rows.error / SumOfSquares(weights, Decode(kCols, rows)), 1, 1e-9);
    EXPECT_NEAR(rows.energy / SumOfSquares(weights, std::vector<float>(weights.size())), 1, 1e-9);
  }
}

TEST(TrellisQuantizer, ErrorFallsAndBitsGrowAsTheStepFalls) {
  constexpr int64_t kCols = 1024;
  const std::vector<float> weights = Gaussian(64 * kCols);
  double error = 1;
  double bits = 0;
  for (const double step : {1.4, 1.0, 0.5, 0.25, 0.12, 0.06}) {
    const auto quantizer = TrellisQuantizer::Learn(kCols, weights, step, {});
    EXPECT_LT(quantizer.relative_rmse(), error);
    EXPECT_GT(quantizer.bits_per_weight(), bits);
    error = quantizer.relative_rmse();
    bits = quantizer.bits_per_weight();
  }
}

// The limit by information theory is log2(1 / rmse) bits. Row scales, head and states are .022
// here.
TEST(TrellisQuantizer, GaussianWeightsTakeLittleMoreThanTheLeastBitsOfTheirError) {
  constexpr int64_t kCols = 4096;
  const std::vector<float> weights = Gaussian(128 * kCols);
  for (const double step : {0.45, 0.29, 0.17, 0.08}) {
    const QuantizedRows rows = LearnAndQuantize(kCols, weights, step);
    const double rmse = std::sqrt(rows.error / rows.energy);
    EXPECT_LT(StreamBits(kCols, rows) + std::log2(rmse), 0.135) << step;
  }
}

TEST(TrellisQuantizer, PredictsTheBitsOfOtherRowsOfTheTensor) {
  constexpr int64_t kCols = 1024;
  const double states = 8 * 1024 / static_cast<double>(512 * kCols);
  for (const bool heavy : {false, true}) {
    const std::vector<float> weights = heavy ? HeavyTailed(768 * kCols) : Gaussian(768 * kCols);
    const auto sample = std::span(weights).first(256 * kCols);
    const auto others = std::span(weights).subspan(256 * kCols);
    for (const double bits : {2.0, 2.5, 3.0, 4.0, 5.0, 6.0}) {
      const auto quantizer = TrellisQuantizer::ForBits(kCols, sample, bits, {});
      EXPECT_NEAR(quantizer.bits_per_weight(), bits, 0.003);
      const QuantizedRows rows = quantizer.Quantize(512, others);
      EXPECT_NEAR(StreamBits(kCols, rows) - states, bits, 0.005 * bits) << heavy;
      EXPECT_NEAR(std::sqrt(rows.error / rows.energy) / quantizer.relative_rmse(), 1, 0.005);
    }
    // A step so small that a third of the blocks or more have shifts.
    const auto small = TrellisQuantizer::Learn(kCols, sample, 0.018, {});
    const QuantizedRows rows = small.Quantize(512, others);
    EXPECT_GT(std::ssize(rows.shifts), 512 * kCols / 32 / 3);
    EXPECT_NEAR((StreamBits(kCols, rows) - states) / small.bits_per_weight(), 1, 0.005);
  }
}

TEST(TrellisQuantizer, FindsTheStepOfAnError) {
  constexpr int64_t kCols = 1024;
  const std::vector<float> weights = HeavyTailed(64 * kCols);
  for (const double rmse : {0.5, 0.15, 0.07, 0.025}) {
    const auto quantizer = TrellisQuantizer::ForError(kCols, weights, rmse, {});
    // With few symbols the error leaps where one comes or goes.
    EXPECT_NEAR(quantizer.relative_rmse() / rmse, 1, rmse == 0.5 ? 0.002 : 0.00101) << rmse;
  }
}

// 0.001 is out of reach for integers of 8 bits: the search ends, at the least step.
TEST(TrellisQuantizer, EndsAtTheLeastStepForWhatIsOutOfReach) {
  constexpr int64_t kCols = 256;
  const auto quantizer = TrellisQuantizer::ForError(kCols, Gaussian(32 * kCols), 0.001, {});
  EXPECT_NEAR(quantizer.step(), 1.0 / 40, 1e-9);
  EXPECT_LT(quantizer.relative_rmse(), 0.015);
  EXPECT_NEAR(TrellisQuantizer::ForBits(kCols, Gaussian(32 * kCols), 8, {}).step(), 1.0 / 40, 1e-9);
}

TEST(TrellisQuantizer, RowsOfZerosAreZeros) {
  constexpr int64_t kCols = 128;
  std::vector<float> weights = Gaussian(32 * kCols);
  std::fill_n(weights.begin() + 3 * kCols, kCols, 0.0F);
  const QuantizedRows rows = LearnAndQuantize(kCols, weights, 0.3);
  ExpectKeepsToTheFormat(kCols, rows);
  EXPECT_EQ(rows.scales[3], 0);
  EXPECT_TRUE(std::all_of(rows.q.begin() + 3 * kCols, rows.q.begin() + 4 * kCols,
                          [](int8_t q) { return q == 0; }));
  EXPECT_NE(rows.scales[4], 0);

  const std::vector<float> zeros(16 * kCols);
  const auto quantizer = TrellisQuantizer::Learn(kCols, zeros, 0.3, {});
  EXPECT_EQ(quantizer.relative_rmse(), 0);
  const QuantizedRows all = quantizer.Quantize(16, zeros);
  EXPECT_EQ(all.q, std::vector<int8_t>(zeros.size()));
  EXPECT_EQ(all.error, 0);
}

// The outlier's block takes the shift; its own error is that of a rounding there, and what it does
// to the others is that they are as coarse as its row is large.
TEST(TrellisQuantizer, AnOutlierShiftsItsBlock) {
  constexpr int64_t kCols = 4096;
  std::vector<float> weights = Gaussian(32 * kCols);
  const auto quantizer = TrellisQuantizer::Learn(kCols, weights, 0.2, {});
  weights[5 * kCols + 70] = 1000 * 0.02F;
  const QuantizedRows rows = quantizer.Quantize(32, weights);
  ExpectKeepsToTheFormat(kCols, rows);
  ASSERT_EQ(rows.shifts.size(), 1);
  EXPECT_EQ(rows.shifts[0].row, 5);
  EXPECT_EQ(rows.shifts[0].block, 2);
  const std::vector<float> decoded = Decode(kCols, rows);
  EXPECT_NEAR(decoded[5 * kCols + 70] / weights[5 * kCols + 70], 1, 0.02);
  const auto row = std::span(weights).subspan(5 * kCols, kCols);
  const double relative =
      std::sqrt(SumOfSquares(row, std::span(decoded).subspan(5 * kCols, kCols)) /
                SumOfSquares(row, std::vector<float>(kCols)));
  EXPECT_LT(relative, 1.1 * quantizer.relative_rmse());
  std::vector<std::byte> stream;
  AppendEcqStream(32, kCols, rows.q, rows.scales, rows.shifts, stream);
  EXPECT_FALSE(stream.empty());
}

TEST(TrellisQuantizer, RowsBeyondTheRangeOfHalvesStayFinite) {
  constexpr int64_t kCols = 64;
  std::vector<float> weights = Gaussian(32 * kCols);
  const auto quantizer = TrellisQuantizer::Learn(kCols, weights, 0.3, {});
  const float factors[] = {1e36F, 1e20F, 1e8F, 1e-4F, 1e-6F, 1e-10F, 1e-40F};
  for (size_t row = 0; row < std::size(factors); ++row) {
    for (size_t col = 0; col < kCols; ++col) weights[row * kCols + col] *= factors[row] * 50;
  }
  const QuantizedRows rows = quantizer.Quantize(32, weights);
  ExpectKeepsToTheFormat(kCols, rows);
  EXPECT_EQ(rows.scales[6], 0);
  EXPECT_TRUE(std::isfinite(rows.error));
  const std::vector<float> decoded = Decode(kCols, rows);
  EXPECT_NEAR(rows.error / SumOfSquares(weights, decoded), 1, 1e-6);
  // Of these the scales are normal, and subnormal by a few bits.
  for (const size_t row : {3, 4}) {
    const auto of_row = std::span(weights).subspan(row * kCols, kCols);
    EXPECT_LT(SumOfSquares(of_row, std::span(decoded).subspan(row * kCols, kCols)),
              0.04 * SumOfSquares(of_row, std::vector<float>(kCols)));
  }
}

TEST(TrellisQuantizer, AGroupDoesNotDependOnItsNeighbours) {
  constexpr int64_t kCols = 160;
  const std::vector<float> weights = HeavyTailed(48 * kCols);
  const auto quantizer = TrellisQuantizer::Learn(kCols, weights, 0.1, {});
  const QuantizedRows all = quantizer.Quantize(48, weights);
  const QuantizedRows again =
      TrellisQuantizer::Learn(kCols, weights, 0.1, {}).Quantize(48, weights);
  EXPECT_EQ(again.q, all.q);
  EXPECT_EQ(again.scales, all.scales);
  for (size_t group = 0; group < 3; ++group) {
    const QuantizedRows one =
        quantizer.Quantize(16, std::span(weights).subspan(group * 16 * kCols, 16 * kCols));
    EXPECT_TRUE(std::equal(one.q.begin(), one.q.end(),
                           all.q.begin() + static_cast<int64_t>(group) * 16 * kCols));
    EXPECT_TRUE(std::equal(one.scales.begin(), one.scales.end(), all.scales.begin() + group * 16));
  }
}

TEST(TrellisQuantizer, ColumnsThatWeighMoreHaveLessError) {
  constexpr int64_t kCols = 256;
  const std::vector<float> weights = Gaussian(256 * kCols);
  std::vector<float> columns(kCols, 1.0F);
  std::fill_n(columns.begin(), kCols / 2, 20.0F);
  const auto quantizer = TrellisQuantizer::Learn(kCols, weights, 0.3, columns);
  const QuantizedRows rows = quantizer.Quantize(256, weights);
  const std::vector<float> decoded = Decode(kCols, rows);
  double heavy = 0;
  double light = 0;
  double weighed = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double error = std::pow(static_cast<double>(weights[i]) - decoded[i], 2);
    (i % kCols < kCols / 2 ? heavy : light) += error;
    weighed += columns[i % kCols] * error;
  }
  EXPECT_LT(heavy, 0.9 * light);
  EXPECT_NEAR(rows.error / weighed, 1, 1e-6);

  // What they are measured in is of no account.
  for (float& column : columns) column *= 1e-3F;
  const auto scaled = TrellisQuantizer::Learn(kCols, weights, 0.3, columns);
  EXPECT_NEAR(scaled.relative_rmse() / quantizer.relative_rmse(), 1, 1e-4);
}

}  // namespace
}  // namespace thaw
