#include <benchmark/benchmark.h>

#include <vector>

#include "sampling/sampler.h"

namespace thaw {
namespace {

constexpr int32_t kVocabulary = 262'144;  // the largest in common use (Gemma 3)

void DrawToken(benchmark::State& state, const SamplingOptions& options) {
  SplitMix64 random(1);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = static_cast<float>((random.NextUnit() - 0.5) * 30);
  Sampler sampler = Sampler::Create(options, kVocabulary).value();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(sampler.Sample(logits));
}

BENCHMARK_CAPTURE(DrawToken, Greedy, SamplingOptions{.temperature = 0});
BENCHMARK_CAPTURE(DrawToken, Defaults, SamplingOptions{});
BENCHMARK_CAPTURE(DrawToken, TopPAlone, SamplingOptions{.top_k = 0, .min_p = 0});
BENCHMARK_CAPTURE(DrawToken, TemperatureAlone, SamplingOptions{.top_k = 0, .top_p = 1, .min_p = 0});

}  // namespace
}  // namespace thaw
