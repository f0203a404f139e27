#include "engine/freeze.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/system_info.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "engine/freeze_allocation.h"
#include "engine/freeze_journal.h"
#include "engine/freeze_output.h"
#include "engine/freeze_plan.h"
#include "engine/freeze_recipe.h"
#include "engine/freeze_tensor.h"
#include "engine/freeze_verify.h"
#include "engine/imatrix.h"
#include "kernels/coded_self_check.h"
#include "kernels/self_check.h"

namespace thaw {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Changes with whatever makes tensors that an earlier version finished unlike those of this one.
constexpr int kJournalVersion = 4;

// Streams that a thread encodes before all wait for the slowest: 8 leave them busy for 15 parts
// in 16 where streams take equally long.
constexpr int64_t kStreamsOfThread = 8;

// Tables, stacks and the heap's own share, beside the memory that is counted.
constexpr uint64_t kGrowthBytes = 4 << 20;
constexpr uint64_t kGrowthBytesPerThread = 512 << 10;

// A tensor on its way: its plan and what a search has found for it.
struct Item {
  size_t index = 0;  // among the plans
  const TensorPlan* plan = nullptr;
  std::optional<FreezeRecord> record;  // once it is finished
  double step = 0;
  double target_bits = 0;
  double type_rmse = 0;
  bool is_coarser = false;  // than the type that was asked for
  RateCurve curve = {};     // where bits are allocated
};

class FreezeRun {
 public:
  FreezeRun(const FreezeOptions& options, const FreezeEvents& events, const GgufFile& file,
            std::vector<TensorPlan> plans, std::optional<ImportanceMatrix> importance)
      : options_(options),
        events_(events),
        file_(file),
        plans_(std::move(plans)),
        importance_(std::move(importance)),
        source_{.file = &file_, .importance = importance_ ? &*importance_ : nullptr},
        threads_(options.threads > 0 ? options.threads : AvailableThreads()),
        started_(Clock::now()) {}

  Result<FreezeReport> Run();

 private:
  bool is_cancelled() const { return options_.cancel != nullptr && *options_.cancel; }
  Result<void> CheckCancelled() const;

  Result<void> PlanMemory();
  Result<void> OpenJournal();
  void NoteFound(size_t finished) const;
  void NoteImportance() const;
  void NoteCoarser() const;

  Result<void> MeasureAll();
  Result<void> Measure(Item& item) const;
  Result<void> FreezeAll();
  Result<void> FreezeToSize();
  Result<void> CheckSizeIsReachable(const std::vector<Item*>& items, uint64_t fixed_bytes) const;
  Result<void> Shrink(const std::vector<Item*>& items, uint64_t fixed_bytes);
  Result<void> Freeze(Item& item);
  Result<void> FinishAsKept(Item& item, FreezeRecord record);

  std::vector<OutputTensor> OutputTensors() const;
  Result<void> Write(uint64_t& bytes);
  Result<void> Verify();
  FreezeReport Report(uint64_t bytes) const;

  const FreezeOptions& options_;
  const FreezeEvents& events_;
  const GgufFile& file_;
  std::vector<TensorPlan> plans_;
  std::optional<ImportanceMatrix> importance_;
  RecipeSource source_;
  int threads_;
  Clock::time_point started_;

