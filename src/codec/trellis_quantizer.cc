#include "codec/trellis_quantizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "codec/alphabet.h"
#include "codec/frozen_format.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// What a bit costs in units of scale^2: what it saves. The error is .254 scale^2 a weight
// (measured; rounding alone, on twice the grid, would leave 1/3), and falls by a factor of 4 a bit:
// 2 ln 2 times .254. For the same error of Gaussian weights that takes .013 bits a weight less than
// 0 does at 2.8 bits, .005 at 4.7; .2 and .5 take at most .004 more.
constexpr double kRatePrice = .35;
// Below 2 bits a weight the third pass still saves .1 %; a fourth changes nothing.
constexpr int kLearningPasses = 3;

// ForError and ForBits look for steps between these. Gaussian weights take 6.44 bits at the least,
// for an error of .0136; with finer steps so many blocks are shifted that the error falls no
// further. At the greatest they are all 0.
constexpr double kLeastStep = 1.0 / 40;
constexpr double kGreatestStep = 4;
// How near they come, in relative error and in bits; a sample of 2^18 weights tells no more.
constexpr double kErrorTolerance = 1e-3;
constexpr double kBitsTolerance = 3e-3;
// Both are nearly straight lines over the logarithm of the step: 3 evaluations are usual.
constexpr int kMostEvaluations = 10;

constexpr uint16_t kLargestHalf = 0x7bff;
constexpr float kLargestInteger = 127;

// The half nearest to a number that is not negative; the largest finite one for what is beyond.
uint16_t ScaleAsHalf(double scale) {
  return std::min(F32ToF16(static_cast<float>(std::min(scale, 1e6))), kLargestHalf);
}

// What a block and a row are about; of double precision, as weights may be as large as floats get.
struct RowSums {
  double energy = 0;   // column weight * weight^2
  double product = 0;  // column weight * weight * integer
  double square = 0;   // column weight * integer^2

  double ErrorWith(double scale) const {
    return std::max(0.0, energy - 2 * scale * product + scale * scale * square);
  }
};

constexpr size_t kBlock = static_cast<size_t>(kFrozenBlock);
// Sums are kept by the column modulo this, so that compilers may add several at a time.
constexpr size_t kPartialSums = 8;
using PartialSums = std::array<double, kPartialSums>;

double Sum(const PartialSums& sums) {
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

double RootMeanSquare(std::span<const float> row) {
  PartialSums sums = {};
  for (size_t i = 0; i < row.size(); i += kPartialSums) {
    for (size_t j = 0; j < kPartialSums; ++j) {
      const double w = row[i + j];
      sums[j] += w * w;
    }
  }
  return std::sqrt(Sum(sums) / static_cast<double>(row.size()));
}

// The shift with which `largest` is within 127 scales, or the greatest that keeps the scale finite.
int ShiftFor(float largest, float scale) {
  int shift = 0;
  while (shift < (1 << kFrozenShiftBits) - 1 && largest > kLargestInteger * scale &&
         2 * scale <= F16ToF32(kLargestHalf)) {
    scale *= 2;
    ++shift;
  }
  return shift;
}

// Sums over a block, of the integers times 2^shift.
void AddBlock(const float* weights, const int8_t* q, const float* column_weights, int shift,
              RowSums& row) {
  PartialSums energy = {};
  PartialSums product = {};
  PartialSums square = {};
  for (size_t i = 0; i < kBlock; i += kPartialSums) {
    for (size_t j = 0; j < kPartialSums; ++j) {
      const double w = weights[i + j];
      const double c = column_weights[i + j];
      const double n = q[i + j];
      const double cw = c * w;
      energy[j] += cw * w;
      product[j] += cw * n;
      square[j] += c * n * n;
    }
  }
  const double unit = std::ldexp(1.0, shift);
  row.energy += Sum(energy);
  row.product += Sum(product) * unit;
  row.square += Sum(square) * unit * unit;
}

// What each number m takes by this alphabet.
std::array<double, kFrozenNumbers> NumberBits(const Alphabet& alphabet) {
  std::array<double, kFrozenNumbers> bits;
  for (int i = 0; i < kFrozenNumbers; ++i) {
    bits[static_cast<size_t>(i)] =
        alphabet.BitsOf((kFrozenLeastNumber + i) >> alphabet.raw_planes) + alphabet.raw_planes;
  }
  return bits;
}

using Counts = std::array<int64_t, kFrozenNumbers>;

// How often each number m occurs where weights are rounded to the next integer: what learning
// begins with.
Counts CountRounded(int64_t cols, std::span<const float> sample, double step) {
  Counts counts = {};
  for (size_t begin = 0; begin < sample.size(); begin += static_cast<size_t>(cols)) {
    const auto row = sample.subspan(begin, static_cast<size_t>(cols));
    const double scale = step * RootMeanSquare(row);
    for (const float w : row) {
      const double q = scale > 0 ? std::clamp(std::floor(w / scale + 0.5), -128.0, 127.0) : 0;
      ++counts[static_cast<size_t>((static_cast<int>(q) >> 1) - kFrozenLeastNumber)];
    }
  }
  return counts;
}

Counts CountNumbers(std::span<const int8_t> q) {
  Counts counts = {};
  for (const int8_t integer : q) ++counts[static_cast<size_t>((integer >> 1) - kFrozenLeastNumber)];
  return counts;
}

}  // namespace

