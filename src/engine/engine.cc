#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/process.h"
#include "base/units.h"
#include "engine/model_file.h"
#include "engine/rates_file.h"
#include "engine/session.h"
#include "io/device.h"
#include "kernels/coded_self_check.h"
#include "kernels/self_check.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxIoThreads = 64;

// The name under which KV caches claim their memory.
constexpr const char* kKvCache = "KV cache";

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
  if (options.context != 0) {
    const int64_t least = std::min(options.least_context, config.context_length);
    options.context = std::max(options.context, least);
  }
  if (options.context > config.context_length) {
    LogWarning("the context of {} tokens is longer than the {} that the model was trained for",
               options.context, config.context_length);
  }
  if (options.frequency_window < 1 || options.frequency_window > 64) {
    return Fail(ErrorCode::kInvalidArgument, "a frequency window of {} passes, expected 1 to 64",
                options.frequency_window);
  }
  if (options.io_threads < 0 || options.io_threads > kMaxIoThreads) {
    return Fail(ErrorCode::kInvalidArgument, "{} threads for reading were asked for, at most {}",
                options.io_threads, kMaxIoThreads);
  }
  if (options.synchronous_prefetch && options.prefetch_ahead < 0) options.prefetch_ahead = 1;
  THAW_TRY(KvCache::CheckType(config, options.kv_type));
  if (options.threads == 0) options.threads = AvailableThreads();
  return options;
}

// What a run computes with.
struct Computing {
  const KernelTable* kernels;
  const TileDecoder* decoder;
};

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

// A model file that was read but for its weights, and the plan for them.
struct Engine::Opened {
  GgufFile file;
  Computing computing;
  const Policy* policy;
  EngineOptions options;
  ModelDescription description;
  Result<std::unique_ptr<Tokenizer>> tokenizer;
  Result<std::optional<ChatTemplate>> chat_template;
  TileMap map;
  MemoryPlanInput plan_input;  // its pointers are set where it is used
  MemoryPlan plan;
};

namespace {

// The tiles of matrices whose is_packed is still to be set.
Result<TileMap> CreateMap(const KernelTable& kernels, std::vector<WeightMatrix> matrices) {
  for (WeightMatrix& matrix : matrices) {
    matrix.is_packed =
        kernels.packs_rows && matrix.is_multiplied() && CanPackRows(matrix.type, matrix.cols);
  }
  return TileMap::Create(std::move(matrices));
}

// What agrees with the portable kernels and decoder on all that these matrices hold.
Result<Computing> SelectChecked(const EngineOptions& options,
                                std::span<const WeightMatrix> matrices) {
  std::vector<ElementType> types;
  std::vector<FrozenKind> kinds;
  for (const WeightMatrix& matrix : matrices) {
    types.push_back(matrix.type);
    if (options.tier != Tier::kCoded) types.push_back(matrix.thawed_type());
    if (matrix.is_frozen()) kinds.push_back(matrix.frozen->kind);
  }
  THAW_ASSIGN(const KernelTable* kernels, SelectCheckedKernels(options.kernels, types));
  THAW_ASSIGN(const TileDecoder* decoder,
              SelectCheckedDecoder(options.codec_backend, *kernels, kinds));
  return Computing{.kernels = kernels, .decoder = decoder};
}

// Holds as many tiles of input.map, which is `map`, thawed as have their places within a budget,
// and plans so. Fails where not even coded ones can do with it.
Result<MemoryPlan> ThawWhatFitsInto(uint64_t budget_bytes, MemoryPlanInput input, TileMap& map) {
  input.budget = {.base = BudgetRequest::Base::kNothing, .bytes = budget_bytes};
  ThawWhatFits(map, [&] {
    const auto plan = MakeMemoryPlan(input);
    return plan && plan->shares.HoldsAll();
  });
  return MakeMemoryPlan(input);
}

// Marks the weights that are faster thawed and holds those of them thawed for which there is memory
// beside all others: `map` and `plan` become those of that. By rates that are measured within the
// plan's budget. Where that has no room for measuring or for changing forms later, nothing is.
Result<void> ThawWhatIsFaster(const EngineOptions& options, const Computing& computing,
                              std::vector<WeightMatrix> matrices, MemoryPlanInput input,
                              TileMap& map, MemoryPlan& plan) {
  const KernelTable& kernels = *computing.kernels;
  const std::vector<WeightForm> forms = FormsToChooseFrom(matrices);
  if (forms.empty()) return {};
  ThreadPool pool(options.threads);
  RatesRequest request{
      .types = forms, .decoder = computing.decoder, .cache_path = options.rates_path};
  request.limits.memory_bytes = std::min(request.limits.memory_bytes, plan.weight_capacity_bytes);
  const auto rates = ObtainRates(request, kernels, pool);
  if (!rates) {
    LogInfo("weights stay coded: {}", rates.error().message);
    return {};
  }
  if (!MarkFasterThawed(*rates, matrices)) return {};
  // Of the floor at which they are coded.
  const uint64_t floor = plan.floor_bytes;
  const uint64_t budget = plan.budget_bytes;
  THAW_ASSIGN(TileMap chosen, CreateMap(kernels, std::move(matrices)));
  input.map = &chosen;
  auto of_chosen = ThawWhatFitsInto(budget, input, chosen);
  if (!of_chosen) {
    LogInfo("weights stay coded: {}", of_chosen.error().message);
    return {};
  }
  plan = *of_chosen;
  plan.floor_bytes = floor;
  map = std::move(chosen);
  return {};
}

}  // namespace