  int64_t batch_streams_ = 1;
  std::unique_ptr<ThreadPool> pool_;
  std::optional<FreezeJournal> journal_;
  std::vector<Item> items_;  // in the order of the file
  uint64_t weights_done_ = 0;
  uint64_t weights_ = 0;
};

Result<void> FreezeRun::CheckCancelled() const {
  if (is_cancelled()) return Fail(ErrorCode::kCancelled, "stopped");
  return {};
}

// The threads' streams, a batch of coded ones, and the tile that is put together.
Result<void> FreezeRun::PlanMemory() {
  uint64_t worker = 0;
  uint64_t stream = 0;
  uint64_t source_bytes = 0;
  for (const TensorPlan& plan : plans_) {
    source_bytes += plan.source_bytes();
    if (!plan.is_frozen()) continue;
    worker = std::max(worker, WorkerBytes(plan));
    if (options_.verify) worker = std::max(worker, VerifyingBytes(plan));
    stream = std::max(stream, StreamBytesAtMost(plan));
  }
  ReturnFreedMemory();
  const uint64_t resident = ResidentBytes();
  const auto threads = static_cast<uint64_t>(threads_);
  const uint64_t fixed = std::max(resident, PeakResidentBytes()) + kGrowthBytes +
                         threads * (kGrowthBytesPerThread + worker) + 2 * stream;
  const SystemInfo system = ReadSystemInfo();
  const BudgetBases bases = {.available_bytes = AvailableBytes(system, resident),
                             .default_bytes = DefaultBudget(system, resident),
                             .floor_bytes = fixed + threads * stream,
                             .weight_bytes = source_bytes};
  const uint64_t budget = BudgetBytes(options_.budget, bases);
  if (budget < bases.floor_bytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: freezing needs {} with {} threads, but the budget is {}; fewer threads (-t) "
                "need less",
                options_.input, FormatBytes(bases.floor_bytes), threads_, FormatBytes(budget));
  }
  if (stream > 0) {
    batch_streams_ = std::clamp(static_cast<int64_t>((budget - fixed) / stream),
                                static_cast<int64_t>(threads_), kStreamsOfThread * threads_);
  }
  pool_ = std::make_unique<ThreadPool>(threads_);
  return {};
}

Result<std::string> DescribeFile(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  if (error) return Fail(ErrorCode::kIo, "{}: {}", path, error.message());
  const auto size = fs::file_size(whole, error);
  const auto changed = fs::last_write_time(whole, error).time_since_epoch().count();
  if (error) return Fail(ErrorCode::kIo, "{}: {}", path, error.message());
  return fmt::format("{} of {} bytes, changed {}", whole.string(), size, changed);
}

// Everything that the finished tensors of a run depend on.
Result<std::string> DescribeRun(const FreezeOptions& options, const GgufFile& file) {
  const FreezeGoal& goal = options.goal;
  std::string text = fmt::format("thaw freeze, journal {}, format {}\ngoal {} {} {} {}\n",
                                 kJournalVersion, kFrozenVersion, static_cast<int>(goal.kind),
                                 Info(goal.type).name, goal.bits, goal.file_bytes);
  for (int i = 0; i < file.file_count(); ++i) {
    THAW_ASSIGN(const std::string part, DescribeFile(file.file(i)->path()));
    text += fmt::format("input {}\n", part);
  }
  if (!options.importance.empty()) {
    THAW_ASSIGN(const std::string matrix, DescribeFile(options.importance));
    text += fmt::format("importance {}\n", matrix);
  }
  for (const std::string& pattern : options.kept) text += fmt::format("keep {}\n", pattern);
  return text;
}

Result<void> FreezeRun::OpenJournal() {
  THAW_ASSIGN(const std::string parameters, DescribeRun(options_, file_));
  THAW_ASSIGN(journal_, FreezeJournal::Open(options_.output, parameters));
  size_t finished = 0;
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i].is_frozen()) continue;
    Item item{.index = i, .plan = &plans_[i], .record = journal_->Find(i)};
    weights_ += static_cast<uint64_t>(plans_[i].weights());
    if (item.record) {
      ++finished;
      weights_done_ += static_cast<uint64_t>(plans_[i].weights());
    }
    items_.push_back(std::move(item));
  }
  NoteFound(finished);
  NoteImportance();
  return {};
}

void FreezeRun::NoteFound(size_t finished) const {
  if (journal_->found() == FreezeJournal::Found::kSameRun) {
    events_.on_note(fmt::format("{}: going on from an earlier run, {} of {} tensors are finished",
                                options_.output, finished, items_.size()));
  } else if (journal_->found() == FreezeJournal::Found::kOtherRun) {
    events_.on_note(
        fmt::format("{}: starting anew, an unfinished run had another input or other options",
                    options_.output));
  }
}

void FreezeRun::NoteImportance() const {
  if (!importance_) return;
  const auto without = std::ranges::count_if(
      items_, [&](const Item& item) { return !importance_->Has(item.plan->name); });
  if (without == 0) return;
  events_.on_note(fmt::format("{}: {} of {} tensors are not in it; their columns count alike",
                              options_.importance, without, items_.size()));
}