TrellisQuantizer TrellisQuantizer::Learn(int64_t cols, std::span<const float> sample, double step,
                                         std::span<const float> column_weights) {
  THAW_CHECK(cols > 0 && cols % kFrozenBlock == 0 && step > 0);
  THAW_CHECK(!sample.empty() && std::ssize(sample) % (kFrozenGroupRows * cols) == 0);
  THAW_CHECK(column_weights.empty() || std::ssize(column_weights) == cols);
  TrellisQuantizer made;
  made.cols_ = cols;
  made.step_ = step;
  made.column_weights_.assign(static_cast<size_t>(cols), 1.0f);
  if (!column_weights.empty()) {
    double sum = 0;
    for (const float weight : column_weights) sum += weight;
    made.mean_column_weight_ = sum / static_cast<double>(cols);
    std::ranges::transform(column_weights, made.column_weights_.begin(), [&](float weight) {
      return static_cast<float>(weight / made.mean_column_weight_);
    });
  }
  Counts counts = CountRounded(cols, sample, step);
  for (int pass = 0; pass < kLearningPasses; ++pass) {
    made.costs_ = TrellisCosts(NumberBits(ChooseEcqAlphabet(counts)), kRatePrice);
    const int64_t rows = std::ssize(sample) / cols;
    const QuantizedRows quantized = made.Quantize(rows, sample);
    counts = CountNumbers(quantized.q);
    const auto weights = static_cast<double>(sample.size());
    const double bits = ChooseEcqAlphabet(counts).bits + 16 * static_cast<double>(rows) +
                        32 * static_cast<double>(quantized.shifts.size()) +
                        8 * static_cast<double>(sizeof(FrozenStreamHeader));
    made.bits_per_weight_ = bits / weights;
    made.relative_rmse_ =
        quantized.energy > 0 ? std::sqrt(quantized.error / quantized.energy) : 0.0;
  }
  return made;
}

// Learns for steps until what `measure` says of the quantizer is `target`: a line over the
// logarithm of the step that rises by about `slope`, through the last two points. Where it leaps
// over the target, as where a symbol comes or goes, the nearest that was found.
template <typename Measure>
TrellisQuantizer LearnUntil(int64_t cols, std::span<const float> sample,
                            std::span<const float> column_weights, const Measure& measure,
                            double target, double tolerance, double slope) {
  double at = std::log(.3);
  double before_at = 0;
  double before = 0;
  std::optional<TrellisQuantizer> nearest;
  double least_distance = std::numeric_limits<double>::infinity();
  for (int evaluation = 1; evaluation <= kMostEvaluations; ++evaluation) {
    TrellisQuantizer made = TrellisQuantizer::Learn(cols, sample, std::exp(at), column_weights);
    const double found = measure(made);
    const double distance = std::abs(found - target);
    if (distance < least_distance) nearest = std::move(made);
    least_distance = std::min(least_distance, distance);
    if (distance <= tolerance) break;
    double line = slope;
    if (evaluation > 1)
      line = std::clamp((found - before) / (at - before_at) / slope, .25, 4.0) * slope;
    before_at = at;
    before = found;
    at = std::clamp(at + (target - found) / line, std::log(kLeastStep), std::log(kGreatestStep));
    if (at == before_at) break;
  }
  return *std::move(nearest);
}

TrellisQuantizer TrellisQuantizer::ForError(int64_t cols, std::span<const float> sample,
                                            double relative_rmse,
                                            std::span<const float> column_weights) {
  THAW_CHECK(relative_rmse > 0);
  const auto measure = [](const TrellisQuantizer& made) {
    return std::log(std::max(made.relative_rmse(), 1e-9));
  };
  return LearnUntil(cols, sample, column_weights, measure, std::log(relative_rmse), kErrorTolerance,
                    1);
}