Result<Engine::Opened> Engine::Open(const std::string& path, const EngineOptions& options) {
  THAW_ASSIGN(const Policy* policy, FindPolicy(options.policy));
  THAW_ASSIGN(GgufFile file, GgufFile::Open(path));
  THAW_ASSIGN(ModelDescription description, DescribeModel(file));
  THAW_ASSIGN(EngineOptions filled, FillDefaults(options, description.config));
  THAW_ASSIGN(const Computing computing, SelectChecked(options, description.matrices));
  filled.kv_type = KvCache::TypeToKeep(description.config, filled.kv_type, *computing.kernels);
  std::vector<WeightMatrix> matrices = std::exchange(description.matrices, {});
  for (WeightMatrix& matrix : matrices) {
    matrix.form = options.tier == Tier::kThawed ? TileForm::kThawed : TileForm::kCoded;
  }
  THAW_ASSIGN(TileMap map, CreateMap(*computing.kernels, matrices));
  // Now, not at their first use, so that the plan knows what they take.
  auto tokenizer = LoadTokenizer(file);
  auto chat_template = LoadChatTemplate(file);

  MemoryPlanInput input{.config = &description.config, .map = &map, .policy = policy};
  THAW_ASSIGN(input.pinned, MatchTiles(map, filled.pinned));
  ReturnFreedMemory();
  input.resident_bytes = ResidentBytes();
  input.peak_resident_bytes = PeakResidentBytes();
  const SystemInfo system = ReadSystemInfo();
  input.available_bytes = AvailableBytes(system, input.resident_bytes);
  input.default_budget_bytes = DefaultBudget(system, input.resident_bytes);
  input.huge_pages = system.huge_pages == "always" || system.huge_pages == "madvise";
  input.threads = filled.threads;
  input.io_threads = filled.io_threads;
  input.kv_type = filled.kv_type;
  input.may_split = MaySplitActivations(*computing.kernels, map);
  input.context = filled.context;
  input.prefill_chunk = filled.prefill_chunk;
  input.all_logits = filled.all_logits;
  input.reserved_bytes = filled.reserved_bytes;
  input.budget = filled.budget;
  auto plan = MakeMemoryPlan(input);
  if (!plan) return Fail(std::move(plan).error().In(path));
  if (options.tier == Tier::kAuto) {
    THAW_TRY(ThawWhatIsFaster(filled, computing, std::move(matrices), input, map, *plan));
  }
  filled.context = plan->context;
  filled.prefill_chunk = plan->prefill_chunk;
  return Opened{.file = std::move(file),
                .computing = computing,
                .policy = policy,
                .options = std::move(filled),
                .description = std::move(description),
                .tokenizer = std::move(tokenizer),
                .chat_template = std::move(chat_template),
                .map = std::move(map),
                .plan_input = std::move(input),
                .plan = *plan};
}

