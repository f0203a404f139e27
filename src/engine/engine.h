// The public API: a model file opened for use.
//
//   THAW_ASSIGN(auto engine, Engine::Load("model.gguf", {}, on_progress));
//   THAW_ASSIGN(auto session, engine->NewSession());
//   THAW_ASSIGN(auto answer, session->Generate(prompt_tokens, {}, on_text));
//
// An Engine owns the weights, the threads and the working memory; sessions, which must not outlive
// it, own their KV cache and history. Thread safe: sessions may be used from several threads, whose
// forward passes take turns; each pass uses all threads of the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "chat/chat_template.h"
#include "gguf/gguf_file.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "residency/weight_cache.h"
#include "tokenizer/tokenizer.h"

namespace thaw {

class Session;

struct EngineOptions {
  int threads = 0;           // 0: as many as this process may run on
  std::string kernels = {};  // name of a kernel table; "": the best for this CPU
  KvType kv_type = KvType::kF16;
  int64_t context = 0;        // positions of a session; 0: the model's, at most 4096
  int64_t prefill_chunk = 0;  // tokens of one forward pass over a prompt; 0: 128
};

// How likely a model finds a text.
struct TextLikelihood {
  int64_t scored_tokens = 0;
  double negative_log_likelihood = 0;  // natural logarithm, summed over the scored tokens

  double mean() const;        // negative log likelihood of a token
  double perplexity() const;  // exp(mean)
};

class Engine {
 public:
  // Reads all weights; `on_progress` as WeightCache::Preload has it. Errors name the file and what
  // is wrong with it, or the option that makes no sense.
  static Result<std::unique_ptr<Engine>> Load(
      const std::string& path, const EngineOptions& options,
      FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

  const std::string& path() const { return file_.path(); }
  const ModelConfig& config() const { return model_->config(); }
  const EngineOptions& options() const { return options_; }  // with the defaults filled in
  const char* kernels_name() const { return kernels_.name; }
  uint64_t kv_bytes() const;  // of one session
  uint64_t scratch_bytes() const { return model_->scratch_bytes(); }
  CacheStatistics cache_statistics() const { return cache_->Statistics(); }

  // Made at the first call, so that a model without a usable tokenizer still gives logits. kCorrupt
  // for a vocabulary with more tokens than the model has logits.
  Result<const Tokenizer*> tokenizer();

  // nullptr where the file has no chat template.
  Result<const ChatTemplate*> chat_template();

  // kResourceExhausted when there is no memory for its KV cache.
  Result<std::unique_ptr<Session>> NewSession();

  // The logits of every position, a few positions at a time and in order: `rows` is
  // [some tokens, n_vocab]. kInvalidArgument for no tokens, more than the context holds, or ids
  // that are not in the vocabulary.
  Result<void> ComputeLogits(std::span<const int32_t> tokens,
                             FunctionRef<Result<void>(std::span<const float> rows)> on_rows,
                             const std::atomic<bool>* cancel = nullptr);

  // How likely each token is after those before it. A text longer than the context is cut into
  // windows of that length, each seen alone; the first token of a window is not scored.
  // `on_progress(done, total)` gets tokens.
  Result<TextLikelihood> Score(std::span<const int32_t> tokens,
                               FunctionRef<void(int64_t done, int64_t total)> on_progress,
                               const std::atomic<bool>* cancel = nullptr);

 private:
  friend class Session;

  Engine(GgufFile file, const EngineOptions& options, const KernelTable& kernels);

  // kInvalidArgument for none, too many for the context, or one that is not in the vocabulary.
  Result<void> CheckTokens(std::span<const int32_t> tokens) const;

  // Model::Forward over consecutive tokens of one sequence, after those that `kv` holds, in chunks;
  // `on_rows` gets the logits of each chunk, or of the last token alone with `only_last`; they lie
  // in `logits`, which keeps its memory from call to call.
  Result<void> Extend(KvCache& kv, std::span<const int32_t> tokens, bool only_last,
                      std::vector<float>& logits,
                      FunctionRef<Result<void>(std::span<const float> rows)> on_rows,
                      const std::atomic<bool>* cancel);

  const GgufFile file_;
  EngineOptions options_;
  const KernelTable& kernels_;
  ThreadPool pool_;
  std::unique_ptr<WeightCache> cache_;
  std::unique_ptr<Model> model_;
  std::mutex forward_mutex_;  // one forward pass at a time

  std::mutex lazy_mutex_;  // guards the two below
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<std::optional<ChatTemplate>> chat_template_;
};

}  // namespace thaw