TrellisQuantizer TrellisQuantizer::ForBits(int64_t cols, std::span<const float> sample,
                                           double bits_per_weight,
                                           std::span<const float> column_weights) {
  const auto measure = [](const TrellisQuantizer& made) { return made.bits_per_weight(); };
  return LearnUntil(cols, sample, column_weights, measure, bits_per_weight, kBitsTolerance,
                    -1 / std::log(2.0));
}

struct TrellisQuantizer::Group {
  int64_t first_row;
  std::span<const float> weights;
  std::vector<int> shifts;         // [16, blocks]
  std::vector<float> reciprocals;  // [16, blocks] of the blocks' scales; 0 where the scale is 0
};

void TrellisQuantizer::ScaleRow(int64_t r, Group& group, QuantizedRows& out) const {
  const auto row =
      group.weights.subspan(static_cast<size_t>(r * cols_), static_cast<size_t>(cols_));
  const uint16_t half = ScaleAsHalf(step_ * RootMeanSquare(row));
  out.scales[static_cast<size_t>(group.first_row + r)] = half;
  const float scale = F16ToF32(half);
  if (scale == 0) return;
  const int64_t blocks = cols_ / kFrozenBlock;
  for (int64_t b = 0; b < blocks; ++b) {
    float largest = 0;
    for (const float w : row.subspan(static_cast<size_t>(b) * kBlock, kBlock)) {
      largest = std::max(largest, std::abs(w));
    }
    const int shift = ShiftFor(largest, scale);
    const auto at = static_cast<size_t>(r * blocks + b);
    group.shifts[at] = shift;
    group.reciprocals[at] = 1 / std::ldexp(scale, shift);
    if (shift > 0) out.shifts.push_back({group.first_row + r, b, shift});
  }
}

void TrellisQuantizer::FitRow(int64_t r, const Group& group, QuantizedRows& out) const {
  const auto cols = static_cast<size_t>(cols_);
  uint16_t& half = out.scales[static_cast<size_t>(group.first_row + r)];
  const std::span<int8_t> q(out.q.data() + (group.first_row + r) * cols_, cols);
  if (half == 0) std::ranges::fill(q, int8_t{0});
  const float* weights = group.weights.data() + r * cols_;
  const auto shifts =
      std::span(group.shifts).subspan(static_cast<size_t>(r) * cols / kBlock, cols / kBlock);
  RowSums sums;
  for (size_t b = 0; b < shifts.size(); ++b) {
    AddBlock(weights + b * kBlock, q.data() + b * kBlock, column_weights_.data() + b * kBlock,
             shifts[b], sums);
  }
  double error = sums.ErrorWith(F16ToF32(half));
  if (half != 0 && sums.square > 0) {
    const uint16_t fitted = ScaleAsHalf(std::max(0.0, sums.product / sums.square));
    const float largest = std::ldexp(F16ToF32(fitted), std::ranges::max(shifts));
    const double fitted_error = sums.ErrorWith(F16ToF32(fitted));
    if (largest <= F16ToF32(kLargestHalf) && fitted_error < error) {
      half = fitted;
      error = fitted_error;
    }
  }
  out.error += mean_column_weight_ * error;
  out.energy += mean_column_weight_ * sums.energy;
}

QuantizedRows TrellisQuantizer::Quantize(int64_t rows, std::span<const float> weights) const {
  THAW_CHECK(rows % kFrozenGroupRows == 0 && std::ssize(weights) == rows * cols_);
  QuantizedRows out;
  out.q.resize(weights.size());
  out.scales.resize(static_cast<size_t>(rows));
  TrellisSearch search(cols_);
  const auto of_group = static_cast<size_t>(kFrozenGroupRows * cols_);
  Group group;
  for (int64_t row = 0; row < rows; row += kFrozenGroupRows) {
    group.first_row = row;
    group.weights = weights.subspan(static_cast<size_t>(row * cols_), of_group);
    group.shifts.assign(of_group / kBlock, 0);
    group.reciprocals.assign(of_group / kBlock, 0.0f);
    for (int64_t r = 0; r < kFrozenGroupRows; ++r) ScaleRow(r, group, out);
    search.Search(group.weights, group.reciprocals, column_weights_, costs_,
                  std::span(out.q).subspan(static_cast<size_t>(row * cols_), of_group));
    for (int64_t r = 0; r < kFrozenGroupRows; ++r) FitRow(r, group, out);
  }
  return out;
}

}  // namespace thaw
