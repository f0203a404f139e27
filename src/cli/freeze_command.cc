// thaw freeze: a model with its matrices as entropy-coded tiles.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/interrupt.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/freeze_report.h"
#include "cli/model_loading.h"
#include "cli/progress_bar.h"
#include "cli/standard_output.h"
#include "engine/freeze.h"

namespace thaw::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string MillionsOfWeights(uint64_t weights) {
  return fmt::format("{:.0f} M", static_cast<double>(weights) / 1e6);
}

const char* LabelOf(FreezePhase phase) {
  switch (phase) {
    case FreezePhase::kMeasuring:
      return "measuring";
    case FreezePhase::kFreezing:
      return "freezing";
    case FreezePhase::kWriting:
      return "writing";
    case FreezePhase::kVerifying:
      return "verifying";
  }
  return "";
}

// "14.2 M/s, 1:05 left"
std::string RateAndTimeLeft(double per_second, double left, std::string (*format)(uint64_t)) {
  if (per_second <= 0) return "";
  const auto seconds = static_cast<int64_t>(left / per_second);
  return fmt::format("{}/s, {}:{:02} left", format(static_cast<uint64_t>(per_second)), seconds / 60,
                     seconds % 60);
}

// A bar for each phase, one after the other. Rates are those since the phase began: what an earlier
// run had done does not count.
class PhaseBars {
 public:
  explicit PhaseBars(bool visible) : visible_(visible) {}

  void Show(FreezePhase phase, uint64_t done, uint64_t total) {
    const auto format = phase == FreezePhase::kWriting ? &FormatBytes : &MillionsOfWeights;
    if (bar_ == nullptr || phase != phase_) {
      bar_ = nullptr;  // wipes its line first
      bar_ = std::make_unique<ProgressBar>(LabelOf(phase), format, visible_);
      phase_ = phase;
      began_ = Clock::now();
      done_before_ = done;
    }
    const double seconds = SecondsSince(began_);
    const double rate = static_cast<double>(done - std::min(done, done_before_)) / seconds;
    const auto left = static_cast<double>(total - std::min(total, done));
    bar_->Show(done, total, seconds > 0 ? RateAndTimeLeft(rate, left, format) : "");
  }

  bool is_verifying() const { return phase_ == FreezePhase::kVerifying; }

  // Makes room for a line.
  void Wipe() { bar_ = nullptr; }

 private:
  bool visible_;
  std::unique_ptr<ProgressBar> bar_;
  FreezePhase phase_ = FreezePhase::kMeasuring;
  Clock::time_point began_;
  uint64_t done_before_ = 0;
};

}  // namespace

Result<void> Execute(const FreezeCommandOptions& options) {
  FreezeOptions freeze = options.freeze;
  freeze.cancel = &StopFlag();
  PhaseBars bars(ShowsProgress(options.report));
  const FreezeEvents events = {
      .on_progress = [&bars](FreezePhase phase, uint64_t done,
                             uint64_t total) { bars.Show(phase, done, total); },
      .on_note =
          [&](std::string_view sentence) {
            bars.Wipe();
            if (!options.report.quiet) WriteError(fmt::format("{}\n", sentence));
          }};
  const auto report = FreezeModel(freeze, events);
  bars.Wipe();
  if (!report) {
    if (report.error().code == ErrorCode::kCancelled && !options.report.quiet) {
      WriteError(bars.is_verifying()
                     ? fmt::format("interrupted: {} is whole, not verified\n", freeze.output)
                     : "interrupted: the same command goes on from what is finished\n");
    }
    return Fail(report.error());
  }
  return WriteOutput(options.json ? PrettyJson(FreezeJson(*report)) : FreezeTable(*report));
}

}  // namespace thaw::cli
