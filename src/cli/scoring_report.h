// The statistics of work that reads tokens and generates none: logits and perplexity.
//
// The tokens count as a prompt. Such work reports nothing unless it is asked to.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "cli/statistics_report.h"

namespace thaw::cli {

class ScoringRecorder {
 public:
  // The work begins. `model` must outlive this.
  explicit ScoringRecorder(const LoadedModel& model);
  ScoringRecorder(const ScoringRecorder&) = delete;
  ScoringRecorder& operator=(const ScoringRecorder&) = delete;

  // The work on `n_tokens` is done.
  Result<void> Publish(int64_t n_tokens, const ReportOptions& options);

 private:
  const LoadedModel& model_;
  RunReport report_;
  ProfileRecorder recorder_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace thaw::cli
