// Loading a model for a command: with its progress shown, and stopped by Ctrl+C.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"
#include "cli/options.h"
#include "engine/engine.h"

namespace thaw::cli {

// How far a load came that was stopped.
struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

// kCancelled when a signal came; `progress` may be null.
Result<std::unique_ptr<Engine>> LoadEngine(const ModelOptions& model, const ReportOptions& report,
                                           LoadProgress* progress = nullptr);

// Whether bars are drawn: a person looks at standard error and did not ask for silence.
bool ShowsProgress(const ReportOptions& report);

// kInvalidArgument where `n_tokens` are more than `context` positions hold; `what` names the
// tokens.
Result<void> CheckFitsContext(std::string_view what, size_t n_tokens, int64_t context);

}  // namespace thaw::cli
