#include "engine/speed_benchmark.h"

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/stopwatch.h"
#include "engine/session.h"
#include "sampling/split_mix.h"

namespace thaw {
namespace {

using Clock = std::chrono::steady_clock;

// Less than this in memory is measured over the reserve instead: what stays in the cache of a core
// tells nothing of memory, and the reserve is no worse.
constexpr uint64_t kLeastResidentBytes = uint64_t{2} << 20;

std::string_view PhaseName(Phase phase) { return phase == Phase::kPrefill ? "prefill" : "decode"; }

// The first stands for the token that begins a text; the others are spread over the vocabulary.
std::vector<int32_t> FixedTokens(int64_t count, int64_t n_vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  SplitMix64 random(1);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random.Next() % static_cast<uint64_t>(n_vocab));
  }
  tokens.front() = static_cast<int32_t>(std::min<int64_t>(1, n_vocab - 1));
  return tokens;
}

size_t HashOf(std::span<const float> logits) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(logits.data()), logits.size_bytes()});
}

// Two for each weight that a token is multiplied with: the output matrix once for a prompt, of
// experts those that it goes through.
uint64_t OperationsOf(const TileMap& map, Phase phase, int64_t tokens) {
  uint64_t operations = 0;
  for (const WeightMatrix& matrix : map.matrices()) {
    if (!matrix.is_multiplied()) continue;
    const bool is_once = phase == Phase::kPrefill && matrix.group == WeightGroup::kOutput;
    const int64_t rows = matrix.is_chosen() ? matrix.rows_of_expert() * matrix.n_used : matrix.rows;
    operations += static_cast<uint64_t>(2 * rows * matrix.cols * (is_once ? 1 : tokens));
  }
  return operations;
}

// Of `tokens` that are decoded after `after` others; each sees itself, too.
uint64_t KvBytesOf(const Engine& engine, int64_t after, int64_t tokens) {
  uint64_t bytes = 0;
  for (int64_t i = 1; i <= tokens; ++i) {
    bytes += KvCache::BytesSeen(engine.config(), engine.options().kv_type, after + i);
  }
  return bytes;
}

// The state that the parts of a benchmark share.
class Benchmark {
 public:
  Benchmark(Engine& engine, Session& session, const BenchmarkOptions& options,
            FunctionRef<void(uint64_t, uint64_t)> on_progress)
      : engine_(engine),
        session_(session),
        options_(options),
        on_progress_(on_progress),
        tokens_(FixedTokens(options.PositionsNeeded(), engine.config().n_vocab)) {
    for (const int64_t tokens : options.prefill_tokens) Add(Phase::kPrefill, tokens);
    for (const int64_t tokens : options.decode_tokens) Add(Phase::kDecode, tokens);
  }

  Result<BenchmarkReport> Run() {
    THAW_TRY(MeasureFirstTokens());
    std::vector<size_t> expected;
    for (const WorkloadReport& workload : report_.workloads) {
      WorkloadReport uncounted = workload;
      THAW_ASSIGN(const size_t logits, RunOnce(uncounted));
      expected.push_back(logits);
    }
    reads_between_ = AllIsInMemory();
    THAW_TRY(MeasureMachine());
    for (int run = 0; run < options_.runs; ++run) {
      for (size_t i = 0; i < expected.size(); ++i) {
        WorkloadReport& workload = report_.workloads[i];
        THAW_ASSIGN(const size_t logits, RunOnce(workload));
        if (logits != expected[i]) {
          return Fail(ErrorCode::kCorrupt, "{}: run {} of {} {} tokens ended with other logits",
                      engine_.path(), run + 1, PhaseName(workload.phase), workload.tokens);
        }
      }
      THAW_TRY(MeasureMachine());
    }
    report_.memory_bytes_per_second = SpreadOf(memory_rates_).median;
    report_.disk_bytes_per_second = SpreadOf(disk_rates_).median;
    if (report_.int8) report_.int8->operations_per_second = SpreadOf(int8_rates_).median;
    return std::move(report_);
  }

