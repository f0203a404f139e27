// Quantizing on one thread: Gaussian weights, by the step in thousandths of their root mean square.
// And the bits that a matrix takes, all counted, at the error that types of GGUF have: of 4096 x
// 4096 Gaussian numbers and of Student's t with 5 degrees of freedom, and of the rows of
// THAW_BENCH_COLUMNS float32 numbers in the file that THAW_BENCH_WEIGHTS names.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "codec/frozen_format.h"
#include "codec/stream_encoder.h"
#include "codec/trellis_quantizer.h"
#include "codec/type_error.h"

namespace thaw {
namespace {

// A stream of 2^19 weights, as freezing makes them.
constexpr int64_t kRows = 128;
constexpr int64_t kCols = 4096;

std::vector<float> Weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weights(kRows * kCols);
  for (float& w : weights) w = normal(random);
  return weights;
}

void CountWeights(benchmark::State& state) {
  state.counters["weights/s"] = benchmark::Counter(static_cast<double>(kRows * kCols),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

void Quantize(benchmark::State& state) {
  const std::vector<float> weights = Weights();
  const double step = static_cast<double>(state.range(0)) / 1000;
  const auto quantizer = TrellisQuantizer::Learn(kCols, weights, step, {});
  for (auto _ : state) benchmark::DoNotOptimize(quantizer.Quantize(kRows, weights).error);
  CountWeights(state);
}

// What the search of a step does some 3 times.
void Learn(benchmark::State& state) {
  const std::vector<float> weights = Weights();
  const double step = static_cast<double>(state.range(0)) / 1000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(TrellisQuantizer::Learn(kCols, weights, step, {}).relative_rmse());
  }
  CountWeights(state);
}

void Encode(benchmark::State& state) {
  const std::vector<float> weights = Weights();
  const double step = static_cast<double>(state.range(0)) / 1000;
  const QuantizedRows rows =
      TrellisQuantizer::Learn(kCols, weights, step, {}).Quantize(kRows, weights);
  for (auto _ : state) {
    std::vector<std::byte> stream;
    AppendEcqStream(kRows, kCols, rows.q, rows.scales, rows.shifts, stream);
    benchmark::DoNotOptimize(stream.data());
  }
  CountWeights(state);
}

struct Matrix {
  int64_t cols;
  std::vector<float> weights;

  int64_t rows() const { return std::ssize(weights) / cols / kFrozenGroupRows * kFrozenGroupRows; }
};

template <typename Distribution>
Matrix Drawn(Distribution distribution) {
  Matrix matrix{.cols = 4096, .weights = std::vector<float>(4096 * 4096)};
  std::mt19937 random(1);
  for (float& w : matrix.weights) w = static_cast<float>(distribution(random));
  return matrix;
}

Matrix FromFile(const std::string& path, int64_t cols) {
  Matrix matrix{.cols = cols, .weights = {}};
  std::ifstream file(path, std::ios::binary);
  for (float w; file.read(reinterpret_cast<char*>(&w), sizeof(w));) matrix.weights.push_back(w);
  return matrix;
}

// Bytes of the streams of a matrix, cut as freezing does.
int64_t StreamBytes(const Matrix& matrix, const QuantizedRows& quantized) {
  const int64_t rows = matrix.rows();
  const int64_t per_stream =
      std::max<int64_t>(1, (512 << 10) / matrix.cols / kFrozenGroupRows) * kFrozenGroupRows;
  std::vector<std::byte> streams;
  for (int64_t row = 0; row < rows; row += per_stream) {
    const int64_t n = std::min(per_stream, rows - row);
    std::vector<BlockShift> shifts;
    for (BlockShift shift : quantized.shifts) {
      shift.row -= row;
      if (shift.row >= 0 && shift.row < n) shifts.push_back(shift);
    }
    AppendEcqStream(
        n, matrix.cols,
        std::span(quantized.q)
            .subspan(static_cast<size_t>(row * matrix.cols), static_cast<size_t>(n * matrix.cols)),
        std::span(quantized.scales).subspan(static_cast<size_t>(row), static_cast<size_t>(n)),
        shifts, streams);
  }
  return std::ssize(streams);
}

void BitsLike(benchmark::State& state, const Matrix& matrix, ElementType type) {
  const std::span weights =
      std::span(matrix.weights).first(static_cast<size_t>(matrix.rows() * matrix.cols));
  // As much as freezing learns from.
  const auto sample = weights.first(std::min(
      weights.size(),
      static_cast<size_t>(std::max<int64_t>(1, (256 << 10) / matrix.cols / kFrozenGroupRows) *
                          kFrozenGroupRows * matrix.cols)));
  for (auto _ : state) {
    const auto rmse = TypeRelativeRmse(type, matrix.cols, sample, {});
    THAW_CHECK(rmse);
    const QuantizedRows quantized =
        TrellisQuantizer::ForError(matrix.cols, sample, *rmse, {}).Quantize(matrix.rows(), weights);
    state.counters["bits"] = 8 * static_cast<double>(StreamBytes(matrix, quantized)) /
                             static_cast<double>(weights.size());
    state.counters["rmse"] = std::sqrt(quantized.error / quantized.energy);
    state.counters["rmse_of_type"] = *rmse;
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  const char* path = std::getenv("THAW_BENCH_WEIGHTS");
  const char* cols = std::getenv("THAW_BENCH_COLUMNS");
  const std::pair<std::string, std::function<Matrix()>> matrices[] = {
      {"gauss", [] { return Drawn(std::normal_distribution<double>()); }},
      {"student5", [] { return Drawn(std::student_t_distribution<double>(5)); }},
      {"file", [=] { return FromFile(path, std::stoll(cols)); }}};
  for (const auto& [name, make] : matrices) {
    if (name == "file" && (path == nullptr || cols == nullptr)) continue;
    for (const ElementType type :
         {ElementType::kQ3_K, ElementType::kQ4_0, ElementType::kQ4_K, ElementType::kQ5_K}) {
      benchmark::RegisterBenchmark(
          ("bits_like/" + name + "/" + Info(type).name).c_str(),
          [make, type](benchmark::State& state) { BitsLike(state, make(), type); })
          ->Iterations(1);
    }
  }
  return true;
}();

BENCHMARK(Quantize)->Arg(80)->Arg(160)->Arg(300);
BENCHMARK(Learn)->Arg(160);
BENCHMARK(Encode)->Arg(80)->Arg(160)->Arg(300);

}  // namespace
}  // namespace thaw
