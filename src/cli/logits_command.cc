// thaw logits: the logits after every token of a list.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_loading.h"
#include "cli/npy_writer.h"
#include "cli/progress_bar.h"
#include "cli/scoring_report.h"

namespace thaw::cli {
namespace {

// Of a session, where none is stated: what llama.cpp's tools take. It decides the rope of models
// that have one for long sessions and one for short ones.
constexpr int64_t kLeastContext = 512;

}  // namespace

Result<void> Execute(const LogitsOptions& options) {
  THAW_ASSIGN(const std::vector<int32_t> tokens, ReadTokenList(options.tokens_file));
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: the list of tokens is empty",
                options.tokens_file);
  }
  ModelOptions model = options.model;
  model.engine.all_logits = true;
  if (model.engine.context == 0) {
    model.engine.context = static_cast<int64_t>(tokens.size());
    model.engine.least_context = kLeastContext;
  }
  THAW_TRY(CheckFitsContext(options.tokens_file, tokens.size(), model.engine.context));
  THAW_ASSIGN(LoadedModel engine, LoadEngine(model, options.report));
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t n_vocab = engine->config().n_vocab;
  THAW_ASSIGN(NpyWriter npy, NpyWriter::Create(options.out_file, {n_tokens, n_vocab}));
  std::optional<ProgressBar> bar(std::in_place, "logits", FormatTokens,
                                 ShowsProgress(options.report));
  int64_t done = 0;
  const auto write = [&](std::span<const float> rows) -> Result<void> {
    done += static_cast<int64_t>(rows.size()) / n_vocab;
    bar->Show(static_cast<uint64_t>(done), static_cast<uint64_t>(n_tokens));
    return npy.Append(rows);
  };
  ScoringRecorder recorder(engine);
  THAW_TRY(engine->ComputeLogits(tokens, write, &StopFlag()));
  bar.reset();
  THAW_TRY(npy.Commit());
  THAW_TRY(recorder.Publish(n_tokens, options.report));
  return engine.CloseTrace();
}

}  // namespace thaw::cli
