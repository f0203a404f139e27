#include "cli/model_loading.h"

#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/progress_bar.h"

namespace thaw::cli {

bool ShowsProgress(const ReportOptions& report) {
  return report.progress && !report.quiet && IsTerminal(StandardStream::kError);
}

Result<std::unique_ptr<Engine>> LoadEngine(const ModelOptions& model, const ReportOptions& report,
                                           LoadProgress* progress) {
  if (report.verbose) SetLogLevel(LogLevel::kInfo);
  ProgressBar bar("loading", FormatBytes, ShowsProgress(report));
  THAW_ASSIGN(auto engine,
              Engine::Load(model.path, model.engine, [&](uint64_t done, uint64_t total) {
                bar.Show(done, total);
                if (progress != nullptr) *progress = {.done_bytes = done, .total_bytes = total};
                return !StopFlag();
              }));
  LogInfo("{}: {} of weights, {} for the KV cache of {} positions, {} of working memory",
          model.path, FormatBytes(engine->cache_statistics().weight_bytes),
          FormatBytes(engine->kv_bytes()), engine->options().context,
          FormatBytes(engine->scratch_bytes()));
  return engine;
}

Result<void> CheckFitsContext(std::string_view what, size_t n_tokens, int64_t context) {
  if (std::cmp_less_equal(n_tokens, context)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{} has {} tokens, but the context holds {}: shorten it, or give a larger -c", what,
              n_tokens, context);
}

}  // namespace thaw::cli