Result<MemoryPlan> Engine::Plan(const std::string& path, const EngineOptions& options) {
  THAW_ASSIGN(const Opened opened, Open(path, options));
  return opened.plan;
}

Result<PlanReport> Engine::Forecast(const std::string& path, const EngineOptions& options,
                                    const RatesSource& source) {
  THAW_ASSIGN(const Opened opened, Open(path, options));
  std::vector<WeightForm> types;
  if (opened.map.changes_forms()) types = FormsToChooseFrom(opened.map.matrices());
  for (const TypeBytes& part : BytesByType(opened.map)) {
    if (std::ranges::find(types, part.type) == types.end()) types.push_back(part.type);
  }
  const File& file = *opened.map.matrix_of(0).file;
  ThreadPool pool(opened.options.threads);
  PlanReport report{.plan = opened.plan};
  THAW_ASSIGN(report.rates, ObtainRates({.types = types,
                                         .decoder = opened.computing.decoder,
                                         .file = &file,
                                         .cache_path = source.cache_path,
                                         .remeasure = source.remeasure},
                                        *opened.computing.kernels, pool));
  THAW_ASSIGN(report.device, DeviceOf(file.path()));
  const ModelConfig& config = opened.description.config;
  report.speed = ForecastSpeed(report.plan, config, opened.map, report.rates, report.device);

  TileMap map = opened.map;
  MemoryPlanInput input = opened.plan_input;
  input.config = &config;
  input.map = &map;
  input.context = report.plan.context;
  // A little more than the weights, because slots and alignment take some.
  const double most = 1.05 *
                      static_cast<double>(std::max(map.most_span_bytes(), map.weight_bytes())) /
                      static_cast<double>(map.weight_bytes());
  constexpr int kSteps = 16;
  for (int step = 0; step <= kSteps; ++step) {
    input.budget = {.base = BudgetRequest::Base::kFloor, .fraction = most * step / kSteps};
    map.SetThawed([](int32_t) { return false; });
    THAW_ASSIGN(MemoryPlan plan, MakeMemoryPlan(input));
    if (map.changes_forms()) {
      THAW_ASSIGN(plan, ThawWhatFitsInto(plan.budget_bytes, input, map));
    }
    const SpeedForecast speed = ForecastSpeed(plan, config, map, report.rates, report.device);
    report.curve.push_back({.budget_bytes = plan.budget_bytes,
                            .read_bytes_per_token = plan.bytes_read_per_token(),
                            .decode_tok_per_s = speed.decode_tok_per_s});
  }
  return report;
}

Engine::Engine(Opened opened)
    : file_(std::move(opened.file)),
      options_(std::move(opened.options)),
      kernels_(*opened.computing.kernels),
      pool_(options_.threads),
      ledger_(opened.plan.budget_bytes),
      plan_(opened.plan),
      logits_chunk_(opened.plan.logits_chunk),
      tokenizer_(std::move(opened.tokenizer)),
      chat_template_(std::move(opened.chat_template)) {}

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& path, const EngineOptions& options,
                                             FunctionRef<bool(uint64_t, uint64_t)> on_progress) {
  THAW_ASSIGN(Opened opened, Open(path, options));
  ModelDescription description = std::move(opened.description);
  TileMap map = std::move(opened.map);
  const WeightCacheOptions cache_options{
      .capacity_bytes = opened.plan.weight_capacity_bytes,
      .policy = opened.policy,
      .frequency_window = opened.options.frequency_window,
      .pinned = opened.options.pinned,
      .prefetch_ahead = opened.options.prefetch_ahead,
      .synchronous_prefetch = opened.options.synchronous_prefetch,
      .io_threads = opened.options.io_threads,
      .decoder = opened.computing.decoder};
  std::unique_ptr<Engine> engine(new Engine(std::move(opened)));
  THAW_TRY(engine->ClaimShares());
  engine->changes_forms_ = map.changes_forms();
  THAW_ASSIGN(engine->cache_, WeightCache::Create(std::move(map), cache_options));
  THAW_ASSIGN(engine->model_, Model::Create(std::move(description), *engine->cache_,
                                            engine->kernels_, engine->pool_,
                                            {.max_batch = engine->options_.prefill_chunk,
                                             .max_context = engine->options_.context,
                                             .decoder = cache_options.decoder}));
  if (options.preload || options.verify) THAW_TRY(engine->cache_->Preload(on_progress));
  if (options.verify) THAW_TRY(engine->cache_->Verify(on_progress));
  return engine;
}

