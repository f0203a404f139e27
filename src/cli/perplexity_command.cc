// thaw perplexity: how likely a model finds a text.
#include <optional>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_loading.h"
#include "cli/progress_bar.h"
#include "cli/scoring_report.h"
#include "cli/standard_output.h"
#include "cli/text_input.h"

namespace thaw::cli {
namespace {

std::string LikelihoodJson(const TextLikelihood& likelihood, size_t n_tokens,
                           const Engine& engine) {
  return PrettyJson({{"tokens", n_tokens},
                     {"scored_tokens", likelihood.scored_tokens},
                     {"negative_log_likelihood", likelihood.negative_log_likelihood},
                     {"mean_negative_log_likelihood", likelihood.mean()},
                     {"perplexity", likelihood.perplexity()},
                     {"context", engine.options().context}});
}

std::string LikelihoodText(const TextLikelihood& likelihood, size_t n_tokens) {
  return fmt::format(
      "perplexity {:.4f}\nnegative log likelihood {:.6f} a token, {:.3f} in all, {} of {} tokens "
      "scored\n",
      likelihood.perplexity(), likelihood.mean(), likelihood.negative_log_likelihood,
      likelihood.scored_tokens, n_tokens);
}

}  // namespace

Result<void> Execute(const PerplexityOptions& options) {
  THAW_ASSIGN(const std::string text, ReadTextFile(options.text_file));
  ModelOptions model = options.model;
  model.engine.all_logits = true;
  THAW_ASSIGN(LoadedModel engine, LoadEngine(model, options.report));
  THAW_ASSIGN(const Tokenizer* tokenizer, engine->tokenizer());
  THAW_ASSIGN(const auto tokens,
              tokenizer->Encode(text, {.add_eos = false, .parse_special = false}));
  if (tokens.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: the text has {} tokens; at least 2 are needed to score one", options.text_file,
                tokens.size());
  }
  std::optional<ProgressBar> bar(std::in_place, "scoring", FormatTokens,
                                 ShowsProgress(options.report));
  const auto on_progress = [&bar](int64_t done, int64_t total) {
    bar->Show(static_cast<uint64_t>(done), static_cast<uint64_t>(total));
  };
  ScoringRecorder recorder(engine);
  THAW_ASSIGN(const TextLikelihood likelihood, engine->Score(tokens, on_progress, &StopFlag()));
  bar.reset();
  THAW_TRY(WriteOutput(options.json ? LikelihoodJson(likelihood, tokens.size(), *engine)
                                    : LikelihoodText(likelihood, tokens.size())));
  THAW_TRY(recorder.Publish(static_cast<int64_t>(tokens.size()), options.report));
  return engine.CloseTrace();
}

}  // namespace thaw::cli
