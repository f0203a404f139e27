// Loading a model for a command: with its progress shown, stopped by Ctrl+C, and traced.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"
#include "cli/options.h"
#include "cli/trace_file.h"
#include "engine/engine.h"

namespace thaw::cli {

// How far a load came that was stopped.
struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

// An engine, and the trace of it where one was asked for.
class LoadedModel {
 public:
  LoadedModel(std::unique_ptr<TraceFile> trace, std::unique_ptr<Engine> engine,
              double load_seconds);

  Engine& operator*() const { return *engine_; }
  Engine* operator->() const { return engine_.get(); }

  double load_seconds() const { return load_seconds_; }

  // Ends the trace, with the first error that writing it had.
  Result<void> CloseTrace();

 private:
  std::unique_ptr<TraceFile> trace_;  // may be null; outlives the engine, which writes to it
  std::unique_ptr<Engine> engine_;
  double load_seconds_;
};

// kCancelled when a signal came; `progress` may be null.
Result<LoadedModel> LoadEngine(const ModelOptions& model, const ReportOptions& report,
                               LoadProgress* progress = nullptr);

// Whether bars are drawn: a person looks at standard error and did not ask for silence.
bool ShowsProgress(const ReportOptions& report);

// kInvalidArgument where `n_tokens` are more than `context` positions hold; `what` names the
// tokens.
Result<void> CheckFitsContext(std::string_view what, size_t n_tokens, int64_t context);

}  // namespace thaw::cli