 private:
  void Add(Phase phase, int64_t tokens) {
    const bool is_decode = phase == Phase::kDecode;
    const int64_t after = is_decode ? options_.decode_after : 0;
    report_.workloads.push_back(
        {.phase = phase,
         .tokens = tokens,
         .after = after,
         .run_kv_bytes = is_decode ? KvBytesOf(engine_, after, tokens) : 0,
         .run_operations = OperationsOf(engine_.weights().map(), phase, tokens)});
    total_tokens_ += static_cast<uint64_t>((after + tokens) * (options_.runs + 1));
  }

  Result<void> MeasureFirstTokens() {
    const int64_t n = options_.prefill_tokens.empty() ? 1 : options_.prefill_tokens.front();
    report_.first_prompt_tokens = n;
    THAW_ASSIGN(report_.ttft_cold_seconds, FeedNew(0, n));
    session_.Reset();
    THAW_ASSIGN(report_.ttft_warm_seconds, FeedNew(0, n));
    return {};
  }

  // One run of a workload, added to its report; a hash of the logits that it ended with.
  Result<size_t> RunOnce(WorkloadReport& workload) {
    session_.Reset();
    const bool is_decode = workload.phase == Phase::kDecode;
    if (is_decode) {
      THAW_TRY(FeedNew(0, workload.after));
      Advance(workload.after);
    }
    const CacheStatistics before = engine_.cache_statistics();
    const uint64_t visited_before = engine_.weights().VisitedBytes();
    double seconds = 0;
    if (is_decode) {
      std::optional<ResidentReader> reader;
      if (reads_between_) reader.emplace(engine_.weights(), engine_.threads());
      double before_step = reader ? reader->ReadOn() : 0;
      for (int64_t i = 0; i < workload.tokens; ++i) {
        THAW_ASSIGN(const double step_seconds, FeedNew(workload.after + i, 1));
        workload.step_seconds.push_back(step_seconds);
        seconds += step_seconds;
        if (reader) {
          const double after_step = reader->ReadOn();
          workload.step_memory_rates.push_back(2 / (1 / before_step + 1 / after_step));
          before_step = after_step;
        }
        Advance(1);
      }
    } else {
      THAW_ASSIGN(seconds, FeedNew(0, workload.tokens));
      Advance(workload.tokens);
    }
    const CacheStatistics after = engine_.cache_statistics();
    ++workload.runs;
    workload.run_seconds.push_back(seconds);
    workload.hit_bytes += after.hit_bytes - before.hit_bytes;
    workload.miss_bytes += after.miss_bytes - before.miss_bytes;
    workload.visited_bytes += engine_.weights().VisitedBytes() - visited_before;
    workload.stall_seconds += after.stall_seconds - before.stall_seconds;
    return HashOf(logits_);
  }

  // Seconds of computing `count` of the fixed tokens from `first` on. Looking at what came of it is
  // no part of them.
  Result<double> FeedNew(int64_t first, int64_t count) {
    const auto tokens =
        std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    const auto start = Clock::now();
    THAW_ASSIGN(logits_, session_.Feed(tokens, options_.cancel));
    const double seconds = SecondsSince(start);
    if (!std::ranges::all_of(logits_, [](float logit) { return std::isfinite(logit); })) {
      return Fail(ErrorCode::kCorrupt, "{}: the logits after {} tokens are not all finite",
                  engine_.path(), session_.tokens().size());
    }
    return seconds;
  }

  // What is read between two tokens would leave a reader of weights time to run ahead.
  bool AllIsInMemory() const {
    return ResidentReader(engine_.weights(), engine_.threads()).bytes() ==
           engine_.weights().map().memory_bytes();
  }

