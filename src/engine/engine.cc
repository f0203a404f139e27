#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/model_file.h"
#include "engine/session.h"

namespace thaw {
namespace {

// Most models state contexts whose KV cache would dwarf their weights.
constexpr int64_t kDefaultMaxContext = 4096;

// Large enough that weights are unpacked for many tokens at a time, small enough that the working
// memory of an 8B model stays below 30 MiB.
constexpr int64_t kDefaultPrefillChunk = 128;

// Positions whose logits are computed at a time where all are wanted: 32 rows of a vocabulary of
// 256k are 32 MiB.
constexpr int64_t kLogitsChunk = 32;

constexpr int kMaxThreads = 1024;

Result<EngineOptions> FillDefaults(EngineOptions options, const ModelConfig& config) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return Fail(ErrorCode::kInvalidArgument, "{} threads were asked for, expected 1 to {}",
                options.threads, kMaxThreads);
  }
  if (options.context < 0 || options.prefill_chunk < 0) {
    return Fail(ErrorCode::kInvalidArgument, "a context or chunk of {} tokens makes no sense",
                std::min(options.context, options.prefill_chunk));
  }
  constexpr int64_t kMaxContext = int64_t{1} << 31;
  if (options.context > kMaxContext) {
    return Fail(ErrorCode::kInvalidArgument, "a context of {} tokens was asked for, at most {}",
                options.context, kMaxContext);
  }
  if (options.context > config.context_length) {
    LogWarning("the context of {} tokens is longer than the {} that the model was trained for",
               options.context, config.context_length);
  }
  if (options.threads == 0) options.threads = AvailableThreads();
  if (options.context == 0) options.context = std::min(config.context_length, kDefaultMaxContext);
  if (options.prefill_chunk == 0) options.prefill_chunk = kDefaultPrefillChunk;
  options.prefill_chunk = std::min(options.prefill_chunk, options.context);
  return options;
}

// -log(softmax(logits)[token])
double NegativeLogLikelihood(std::span<const float> logits, int32_t token) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return std::log(sum) + max - static_cast<double>(logits[static_cast<size_t>(token)]);
}

}  // namespace

double TextLikelihood::mean() const {
  return scored_tokens > 0 ? negative_log_likelihood / static_cast<double>(scored_tokens) : 0;
}

double TextLikelihood::perplexity() const { return std::exp(mean()); }

Engine::Engine(GgufFile file, const EngineOptions& options, const KernelTable& kernels)
    : file_(std::move(file)), options_(options), kernels_(kernels), pool_(options.threads) {}

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& path, const EngineOptions& options,
                                             FunctionRef<bool(uint64_t, uint64_t)> on_progress) {
  THAW_ASSIGN(const KernelTable* kernels, SelectKernels(options.kernels));
  THAW_ASSIGN(GgufFile file, GgufFile::Open(path));
  THAW_ASSIGN(ModelDescription description, DescribeModel(file));
  THAW_ASSIGN(const EngineOptions filled, FillDefaults(options, description.config));
  std::unique_ptr<Engine> engine(new Engine(std::move(file), filled, *kernels));
  THAW_ASSIGN(engine->cache_, WeightCache::Create(std::move(description.matrices)));
  description.matrices.clear();
  THAW_ASSIGN(engine->model_,
              Model::Create(std::move(description), *engine->cache_, *kernels, engine->pool_,
                            {.max_batch = filled.prefill_chunk, .max_context = filled.context}));
  THAW_TRY(engine->cache_->Preload(engine->pool_, on_progress));
  return engine;
}

uint64_t Engine::kv_bytes() const {
  return KvCache::Bytes(config(), options_.kv_type, options_.context);
}

Result<const Tokenizer*> Engine::tokenizer() {
  const std::lock_guard lock(lazy_mutex_);
  if (tokenizer_ == nullptr) {
    THAW_ASSIGN(auto made, LoadTokenizer(file_));
    if (made->n_tokens() > config().n_vocab) {
      return Fail(ErrorCode::kCorrupt, "{}: the vocabulary has {} tokens, but the model only {}",
                  path(), made->n_tokens(), config().n_vocab);
    }
    tokenizer_ = std::move(made);
  }
  return tokenizer_.get();
}