void FreezeRun::NoteCoarser() const {
  const auto coarser = std::ranges::count_if(items_, &Item::is_coarser);
  if (coarser == 0) return;
  events_.on_note(fmt::format(
      "{}: {} of {} tensors get a relative RMSE of {}, as {} has less with them than tensors are "
      "frozen with",
      options_.input, coarser, items_.size(), kLeastTypeError, Info(options_.goal.type).name));
}

Result<void> FreezeRun::Measure(Item& item) const {
  const FreezeGoal& goal = options_.goal;
  switch (goal.kind) {
    case FreezeGoal::Kind::kLossless:
      return {};
    case FreezeGoal::Kind::kBits: {
      THAW_ASSIGN(item.step, StepForBits(source_, *item.plan, goal.bits));
      item.target_bits = goal.bits;
      return {};
    }
    case FreezeGoal::Kind::kLikeType: {
      THAW_ASSIGN(const StepLikeType like, StepForType(source_, *item.plan, goal.type));
      item.step = like.step;
      item.type_rmse = like.wanted_rmse;
      item.is_coarser = like.is_coarser;
      return {};
    }
    case FreezeGoal::Kind::kFileSize: {
      THAW_ASSIGN(item.curve, MeasureCurve(source_, *item.plan));
      return {};
    }
  }
  THAW_CHECK(false);
}

// Of what is not finished: a tensor a thread.
Result<void> FreezeRun::MeasureAll() {
  if (options_.goal.kind == FreezeGoal::Kind::kLossless) return {};
  std::vector<Item*> open;
  for (Item& item : items_) {
    if (!item.record) open.push_back(&item);
  }
  std::vector<std::optional<Error>> failures(open.size());
  const auto count = static_cast<int64_t>(open.size());
  uint64_t done = 0;
  for (int64_t begin = 0; begin < count; begin += 2 * threads_) {
    THAW_TRY(CheckCancelled());
    const int64_t end = std::min<int64_t>(count, begin + 2 * threads_);
    pool_->ParallelFor(end - begin, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = begin + first; i < begin + last; ++i) {
        const auto at = static_cast<size_t>(i);
        if (auto measured = Measure(*open[at]); !measured) {
          failures[at] = std::move(measured).error();
        }
      }
    });
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      if (failures[at]) return Fail(std::move(*failures[at]));
      done += static_cast<uint64_t>(open[at]->plan->weights());
    }
    events_.on_progress(FreezePhase::kMeasuring, weights_done_ + done, weights_);
  }
  NoteCoarser();
  return {};
}

Result<void> FreezeRun::FinishAsKept(Item& item, FreezeRecord record) {
  THAW_ASSIGN(OutputFile file, journal_->Start(item.index));
  THAW_TRY(FreezeJournal::Finish(std::move(file), {}, record));
  item.record = record;
  return {};
}

// One tensor, by its step, to the journal.
Result<void> FreezeRun::Freeze(Item& item) {
  const Clock::time_point start = Clock::now();
  const uint64_t done_before = weights_done_;
  const TensorPlan& plan = *item.plan;
  FreezeRecord record{
      .target_bits = item.target_bits, .step = item.step, .source_rmse = item.type_rmse};
  THAW_ASSIGN(const FreezeRecipe recipe, MakeRecipe(source_, plan, item.step, *pool_));
  const FreezeWork work{.file = &file_,
                        .pool = pool_.get(),
                        .batch_streams = batch_streams_,
                        .cancel = options_.cancel};
  THAW_ASSIGN(OutputFile tiles, journal_->Start(item.index));
  THAW_ASSIGN(const FreezeOutcome outcome,
              FreezeTensor(work, plan, recipe, tiles, [&](int64_t weights) {
                weights_done_ += static_cast<uint64_t>(weights);
                events_.on_progress(FreezePhase::kFreezing, weights_done_, weights_);
              }));
  weights_done_ = done_before + static_cast<uint64_t>(plan.weights());
  record.seconds = SecondsSince(start);
  record.error = outcome.error;
  record.energy = outcome.energy;
  if (!outcome.is_exact) {
    record.outcome = FreezeRecord::Outcome::kNotExact;
    return FinishAsKept(item, record);
  }
  const std::vector<std::byte> head = FrozenHead(outcome.tensor);
  if (head.size() + outcome.tile_bytes >= plan.source_bytes()) {
    record.outcome = FreezeRecord::Outcome::kNotSmaller;
    return FinishAsKept(item, record);
  }
  record.head_bytes = head.size();
  record.tile_bytes = outcome.tile_bytes;
  THAW_TRY(FreezeJournal::Finish(std::move(tiles), head, record));
  item.record = record;
  return {};
}

