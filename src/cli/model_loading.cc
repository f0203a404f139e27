#include "cli/model_loading.h"

#include <chrono>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/progress_bar.h"

namespace thaw::cli {
namespace {

// Asking once more reads nothing: everything that can be there is.
Result<void> LogPreload(Engine& engine) {
  THAW_ASSIGN(const ResidencyReport report,
              engine.weights().Preload([](uint64_t, uint64_t) { return true; }));
  const CacheStatistics cache = engine.cache_statistics();
  LogInfo(
      "{}: {} tiles are in memory, {} tiles of {} are streamed; {} read, {} of it from the "
      "page cache",
      engine.path(), report.tiles - report.tiles_streamed, report.tiles_streamed,
      FormatBytes(report.bytes_streamed), FormatBytes(cache.bytes_read),
      FormatBytes(cache.page_cache_bytes));
  return {};
}

}  // namespace

bool ShowsProgress(const ReportOptions& report) {
  return report.progress && !report.quiet && IsTerminal(StandardStream::kError);
}

LoadedModel::LoadedModel(std::unique_ptr<TraceFile> trace, std::unique_ptr<Engine> engine,
                         double load_seconds)
    : trace_(std::move(trace)), engine_(std::move(engine)), load_seconds_(load_seconds) {
  if (trace_ == nullptr) return;
  engine_->weights().SetTrace([to = trace_.get()](const VisitEvent& visit) { to->Write(visit); });
}

Result<void> LoadedModel::CloseTrace() {
  if (trace_ == nullptr) return {};
  engine_->weights().SetTrace({});
  return std::exchange(trace_, nullptr)->Close();
}

Result<LoadedModel> LoadEngine(const ModelOptions& model, const ReportOptions& report,
                               LoadProgress* progress) {
  if (report.verbose) SetLogLevel(LogLevel::kInfo);
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<TraceFile> trace;
  if (!report.trace_file.empty()) {
    THAW_ASSIGN(trace, TraceFile::Create(report.trace_file));
  }
  ProgressBar bar("loading", FormatBytes, ShowsProgress(report));
  THAW_ASSIGN(auto engine,
              Engine::Load(model.path, model.engine, [&](uint64_t done, uint64_t total) {
                bar.Show(done, total);
                if (progress != nullptr) *progress = {.done_bytes = done, .total_bytes = total};
                return !StopFlag();
              }));
  if (model.engine.preload || model.engine.verify) THAW_TRY(LogPreload(*engine));
  LogInfo("{}: {} of weights, {} for the KV cache of {} positions, {} of working memory",
          model.path, FormatBytes(engine->cache_statistics().weight_bytes),
          FormatBytes(engine->kv_bytes()), engine->options().context,
          FormatBytes(engine->scratch_bytes()));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return LoadedModel(std::move(trace), std::move(engine), seconds.count());
}

Result<void> CheckFitsContext(std::string_view what, size_t n_tokens, int64_t context) {
  if (std::cmp_less_equal(n_tokens, context)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{} has {} tokens, but the context holds {}: shorten it, or give a larger -c", what,
              n_tokens, context);
}

}  // namespace thaw::cli
