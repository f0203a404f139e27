// What a generation is asked for and what it reports.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/sampling_options.h"

namespace thaw {

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_tokens = -1;         // below 0: until the context is full
  std::vector<std::string> stops;  // the answer ends before the first of these
  // Looked at between layers; a true ends the generation cleanly. May be null.
  const std::atomic<bool>* cancel = nullptr;
  // Called when the prompt was computed, before the first token is drawn. May be empty.
  std::function<void()> on_prompt_done = {};
};

enum class FinishReason {
  kEndOfGeneration,  // the model ended its answer
  kStopText,         // a stop string came
  kMaxTokens,        // max_tokens were generated
  kContextFull,      // no position was left
  kCancelled,
};

// "end of generation", "stop text", ...
std::string_view FinishReasonName(FinishReason reason);

struct GenerationStatistics {
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;         // of the prompt, whose keys and values were there already
  double prompt_seconds = 0;         // of the forward passes over the rest of the prompt
  double ttft_seconds = 0;           // from the call to the first token
  int64_t decode_tokens = 0;         // generated, an end-of-generation token included
  std::vector<double> step_seconds;  // from one token to the next: decode_tokens - 1 of them
  uint64_t decode_bytes_read = 0;    // weights that those steps had to read

  double PromptTokensPerSecond() const;  // 0 when nothing was computed
  double DecodeTokensPerSecond() const;  // 0 when there was no step
};

// How even the steps of a decode were.
struct StepSummary {
  double p50_ms = 0;
  double p99_ms = 0;
  double cv = 0;  // standard deviation / mean
};

// All zero without a step. Percentiles are of the nearest rank.
StepSummary SummarizeSteps(std::span<const double> step_seconds);

struct GenerationResult {
  FinishReason finish = FinishReason::kEndOfGeneration;
  std::string text;             // all that was passed to the caller
  std::vector<int32_t> tokens;  // generated, in order
  GenerationStatistics statistics;
};

}  // namespace thaw