Result<void> FreezeRun::FreezeAll() {
  for (Item& item : items_) {
    if (!item.record) THAW_TRY(Freeze(item));
  }
  return {};
}

// Bytes of a finished tensor in the output.
uint64_t BytesOf(const Item& item) {
  return item.record->outcome == FreezeRecord::Outcome::kFrozen ? item.record->blob_bytes()
                                                                : item.plan->source_bytes();
}

// Relative errors count alike for each weight that tokens visit, those of values more: by the rule
// of StepForType they would count 16 times, 4 did more good (docs/decisions/0017-freezing.md).
std::vector<AllocatedTensor> Allocatable(const std::vector<Item*>& items) {
  constexpr double kValuesFactor = 4;
  std::vector<AllocatedTensor> tensors;
  for (const Item* item : items) {
    const TensorPlan& plan = *item->plan;
    const auto weights = static_cast<double>(plan.weights());
    tensors.push_back(
        {.curve = item->curve,
         .importance = weights * plan.visited_share * (plan.is_values ? kValuesFactor : 1),
         .weights = weights,
         .kept_bits = 8 * static_cast<double>(plan.source_bytes()) / weights});
  }
  return tensors;
}

Result<void> FreezeRun::CheckSizeIsReachable(const std::vector<Item*>& items,
                                             uint64_t fixed_bytes) const {
  // Samples tell sizes to within a percent.
  constexpr double kSampleMargin = 1.01;
  double least = static_cast<double>(fixed_bytes);
  std::vector<Item*> open;
  for (Item* item : items) {
    if (item->record) {
      least += static_cast<double>(BytesOf(*item));
    } else {
      open.push_back(item);
    }
  }
  least += kSampleMargin * LeastBytes(Allocatable(open));
  const auto wanted = static_cast<double>(options_.goal.file_bytes);
  if (open.empty() || least <= wanted) return {};
  constexpr uint64_t kUnit = 1 << 10;
  const uint64_t rounded = (static_cast<uint64_t>(least) / kUnit + 1) * kUnit;
  return Fail(
      ErrorCode::kInvalidArgument,
      "{}: a file of {} bytes cannot be reached: with {} bits a weight, the least, it takes "
      "{} bytes ({})",
      options_.input, options_.goal.file_bytes, kLeastBits, rounded, FormatBytes(rounded));
}

// From the smallest tensor to the largest, each with what the real bytes of those before have left,
// so that the largest takes up what samples could not tell.
Result<void> FreezeRun::FreezeToSize() {
  const uint64_t fixed = ContainerBytes(file_, OutputTensors());
  std::vector<Item*> items;
  for (Item& item : items_) items.push_back(&item);
  std::ranges::stable_sort(items, {}, [](const Item* item) { return item->plan->weights(); });
  THAW_TRY(CheckSizeIsReachable(items, fixed));
  auto left = static_cast<double>(options_.goal.file_bytes) - static_cast<double>(fixed);
  for (size_t i = 0; i < items.size(); ++i) {
    Item& item = *items[i];
    if (!item.record) {
      std::vector<Item*> open;
      std::copy_if(items.begin() + static_cast<int64_t>(i), items.end(), std::back_inserter(open),
                   [](const Item* other) { return !other->record; });
      double later = 0;  // finished already, by an earlier run
      for (size_t j = i + 1; j < items.size(); ++j) {
        if (items[j]->record) later += static_cast<double>(BytesOf(*items[j]));
      }
      const Allocation own = AllocateBits(Allocatable(open), left - later).front();
      if (own.is_kept) {
        THAW_TRY(FinishAsKept(item, {.outcome = FreezeRecord::Outcome::kNotSmaller}));
        weights_done_ += static_cast<uint64_t>(item.plan->weights());
      } else {
        item.target_bits = own.bits;
        item.step = item.curve.StepAt(own.bits);
        THAW_TRY(Freeze(item));
      }
    }
    left -= static_cast<double>(BytesOf(item));
  }
  return Shrink(items, fixed);
}

