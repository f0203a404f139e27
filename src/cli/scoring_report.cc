#include "cli/scoring_report.h"

#include "base/stopwatch.h"

namespace thaw::cli {

ScoringRecorder::ScoringRecorder(const LoadedModel& model)
    : model_(model), recorder_(*model, report_.profile), start_(std::chrono::steady_clock::now()) {}

Result<void> ScoringRecorder::Publish(int64_t n_tokens, const ReportOptions& options) {
  report_.model = model_->path();
  report_.load_seconds = model_.load_seconds();
  report_.generation.prompt_tokens = n_tokens;
  report_.generation.prompt_seconds = SecondsSince(start_);
  recorder_.EndAnswer(report_.generation);
  DescribeEngine(*model_, report_);
  ReportOptions only_what_was_asked_for = options;
  only_what_was_asked_for.quiet = true;
  return PublishReport(report_, only_what_was_asked_for);
}

}  // namespace thaw::cli