Result<const ChatTemplate*> Engine::chat_template() {
  const std::lock_guard lock(lazy_mutex_);
  if (!chat_template_.has_value()) {
    THAW_ASSIGN(chat_template_, LoadChatTemplate(file_));
  }
  return chat_template_->has_value() ? &**chat_template_ : nullptr;
}

Result<std::unique_ptr<Session>> Engine::NewSession() {
  THAW_ASSIGN(KvCache kv, KvCache::Create(config(), options_.kv_type, options_.context));
  return std::unique_ptr<Session>(new Session(*this, std::move(kv)));
}

Result<void> Engine::CheckTokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) return Fail(ErrorCode::kInvalidArgument, "there are no tokens to work on");
  if (static_cast<int64_t>(tokens.size()) > options_.context) {
    return Fail(ErrorCode::kInvalidArgument, "{} tokens do not fit into a context of {}",
                tokens.size(), options_.context);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config().n_vocab) {
      return Fail(ErrorCode::kInvalidArgument,
                  "token {} at position {} is not in the vocabulary, which has ids 0 to {}",
                  tokens[i], i, config().n_vocab - 1);
    }
  }
  return {};
}

Result<void> Engine::Extend(KvCache& kv, std::span<const int32_t> tokens, bool only_last,
                            std::vector<float>& logits,
                            FunctionRef<Result<void>(std::span<const float>)> on_rows,
                            const std::atomic<bool>* cancel) {
  const int64_t chunk =
      only_last ? options_.prefill_chunk : std::min(options_.prefill_chunk, kLogitsChunk);
  std::vector<BatchToken> batch;
  while (!tokens.empty()) {
    const size_t n = std::min(tokens.size(), static_cast<size_t>(chunk));
    batch.clear();
    for (size_t i = 0; i < n; ++i) {
      const bool is_last = i + 1 == tokens.size();
      batch.push_back({.token = tokens[i],
                       .position = kv.length() + static_cast<int64_t>(i),
                       .kv = &kv,
                       .wants_logits = is_last || !only_last});
    }
    const auto wanting = std::ranges::count_if(batch, &BatchToken::wants_logits);
    logits.resize(static_cast<size_t>(wanting * config().n_vocab));
    {
      const std::lock_guard lock(forward_mutex_);
      THAW_TRY(model_->Forward(batch, logits, cancel));
    }
    if (wanting > 0) THAW_TRY(on_rows(logits));
    tokens = tokens.subspan(n);
  }
  return {};
}

Result<void> Engine::ComputeLogits(std::span<const int32_t> tokens,
                                   FunctionRef<Result<void>(std::span<const float>)> on_rows,
                                   const std::atomic<bool>* cancel) {
  THAW_TRY(CheckTokens(tokens));
  THAW_ASSIGN(KvCache kv,
              KvCache::Create(config(), options_.kv_type, static_cast<int64_t>(tokens.size())));
  std::vector<float> logits;
  return Extend(kv, tokens, /*only_last=*/false, logits, on_rows, cancel);
}

Result<TextLikelihood> Engine::Score(std::span<const int32_t> tokens,
                                     FunctionRef<void(int64_t, int64_t)> on_progress,
                                     const std::atomic<bool>* cancel) {
  if (tokens.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "a text of {} tokens cannot be scored: at least 2 are needed", tokens.size());
  }
  TextLikelihood likelihood;
  const auto n_vocab = static_cast<size_t>(config().n_vocab);
  const auto window_size = static_cast<size_t>(options_.context);
  for (size_t begin = 0; begin < tokens.size(); begin += window_size) {
    const auto window = tokens.subspan(begin, std::min(window_size, tokens.size() - begin));
    size_t position = 0;
    THAW_TRY(ComputeLogits(
        window,
        [&](std::span<const float> rows) -> Result<void> {
          for (; !rows.empty(); rows = rows.subspan(n_vocab), ++position) {
            if (position + 1 == window.size()) break;
            likelihood.negative_log_likelihood +=
                NegativeLogLikelihood(rows.first(n_vocab), window[position + 1]);
            ++likelihood.scored_tokens;
          }
          on_progress(static_cast<int64_t>(begin + position), static_cast<int64_t>(tokens.size()));
          return {};
        },
        cancel));
  }
  return likelihood;
}

}  // namespace thaw