// Where the file came out too large: the largest tensors that can give bits are coded again, until
// it is not.
Result<void> FreezeRun::Shrink(const std::vector<Item*>& items, uint64_t fixed_bytes) {
  // Above the excess, so that one more time is enough.
  constexpr double kExcessMargin = 1.05;
  constexpr double kExcessBits = 0.002;
  // Real bits may lie that much above those that were asked for; asking for fewer makes up for it.
  constexpr double kLeastTarget = 0.95 * kLeastBits;
  for (int round = 0; round < 16; ++round) {
    uint64_t bytes = fixed_bytes;
    for (const Item* item : items) bytes += BytesOf(*item);
    if (bytes <= options_.goal.file_bytes) return {};
    const auto excess = static_cast<double>(bytes - options_.goal.file_bytes);
    Item* chosen = nullptr;
    double bits = 0;
    for (Item* item : items) {
      const auto weights = static_cast<double>(item->plan->weights());
      const double lower =
          std::max(kLeastTarget,
                   item->record->target_bits - kExcessMargin * 8 * excess / weights - kExcessBits);
      if (item->record->outcome != FreezeRecord::Outcome::kFrozen ||
          lower > item->record->target_bits - kExcessBits) {
        continue;
      }
      chosen = item;
      bits = lower;
    }
    if (chosen == nullptr) break;
    THAW_ASSIGN(chosen->curve, MeasureCurve(source_, *chosen->plan));
    weights_done_ -= static_cast<uint64_t>(chosen->plan->weights());
    chosen->target_bits = bits;
    chosen->step = chosen->curve.StepAt(bits);
    THAW_TRY(Freeze(*chosen));
  }
  return Fail(ErrorCode::kInvalidArgument,
              "{}: a file of {} bytes cannot be reached with at least {} bits a weight",
              options_.input, options_.goal.file_bytes, kLeastBits);
}

std::vector<OutputTensor> FreezeRun::OutputTensors() const {
  std::vector<OutputTensor> tensors;
  for (const TensorPlan& plan : plans_) tensors.push_back({.plan = &plan});
  for (const Item& item : items_) {
    OutputTensor& tensor = tensors[item.index];
    tensor.is_frozen = !item.record || item.record->outcome == FreezeRecord::Outcome::kFrozen;
    if (item.record && tensor.is_frozen) tensor.record = *item.record;
  }
  return tensors;
}

Result<void> FreezeRun::Write(uint64_t& bytes) {
  // All that was read has to be of the same file.
  for (int i = 0; i < file_.file_count(); ++i) THAW_TRY(file_.file(i)->CheckUnchanged());
  const std::vector<OutputTensor> tensors = OutputTensors();
  THAW_ASSIGN(bytes, WriteFrozenModel(file_, tensors, *journal_, options_.output,
                                      [&](uint64_t done, uint64_t total) {
                                        events_.on_progress(FreezePhase::kWriting, done, total);
                                        return !is_cancelled();
                                      }));
  return journal_->Remove();
}

Result<void> FreezeRun::Verify() {
  THAW_ASSIGN(const GgufFile output, GgufFile::Open(options_.output));
  THAW_ASSIGN(const KernelTable* kernels, SelectCheckedKernels("", {}));
  THAW_ASSIGN(const TileDecoder* decoder,
              SelectCheckedDecoder(kCpuBackend, *kernels, kAllFrozenKinds));
  const VerifyWork work{.input = &file_,
                        .importance = source_.importance,
                        .output = &output,
                        .decoder = decoder,
                        .pool = pool_.get(),
                        .cancel = options_.cancel};
  uint64_t done = 0;
  for (const Item& item : items_) {
    if (item.record->outcome != FreezeRecord::Outcome::kFrozen) continue;
    THAW_TRY(VerifyFrozenTensor(
        work, {.plan = item.plan, .error = item.record->error, .energy = item.record->energy},
        [&](int64_t weights) {
          done += static_cast<uint64_t>(weights);
          events_.on_progress(FreezePhase::kVerifying, done, weights_);
        }));
  }
  return {};
}

