// The public API: a model file opened for use.
//
//   THAW_ASSIGN(auto engine, Engine::Load("model.gguf", {}, on_progress));
//   THAW_ASSIGN(auto session, engine->NewSession());
//   THAW_ASSIGN(auto answer, session->Generate(prompt_tokens, {}, on_text));
//
// An Engine owns the weights, the threads and the working memory; sessions, which must not outlive
// it, own their KV cache and history. All of it stays inside one budget (engine/memory_plan.h),
// which can be changed at any time. Thread safe: sessions may be used from several threads, whose
// forward passes take turns; each pass uses all threads of the engine.
#pragma once

#include <atomic>
#include <condition_variable>
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
#include "engine/budget.h"
#include "engine/ledger.h"
#include "engine/memory_plan.h"
#include "engine/speed_forecast.h"
#include "engine/tiers.h"
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
  int64_t least_context = 0;  // where context states fewer, as far as the model was trained for
  int64_t prefill_chunk = 0;  // tokens of one forward pass over a prompt; 0: by the budget

  // Whether the engine is there for the logits of all tokens (ComputeLogits, Score), which are
  // given memory where weights are streamed.
  bool all_logits = false;

  BudgetRequest budget = {};       // of the whole process
  uint64_t reserved_bytes = 0;     // of the budget, kept free for the caller's own use
  std::string policy = "planned";  // which weights stay: residency/policy.h
  int frequency_window = 64;       // forward passes that lfu looks back on, 1 to 64
  int prefetch_ahead = -1;         // layers; 0: none, -1: as far as memory reaches
  bool synchronous_prefetch = false;
  int io_threads = 0;                    // 0: as many as the way of reading needs
  std::vector<std::string> pinned = {};  // weights that stay, by name; `*` for any characters
  // How frozen weights are held, and where rates of the machine are kept, by which kAuto chooses.
  Tier tier = Tier::kAuto;
  std::string codec_backend = std::string(kCpuBackend);  // who decodes them
  std::string rates_path = {};
  bool preload = false;  // read what stays before the first use, instead of during it
  bool verify = false;   // check what stays against the file, once it is there
};

// How likely a model finds a text.
struct TextLikelihood {
  int64_t scored_tokens = 0;
  double negative_log_likelihood = 0;  // natural logarithm, summed over the scored tokens

  double mean() const;        // negative log likelihood of a token
  double perplexity() const;  // exp(mean)
};

// Where a forecast takes the machine's rates from.
struct RatesSource {
  std::string cache_path;  // file that keeps them; "": measured anew and not kept
  bool remeasure = false;
};

struct PlanReport {
  MemoryPlan plan;
  SpeedForecast speed = {};
  std::vector<BudgetPoint> curve = {};  // ascending
  MachineRates rates = {};
  std::string device = {};  // of the model file, as the rates call it
};

class Engine {
 public:
  // Reads no weights unless `preload` or `verify` asks for it; `on_progress` as
  // WeightCache::Preload has it. Errors name the file and what is wrong with it, the option that
  // makes no sense, or the budget that is too small.
  static Result<std::unique_ptr<Engine>> Load(
      const std::string& path, const EngineOptions& options,
      FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

  // What Load would allocate, without doing so.
  static Result<MemoryPlan> Plan(const std::string& path, const EngineOptions& options);

  // The plan, and how fast the model will run under it and under others.
  static Result<PlanReport> Forecast(const std::string& path, const EngineOptions& options,
                                     const RatesSource& rates);

  const std::string& path() const { return file_.path(); }
  const ModelConfig& config() const { return model_->config(); }
  const EngineOptions& options() const { return options_; }  // with the defaults filled in
  const char* kernels_name() const { return kernels_.name; }
  uint64_t kv_bytes() const;  // of one session
  uint64_t scratch_bytes() const { return model_->scratch_bytes(); }
  CacheStatistics cache_statistics() const { return cache_->Statistics(); }
  PassTimes pass_times() const { return model_->times(); }

  // The one weight cache: to preload, pin, verify, trace.
  WeightCache& weights() { return *cache_; }
  const WeightCache& weights() const { return *cache_; }

  // The threads of the forward passes, for measuring what they can do.
  ThreadPool& threads() { return pool_; }

  // As it stands now: after SetBudget the shares of the new budget.
  MemoryPlan plan() const;

  // Changes the budget while anything runs; when it returns, the memory is the system's again. With
  // Tier::kAuto frozen weights are then held as engine/tiers.h has it for this budget: from now on,
  // or from the end of the pass that runs, which it waits for where only that leaves enough memory
  // (so a pass's own thread must not call it). kResourceExhausted, with nothing changed, below the
  // floor.
  Result<void> SetBudget(const BudgetRequest& budget);

  // An error for a model without a usable tokenizer, which still gives logits. kCorrupt for a
  // vocabulary with more tokens than the model has logits.
  Result<const Tokenizer*> tokenizer() const;

  // nullptr where the file has no chat template.
  Result<const ChatTemplate*> chat_template() const;

  // Makes room in the budget for its KV cache, from that of the weights where it must.
  // kResourceExhausted when there is none.
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

  struct Opened;
  static Result<Opened> Open(const std::string& path, const EngineOptions& options);

  explicit Engine(Opened opened);
  Result<void> ClaimShares();

  // What a sequence remembers, and its part of the budget.
  struct SequenceMemory {
    Reservation reservation;
    KvCache kv;
  };
  Result<SequenceMemory> NewSequenceMemory(int64_t positions);
  KvSize KvSizeOf(int64_t positions) const;
  // After a sequence gave its memory back.
  void ReturnToWeights();

  // All of these with plan_mutex_ held.
  // The budget, less all that is claimed by others, goes to the weights; `needed_bytes` more are to
  // be left free.
  Result<void> Rebalance(uint64_t budget_bytes, uint64_t needed_bytes);
  // What is claimed by others, and these bytes or those of a sequence.
  uint64_t SpokenFor(uint64_t needed_bytes) const;
  uint64_t LeastForWeights(const TileMap& map) const;
  // In the forms that are best with this capacity where they may change now, else in those they are
  // in; then they are due before the next pass.
  Result<void> GiveToWeights(uint64_t capacity_bytes);
  // The weights, as many thawed as all fit with; coded where they do not.
  TileMap FormsWithin(uint64_t capacity_bytes) const;

  // Around a forward pass, with forward_mutex_ held.
  Result<void> BeginPass();
  void EndPass();

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
  Ledger ledger_{0};
  mutable std::mutex plan_mutex_;  // guards the plan, changes of the budget, and the next five
  MemoryPlan plan_;
  std::condition_variable pass_changed_;
  bool pass_runs_ = false;
  int waiting_for_pass_ = 0;        // threads that change the budget when it is over
  bool changes_forms_ = false;      // constant: weights may be thawed or coded, by the budget
  bool forms_are_due_ = false;      // they are to be chosen anew before the next pass
  const int64_t logits_chunk_;      // positions whose logits are computed at a time
  std::vector<Reservation> fixed_;  // all shares but KV caches and weights
  Reservation weights_reservation_;
  std::unique_ptr<WeightCache> cache_;
  std::unique_ptr<Model> model_;
  std::mutex forward_mutex_;  // one forward pass at a time

  const Result<std::unique_ptr<Tokenizer>> tokenizer_;
  const Result<std::optional<ChatTemplate>> chat_template_;
};

}  // namespace thaw