Result<void> Engine::ClaimShares() {
  const std::pair<const char*, uint64_t> shares[] = {
      {"program", plan_.program_bytes},   {"growth", plan_.growth_bytes},
      {"kernel", plan_.kernel_bytes},     {"activations", plan_.scratch_bytes},
      {"logits", plan_.logits_bytes},     {"row cache", plan_.row_cache_bytes},
      {"reserved", plan_.reserved_bytes},
  };
  // The floor allows for the program's size to differ from run to run.
  ledger_.SetLimit(std::max(plan_.budget_bytes, plan_.claimed_bytes()));
  for (const auto& [name, bytes] : shares) {
    THAW_ASSIGN(Reservation claimed, ledger_.Reserve(name, bytes));
    fixed_.push_back(std::move(claimed));
  }
  THAW_ASSIGN(weights_reservation_, ledger_.Reserve("weights", plan_.weight_capacity_bytes));
  return {};
}

MemoryPlan Engine::plan() const {
  const std::lock_guard lock(plan_mutex_);
  return plan_;
}

Result<void> Engine::SetBudget(const BudgetRequest& budget) {
  const SystemInfo system = ReadSystemInfo();
  const uint64_t resident = ResidentBytes();
  std::unique_lock lock(plan_mutex_);
  const uint64_t bytes = BudgetBytes(budget, {.available_bytes = AvailableBytes(system, resident),
                                              .default_bytes = DefaultBudget(system, resident),
                                              .floor_bytes = plan_.floor_bytes,
                                              .weight_bytes = plan_.weight_bytes});
  if (changes_forms_ && bytes < SpokenFor(0) + LeastForWeights(cache_->map())) {
    // In other forms they may fit, which must wait for the pass.
    ++waiting_for_pass_;
    pass_changed_.wait(lock, [&] { return !pass_runs_; });
    --waiting_for_pass_;
    pass_changed_.notify_all();
  }
  return Rebalance(bytes, 0);
}

uint64_t Engine::SpokenFor(uint64_t needed_bytes) const {
  const uint64_t kv_claimed = ledger_.claimed(kKvCache);
  // One sequence must always be possible.
  const uint64_t kv_idle = plan_.kv_bytes - std::min(plan_.kv_bytes, kv_claimed);
  const uint64_t others = ledger_.claimed() - weights_reservation_.bytes();
  return others + std::max(needed_bytes, kv_idle);
}

uint64_t Engine::LeastForWeights(const TileMap& map) const {
  return MinimumCapacity(map, cache_->policy(), cache_->pinned_tiles());
}

TileMap Engine::FormsWithin(uint64_t capacity_bytes) const {
  TileMap map = cache_->map();
  const std::vector<char> pinned = cache_->pinned_tiles();
  const std::vector<TileUse> unseen(pinned.size());
  ThawWhatFits(map, [&] {
    const auto placed = ChoosePlacement(map, cache_->policy(), unseen, pinned, capacity_bytes);
    return placed && placed->shares.HoldsAll();
  });
  return map;
}

Result<void> Engine::GiveToWeights(uint64_t capacity_bytes) {
  forms_are_due_ = changes_forms_;
  if (changes_forms_ && !pass_runs_) {
    THAW_ASSIGN(const bool has_changed,
                cache_->SetForms(FormsWithin(capacity_bytes), capacity_bytes));
    CountForms(cache_->map(), plan_);
    forms_are_due_ = !has_changed;
    if (has_changed) return {};
  }
  return cache_->SetCapacity(capacity_bytes);
}

