#include "engine/freeze_recipe.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "codec/stream_encoder.h"
#include "codec/type_error.h"
#include "engine/tensor_rows.h"

namespace thaw {
namespace {

// Of a whole tensor, and of one expert among many that share a step.
constexpr int64_t kSampleWeights = 256 << 10;
constexpr int64_t kExpertSampleWeights = 64 << 10;

// Of curves: from about 7 bits a weight down to less than 2, in units of a row's root mean square.
constexpr double kCurveSteps[] = {0.03, 0.06, 0.12, 0.24, 0.45, 0.75, 1.05, 1.45};

// The output matrix and values get this share of the error of a type, as nothing behind them evens
// their errors out: mixes of quantized types give both Q6_K beside Q4_K, which has a quarter of its
// error (docs/decisions/0017-freezing.md has what it does).
constexpr double kFineShare = 0.25;

constexpr double kStateBytes = kFrozenStates * sizeof(uint16_t);

struct Sample {
  std::vector<float> rows;            // [rows, cols]
  std::vector<float> column_weights;  // [cols], or empty
};

Result<std::vector<float>> ReadSampledRows(const RecipeSource& source, const TensorPlan& plan,
                                           RowRange of, int64_t weights) {
  const auto group = static_cast<size_t>(kFrozenGroupRows * plan.cols);
  const std::vector<RowRange> ranges = SpreadGroups(of, plan.cols, weights);
  std::vector<float> rows(ranges.size() * group);
  std::vector<std::byte> stored;
  for (size_t i = 0; i < ranges.size(); ++i) {
    THAW_TRY(
        ReadRows(*source.file, plan, ranges[i], stored, std::span(rows).subspan(i * group, group)));
  }
  return rows;
}

bool HasImportance(const RecipeSource& source, const TensorPlan& plan) {
  return source.importance != nullptr && source.importance->Has(plan.name);
}

// Of all matrices together: the mean of what columns weigh in those that were counted.
void AverageMatrices(const ColumnImportance& importance, int64_t cols, Sample& sample) {
  sample.column_weights.assign(static_cast<size_t>(cols), 0.0F);
  double counted = 0;
  for (size_t m = 0; m < importance.mean_squares.size(); ++m) {
    if (importance.mean_squares[m] == 0) continue;
    ++counted;
    for (size_t col = 0; col < sample.column_weights.size(); ++col) {
      sample.column_weights[col] += importance.weights[m * sample.column_weights.size() + col];
    }
  }
  if (counted == 0) return sample.column_weights.clear();
  for (float& weight : sample.column_weights) weight /= static_cast<float>(counted);
}

Result<Sample> ReadSample(const RecipeSource& source, const TensorPlan& plan) {
  Sample sample;
  const RowRange all = {0, plan.rows * plan.matrices};
  THAW_ASSIGN(sample.rows, ReadSampledRows(source, plan, all, kSampleWeights));
  if (!HasImportance(source, plan)) return sample;
  THAW_ASSIGN(const ColumnImportance importance,
              source.importance->Read(plan.name, plan.cols, plan.matrices));
  AverageMatrices(importance, plan.cols, sample);
  return sample;
}

TrellisQuantizer LearnFrom(const TensorPlan& plan, const Sample& sample, double step) {
  return TrellisQuantizer::Learn(plan.cols, sample.rows, step, sample.column_weights);
}

// One quantizer for each matrix, by columns of its own.
Result<std::vector<TrellisQuantizer>> LearnByMatrix(const RecipeSource& source,
                                                    const TensorPlan& plan, double step,
                                                    ThreadPool& pool) {
  THAW_ASSIGN(const ColumnImportance importance,
              source.importance->Read(plan.name, plan.cols, plan.matrices));
  std::vector<Result<TrellisQuantizer>> learned(static_cast<size_t>(plan.matrices),
                                                Fail(ErrorCode::kCancelled, "not learned yet"));
  const auto learn = [&](int64_t matrix) -> Result<TrellisQuantizer> {
    const RowRange of = {matrix * plan.rows, plan.rows};
    THAW_ASSIGN(const std::vector<float> rows,
                ReadSampledRows(source, plan, of, kExpertSampleWeights));
    const auto columns =
        std::span(importance.weights)
            .subspan(static_cast<size_t>(matrix * plan.cols), static_cast<size_t>(plan.cols));
    return TrellisQuantizer::Learn(plan.cols, rows, step, columns);
  };
  pool.ParallelFor(plan.matrices, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) learned[static_cast<size_t>(i)] = learn(i);
  });
  std::vector<TrellisQuantizer> quantizers;
  for (auto& quantizer : learned) {
    if (!quantizer) return Fail(std::move(quantizer).error());
    quantizers.push_back(*std::move(quantizer));
  }
  return quantizers;
}

