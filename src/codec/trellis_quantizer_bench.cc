// Quantizing on one thread: Gaussian weights, by the step in thousandths of their root mean square.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "codec/stream_encoder.h"
#include "codec/trellis_quantizer.h"

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

BENCHMARK(Quantize)->Arg(80)->Arg(160)->Arg(300);
BENCHMARK(Learn)->Arg(160);
BENCHMARK(Encode)->Arg(80)->Arg(160)->Arg(300);

}  // namespace
}  // namespace thaw