Result<void> Engine::Rebalance(uint64_t budget_bytes, uint64_t needed_bytes) {
  const uint64_t spoken_for = SpokenFor(needed_bytes);
  uint64_t least = spoken_for + LeastForWeights(cache_->map());
  if (changes_forms_ && !pass_runs_ && budget_bytes < least) {
    least = spoken_for + LeastForWeights(FormsWithin(0));
  }
  if (budget_bytes < least) {
    return Fail(ErrorCode::kResourceExhausted,
                "a budget of {} is too small: {} are held by the program, its activations and its "
                "KV caches, and weights need {} more: {} in all",
                FormatBytes(budget_bytes), FormatBytes(spoken_for), FormatBytes(least - spoken_for),
                FormatBytes(least));
  }
  THAW_TRY(GiveToWeights(budget_bytes - spoken_for));
  ledger_.SetLimit(std::max(ledger_.limit(), budget_bytes));
  THAW_TRY(weights_reservation_.Resize(cache_->capacity_bytes()));
  ledger_.SetLimit(budget_bytes);
  const CacheStatistics s = cache_->Statistics();
  plan_.budget_bytes = budget_bytes;
  plan_.weight_capacity_bytes = s.capacity_bytes;
  plan_.shares = s.shares;
  plan_.slot_bytes = s.slot_bytes;
  return {};
}

Result<Engine::SequenceMemory> Engine::NewSequenceMemory(int64_t positions) {
  const std::lock_guard lock(plan_mutex_);
  const KvSize size = KvSizeOf(positions);
  const uint64_t bytes = KvCache::Bytes(config(), size);
  if (ledger_.free() < bytes) THAW_TRY(Rebalance(plan_.budget_bytes, bytes));
  THAW_ASSIGN(Reservation reservation, ledger_.Reserve(kKvCache, bytes));
  THAW_ASSIGN(KvCache kv, KvCache::Create(config(), size));
  return SequenceMemory{std::move(reservation), std::move(kv)};
}

void Engine::ReturnToWeights() {
  const std::lock_guard lock(plan_mutex_);
  // What cannot grow stays as it is.
  const bool can_grow = changes_forms_ || !plan_.shares.HoldsAll();
  if (can_grow) (void)Rebalance(plan_.budget_bytes, 0);
}

Result<void> Engine::BeginPass() {
  std::unique_lock lock(plan_mutex_);
  pass_changed_.wait(lock, [&] { return waiting_for_pass_ == 0; });
  if (forms_are_due_) THAW_TRY(Rebalance(plan_.budget_bytes, 0));
  pass_runs_ = true;
  return {};
}

void Engine::EndPass() {
  const std::lock_guard lock(plan_mutex_);
  pass_runs_ = false;
  pass_changed_.notify_all();
}

KvSize Engine::KvSizeOf(int64_t positions) const {
  return {.type = options_.kv_type,
          .n_positions = positions,
          .max_batch = std::min(positions, options_.prefill_chunk)};
}

uint64_t Engine::kv_bytes() const { return KvCache::Bytes(config(), KvSizeOf(options_.context)); }

Result<const Tokenizer*> Engine::tokenizer() const {
  if (!tokenizer_) return Fail(tokenizer_.error());
  if ((*tokenizer_)->n_tokens() > config().n_vocab) {
    return Fail(ErrorCode::kCorrupt, "{}: the vocabulary has {} tokens, but the model only {}",
                path(), (*tokenizer_)->n_tokens(), config().n_vocab);
  }
  return tokenizer_->get();
}

Result<const ChatTemplate*> Engine::chat_template() const {
  if (!chat_template_) return Fail(chat_template_.error());
  return chat_template_->has_value() ? &**chat_template_ : nullptr;
}

Result<std::unique_ptr<Session>> Engine::NewSession() {
  THAW_ASSIGN(SequenceMemory memory, NewSequenceMemory(options_.context));
  return std::unique_ptr<Session>(new Session(*this, std::move(memory)));
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
  const int64_t chunk = only_last ? options_.prefill_chunk : logits_chunk_;
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
      THAW_TRY(BeginPass());
      const auto outcome = model_->Forward(batch, logits, cancel);
      EndPass();
      THAW_TRY(outcome);
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
  THAW_ASSIGN(SequenceMemory memory, NewSequenceMemory(static_cast<int64_t>(tokens.size())));
  std::vector<float> logits;
  return Extend(memory.kv, tokens, /*only_last=*/false, logits, on_rows, cancel);
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
