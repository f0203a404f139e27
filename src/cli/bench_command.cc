// thaw bench: how fast a model runs, beside what the machine can do.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/cpu_features.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "base/system_info.h"
#include "base/units.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/model_loading.h"
#include "cli/progress_bar.h"
#include "cli/standard_output.h"
#include "cli/statistics_report.h"
#include "engine/policy_simulation.h"
#include "engine/shape_model.h"
#include "engine/speed_benchmark.h"
#include "gguf/gguf_file.h"
#include "io/page_cache.h"
#include "tensor/element_type.h"

namespace thaw::cli {
namespace {

// Enough for the shares of what is found in memory to settle.
constexpr int kSimulatedPasses = 50;

// Every generated model of a shape and type is the same.
constexpr uint64_t kWeightSeed = 1;

// A file that is removed when the object goes, or before.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  ~TemporaryFile() { Remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void Adopt(std::string path) { path_ = std::move(path); }
  void Remove() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(std::exchange(path_, ""), ignored);
  }

 private:
  std::string path_;
};

// A name in the folder for temporary files (TMPDIR) that nobody else has.
Result<std::string> TemporaryPath(const BenchOptions& options) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    return Fail(ErrorCode::kIo, "the folder for temporary files cannot be used: {}",
                error.message());
  }
  const std::string name =
      fmt::format("thaw-bench-{}-{}-{:08x}.gguf", options.shape, options.type, RandomSeed());
  return (folder / name).string();
}

Result<void> GenerateModel(const BenchOptions& options, const std::string& path) {
  THAW_ASSIGN(const ModelShape* shape, FindShape(options.shape));
  THAW_ASSIGN(const ElementType type, FindWeightType(options.type));
  ProgressBar bar("generating", FormatBytes, ShowsProgress(options.report));
  return WriteShapeModel(*shape, type, kWeightSeed, path, [&bar](uint64_t done, uint64_t total) {
    bar.Show(done, total);
    return !StopFlag();
  });
}

Result<void> DropModelFromPageCache(const std::string& path) {
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(path));
  for (int i = 0; i < file.file_count(); ++i) THAW_TRY(DropFromPageCache(file.file(i)->path()));
  return {};
}

void DescribeEngine(const Engine& engine, BenchReport& report) {
  const CacheStatistics cache = engine.cache_statistics();
  report.cpu = HostCpu().name;
  report.kernels = engine.kernels_name();
  report.threads = engine.options().threads;
  report.policy = cache.policy;
  report.reader = cache.reader;
  report.reader_note = engine.weights().reader_note();
  report.plan = engine.plan();
}

// All counted runs together, as the statistics of one answer after one prompt.
GenerationStatistics Summarize(const BenchmarkReport& speed) {
  GenerationStatistics all;
  all.ttft_seconds = speed.ttft_cold_seconds;
  for (const WorkloadReport& workload : speed.workloads) {
    const int64_t tokens = workload.tokens * workload.runs;
    if (workload.phase == Phase::kPrefill) {
      all.prompt_tokens += tokens;
      for (const double seconds : workload.run_seconds) all.prompt_seconds += seconds;
    } else {
      all.decode_tokens += tokens;
      all.step_seconds.insert(all.step_seconds.end(), workload.step_seconds.begin(),
                              workload.step_seconds.end());
      all.decode_bytes_read += workload.miss_bytes;
    }
  }
  return all;
}

// What --stats, --stats-json and --profile ask for; nothing else.
Result<void> PublishStatistics(const LoadedModel& model, RunReport statistics,
                               ReportOptions options) {
  statistics.model = model->path();
  statistics.load_seconds = model.load_seconds();
  DescribeEngine(*model, statistics);
  options.quiet = true;
  return PublishReport(statistics, options);
}

// The file to measure, generated where that was asked for, and out of the page cache where it must
// be. `temporary` removes it where it is not to be kept.
Result<std::string> PrepareModel(const BenchOptions& options, TemporaryFile& temporary) {
  const bool generate = !options.shape.empty();
  std::string path = generate ? options.out_file : options.model.path;
  if (path.empty()) {
    THAW_ASSIGN(path, TemporaryPath(options));
    temporary.Adopt(path);
  }
  if (generate) THAW_TRY(GenerateModel(options, path));
  // What was just written is cached, too.
  if (options.cold || generate) THAW_TRY(DropModelFromPageCache(path));
  return path;
}

// Leaves the statistics of the same work in `statistics`.
Result<BenchmarkReport> Measure(Engine& engine, const BenchOptions& options,
                                RunReport& statistics) {
  // The measuring of the machine is part of the rest.
  ProfileRecorder recorder(engine, statistics.profile);
  BenchmarkOptions speed = options.speed;
  speed.cancel = &StopFlag();
  ProgressBar bar("measuring", FormatTokens, ShowsProgress(options.report));
  THAW_ASSIGN(BenchmarkReport report,
              RunBenchmark(engine, speed,
                           [&bar](uint64_t done, uint64_t total) { bar.Show(done, total); }));
  statistics.generation = Summarize(report);
  recorder.EndAnswer(statistics.generation);
  return report;
}

Result<PolicySimulation> Simulate(const Engine& engine, SimulatedRouter router) {
  const MemoryPlan plan = engine.plan();
  const uint64_t others = plan.claimed_bytes() - plan.weight_capacity_bytes;
  // A policy takes no more of it than it has use for.
  const uint64_t capacity = plan.budget_bytes - std::min(plan.budget_bytes, others);
  return SimulatePolicies(engine.weights().map(), capacity, engine.options().pinned,
                          kSimulatedPasses, router);
}

}  // namespace

Result<void> Execute(const BenchOptions& options) {
  ModelOptions model = options.model;
  TemporaryFile temporary;
  THAW_ASSIGN(model.path, PrepareModel(options, temporary));
  if (model.engine.context == 0) model.engine.context = options.speed.PositionsNeeded();
  model.engine.reserved_bytes = kBenchmarkReserveBytes;
  THAW_ASSIGN(LoadedModel engine, LoadEngine(model, options.report));
  // It stays readable for who has it open, and nothing is left of it however this program ends.
  temporary.Remove();

  BenchReport report = {.model = model.path, .load_seconds = engine.load_seconds()};
  if (!options.shape.empty()) {
    report.shape = options.shape;
    THAW_ASSIGN(const ElementType type, FindWeightType(options.type));
    report.type = Info(type).name;
  }
  RunReport statistics;
  THAW_ASSIGN(report.speed, Measure(*engine, options, statistics));
  if (options.simulate) {
    THAW_ASSIGN(report.simulation, Simulate(*engine, SimulatedRouter::kUniform));
    if (engine->weights().map().has_experts()) {
      THAW_ASSIGN(report.skewed_simulation, Simulate(*engine, SimulatedRouter::kZipf));
    }
  }
  DescribeEngine(*engine, report);
  report.last_level_cache = ReadSystemInfo().last_level_cache;
  report.peak_resident_bytes = PeakResidentBytes();
  THAW_TRY(WriteOutput(options.json ? PrettyJson(BenchJson(report)) : BenchTable(report)));
  THAW_TRY(PublishStatistics(engine, std::move(statistics), options.report));
  return engine.CloseTrace();
}

}  // namespace thaw::cli