  Result<void> MeasureMachine() {
    const MeasurementLimits limits = {.memory_bytes = kBenchmarkReserveBytes,
                                      .seconds = options_.rate_seconds};
    ThreadPool& threads = engine_.threads();
    ResidentRate memory = MeasureResidentRate(engine_.weights(), threads, limits.seconds);
    if (memory.bytes < kLeastResidentBytes) {
      THAW_ASSIGN(memory.bytes, limits.BufferBytes());
      THAW_ASSIGN(memory.bytes_per_second, MeasureMemoryRate(threads, limits));
    }
    memory_rates_.push_back(memory.bytes_per_second);
    report_.memory_buffer_bytes = memory.bytes;
    const File& file = *engine_.weights().map().matrix_of(0).file;
    THAW_ASSIGN(const double disk, MeasureDiskRate(file, limits));
    disk_rates_.push_back(disk);
    report_.int8 = MeasureInt8Rate(threads, limits.seconds);
    if (report_.int8) int8_rates_.push_back(report_.int8->operations_per_second);
    return {};
  }

  void Advance(int64_t tokens) {
    done_tokens_ += static_cast<uint64_t>(tokens);
    on_progress_(done_tokens_, total_tokens_);
  }

  Engine& engine_;
  Session& session_;
  const BenchmarkOptions& options_;
  FunctionRef<void(uint64_t, uint64_t)> on_progress_;
  const std::vector<int32_t> tokens_;
  std::span<const float> logits_;  // of the last token fed
  BenchmarkReport report_;
  bool reads_between_ = false;  // weights between the tokens of decode
  std::vector<double> memory_rates_;
  std::vector<double> disk_rates_;
  std::vector<double> int8_rates_;
  uint64_t done_tokens_ = 0;
  uint64_t total_tokens_ = 0;
};

}  // namespace

int64_t BenchmarkOptions::PositionsNeeded() const {
  int64_t positions = 1;
  for (const int64_t tokens : prefill_tokens) positions = std::max(positions, tokens);
  for (const int64_t tokens : decode_tokens) positions = std::max(positions, decode_after + tokens);
  return positions;
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .min = values.front(), .max = values.back()};
}

Spread WorkloadReport::TokensPerSecond() const {
  std::vector<double> rates;
  rates.reserve(run_seconds.size());
  for (const double seconds : run_seconds) rates.push_back(static_cast<double>(tokens) / seconds);
  return SpreadOf(std::move(rates));
}

double WorkloadReport::PerToken(double sum) const {
  return runs == 0 ? 0 : sum / (static_cast<double>(tokens) * runs);
}

double WorkloadReport::BytesPerToken() const {
  return PerToken(static_cast<double>(visited_bytes)) + KvBytesPerToken();
}

double WorkloadReport::KvBytesPerToken() const {
  return PerToken(static_cast<double>(run_kv_bytes) * runs);
}

double WorkloadReport::BytesReadPerToken() const {
  return PerToken(static_cast<double>(miss_bytes));
}

double WorkloadReport::StallSecondsPerToken() const { return PerToken(stall_seconds); }

double WorkloadReport::HitRateBytes() const {
  const uint64_t visited = hit_bytes + miss_bytes;
  return visited == 0 ? 0 : static_cast<double>(hit_bytes) / static_cast<double>(visited);
}

std::optional<double> WorkloadReport::MemoryRate() const {
  if (step_memory_rates.empty()) return std::nullopt;
  return SpreadOf(step_memory_rates).median;
}

std::optional<double> WorkloadReport::ShareOfMemoryRate() const {
  if (step_memory_rates.empty()) return std::nullopt;
  std::vector<double> shares;
  shares.reserve(step_seconds.size());
  for (size_t i = 0; i < step_seconds.size(); ++i) {
    shares.push_back(BytesPerToken() / (step_seconds[i] * step_memory_rates[i]));
  }
  return SpreadOf(std::move(shares)).median;
}

Result<BenchmarkReport> RunBenchmark(Engine& engine, const BenchmarkOptions& options,
                                     FunctionRef<void(uint64_t, uint64_t)> on_progress) {
  const int64_t needed = options.PositionsNeeded();
  const int64_t context = engine.options().context;
  if (needed > context) {
    return Fail(ErrorCode::kInvalidArgument,
                "the longest run takes {} positions, but the context holds {}: measure fewer "
                "tokens, or give a larger -c",
                needed, context);
  }
  THAW_ASSIGN(const std::unique_ptr<Session> session, engine.NewSession());
  return Benchmark(engine, *session, options, on_progress).Run();
}

}  // namespace thaw