Result<std::vector<TrellisQuantizer>> LearnQuantizers(const RecipeSource& source,
                                                      const TensorPlan& plan, double step,
                                                      ThreadPool& pool) {
  if (plan.matrices > 1 && HasImportance(source, plan)) {
    return LearnByMatrix(source, plan, step, pool);
  }
  THAW_ASSIGN(const Sample sample, ReadSample(source, plan));
  std::vector<TrellisQuantizer> quantizers;
  quantizers.push_back(LearnFrom(plan, sample, step));
  return quantizers;
}

// What a stream of bf16 takes per weight, the states left out.
Result<double> Bf16Bits(const RecipeSource& source, const TensorPlan& plan) {
  const RowRange all = {0, plan.rows * plan.matrices};
  const auto group = static_cast<size_t>(kFrozenGroupRows * plan.cols);
  const std::vector<RowRange> ranges = SpreadGroups(all, plan.cols, kSampleWeights);
  std::vector<uint16_t> rows(ranges.size() * group);
  std::vector<std::byte> stored;
  for (size_t i = 0; i < ranges.size(); ++i) {
    THAW_TRY(ReadBf16Rows(*source.file, plan, ranges[i], stored,
                          std::span(rows).subspan(i * group, group)));
  }
  std::vector<std::byte> stream;
  AppendBf16Stream(std::ssize(ranges) * kFrozenGroupRows, plan.cols, rows, stream);
  const double bytes = static_cast<double>(stream.size()) - kStateBytes;
  return 8 * bytes / static_cast<double>(rows.size());
}

}  // namespace

double OverheadBits(const TensorPlan& plan) {
  const int64_t rows = RowsPerStream(plan);
  const int64_t streams = (plan.rows + rows - 1) / rows * plan.matrices;
  // States carry 4 of their 16 bits for the coded bytes. A stream is padded by half of the
  // alignment on average; a head has an entry for each tile.
  const double of_stream =
      kStateBytes * 3 / 4 + static_cast<double>(kFrozenAlignment) / 2 + sizeof(FrozenTileEntry);
  return 8 * (static_cast<double>(streams) * of_stream + sizeof(FrozenHeader)) /
         static_cast<double>(plan.weights());
}

Result<double> StepForBits(const RecipeSource& source, const TensorPlan& plan, double bits) {
  THAW_ASSIGN(const Sample sample, ReadSample(source, plan));
  return TrellisQuantizer::ForBits(plan.cols, sample.rows, bits - OverheadBits(plan),
                                   sample.column_weights)
      .step();
}

Result<StepLikeType> StepForType(const RecipeSource& source, const TensorPlan& plan,
                                 ElementType type) {
  THAW_ASSIGN(const Sample sample, ReadSample(source, plan));
  THAW_ASSIGN(const double type_rmse,
              TypeRelativeRmse(type, plan.cols, sample.rows, sample.column_weights));
  const double share = plan.is_output || plan.is_values ? kFineShare : 1;
  const double wanted = std::max(share * type_rmse, kLeastTypeError);
  const TrellisQuantizer quantizer =
      TrellisQuantizer::ForError(plan.cols, sample.rows, wanted, sample.column_weights);
  return StepLikeType{
      .step = quantizer.step(), .wanted_rmse = wanted, .is_coarser = type_rmse < kLeastTypeError};
}

Result<RateCurve> MeasureCurve(const RecipeSource& source, const TensorPlan& plan) {
  THAW_ASSIGN(const Sample sample, ReadSample(source, plan));
  std::vector<RateCurve::Point> points;
  for (const double step : kCurveSteps) {
    const TrellisQuantizer quantizer = LearnFrom(plan, sample, step);
    points.push_back({.bits = quantizer.bits_per_weight() + OverheadBits(plan),
                      .relative_rmse = quantizer.relative_rmse(),
                      .step = step});
  }
  return RateCurve(std::move(points));
}

Result<FreezeRecipe> MakeRecipe(const RecipeSource& source, const TensorPlan& plan, double step,
                                ThreadPool& pool) {
  FreezeRecipe recipe;
  if (plan.kind == FrozenKind::kBf16) {
    THAW_ASSIGN(recipe.bits_per_weight, Bf16Bits(source, plan));
    return recipe;
  }
  THAW_ASSIGN(recipe.quantizers, LearnQuantizers(source, plan, step, pool));
  for (const TrellisQuantizer& quantizer : recipe.quantizers) {
    recipe.bits_per_weight +=
        quantizer.bits_per_weight() / static_cast<double>(recipe.quantizers.size());
  }
  return recipe;
}

}  // namespace thaw