std::string ReasonOf(const TensorPlan& plan, const FreezeRecord* record) {
  if (record == nullptr) return plan.kept_because;
  return record->outcome == FreezeRecord::Outcome::kNotExact
             ? "its F32 weights have more bits than BF16 has"
             : "frozen it takes no less";
}

double RelativeRmse(double error, double energy) {
  return energy > 0 ? std::sqrt(error / energy) : 0;
}

FreezeReport FreezeRun::Report(uint64_t bytes) const {
  FreezeReport report{.bytes = bytes, .is_verified = options_.verify};
  std::vector<const Item*> by_index(plans_.size(), nullptr);
  for (const Item& item : items_) by_index[item.index] = &item;
  double error = 0;
  double energy = 0;
  double bits = 0;
  double weights = 0;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const TensorPlan& plan = plans_[i];
    const FreezeRecord* record = by_index[i] == nullptr ? nullptr : &*by_index[i]->record;
    if (record == nullptr || record->outcome != FreezeRecord::Outcome::kFrozen) {
      for (const TensorInfo* tensor : plan.tensors) {
        report.kept.push_back({.name = tensor->name,
                               .source_type = tensor->type,
                               .weights = tensor->elements(),
                               .bytes = tensor->bytes,
                               .reason = ReasonOf(plan, record)});
      }
      continue;
    }
    const double own_bits = 8 * static_cast<double>(record->blob_bytes());
    const auto own_weights = static_cast<double>(plan.weights());
    report.tensors.push_back({.name = plan.name,
                              .kind = plan.kind,
                              .source_type = plan.source_type(),
                              .weights = plan.weights(),
                              .bytes = record->blob_bytes(),
                              .bits_per_weight = own_bits / own_weights,
                              .relative_rmse = RelativeRmse(record->error, record->energy),
                              .type_rmse = record->source_rmse,
                              .seconds = record->seconds});
    error += record->error;
    energy += record->energy;
    bits += own_bits;
    weights += own_weights;
  }
  report.bits_per_weight = weights > 0 ? bits / weights : 0;
  report.relative_rmse = RelativeRmse(error, energy);
  for (int i = 0; i < file_.file_count(); ++i) report.input_bytes += file_.file(i)->size();
  report.seconds = SecondsSince(started_);
  return report;
}

Result<FreezeReport> FreezeRun::Run() {
  THAW_TRY(PlanMemory());
  THAW_TRY(OpenJournal());
  THAW_TRY(MeasureAll());
  if (options_.goal.kind == FreezeGoal::Kind::kFileSize) {
    THAW_TRY(FreezeToSize());
  } else {
    THAW_TRY(FreezeAll());
  }
  uint64_t bytes = 0;
  THAW_TRY(Write(bytes));
  if (options_.verify) THAW_TRY(Verify());
  return Report(bytes);
}

// Before anything is read: an output that cannot be written, or that is what is read.
Result<void> CheckOutput(const FreezeOptions& options, const GgufFile& file) {
  for (int i = 0; i < file.file_count(); ++i) {
    std::error_code error;
    if (!fs::equivalent(file.file(i)->path(), options.output, error)) continue;
    return Fail(ErrorCode::kInvalidArgument, "{}: the output is the input itself", options.output);
  }
  THAW_ASSIGN(const OutputFile probe, OutputFile::Create(options.output));
  return {};
}

}  // namespace

Result<FreezeReport> FreezeModel(const FreezeOptions& options, const FreezeEvents& events) {
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(options.input));
  THAW_TRY(CheckOutput(options, file));
  const bool is_lossless = options.goal.kind == FreezeGoal::Kind::kLossless;
  THAW_ASSIGN(std::vector<TensorPlan> plans,
              PlanFreezing(file, {.is_lossless = is_lossless, .kept = options.kept}));
  std::optional<ImportanceMatrix> importance;
  if (!options.importance.empty()) {
    THAW_ASSIGN(importance, ImportanceMatrix::Open(options.importance));
  }
  FreezeRun run(options, events, file, std::move(plans), std::move(importance));
  return run.Run();
}

}  // namespace thaw
