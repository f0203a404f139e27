#include "engine/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thaw {
namespace {

double Rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndOfGeneration:
      return "end of generation";
    case FinishReason::kStopText:
      return "stop text";
    case FinishReason::kMaxTokens:
      return "token limit";
    case FinishReason::kContextFull:
      return "context full";
    case FinishReason::kCancelled:
      break;
  }
  return "cancelled";
}

double GenerationStatistics::PromptTokensPerSecond() const {
  return Rate(prompt_tokens - reused_tokens, prompt_seconds);
}

double GenerationStatistics::DecodeTokensPerSecond() const {
  return Rate(static_cast<int64_t>(step_seconds.size()),
              std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0));
}

StepSummary SummarizeSteps(std::span<const double> step_seconds) {
  if (step_seconds.empty()) return {};
  std::vector<double> sorted(step_seconds.begin(), step_seconds.end());
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  const auto percentile = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * n));
    return 1e3 * sorted[std::max<size_t>(rank, 1) - 1];
  };
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (const double s : sorted) squares += (s - mean) * (s - mean);
  return {.p50_ms = percentile(0.50),
          .p99_ms = percentile(0.99),
          .cv = mean > 0 ? std::sqrt(squares / n) / mean : 0};
}

}  // namespace thaw
