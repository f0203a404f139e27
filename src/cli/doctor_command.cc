// thaw doctor: what this machine can do, and what it would do with a model.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu_conditions.h"
#include "base/cpu_features.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/system_info.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/kernel_choice.h"
#include "cli/rates_path.h"
#include "cli/report_row.h"
#include "cli/slowdowns.h"
#include "cli/standard_output.h"
#include "codec/tile_decoder.h"
#include "engine/budget.h"
#include "engine/model_file.h"
#include "engine/rate_measurement.h"
#include "engine/rates_file.h"
#include "gguf/gguf_file.h"
#include "io/device.h"
#include "io/read_queue.h"
#include "kernels/coded_self_check.h"
#include "kernels/kernel_table.h"
#include "kernels/self_check.h"
#include "tensor/element_type.h"

namespace thaw::cli {
namespace {

Json Bytes(const std::optional<uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

// Why io_uring cannot be used; "" where it can.
std::string UringProblem() {
  const auto queue = CreateUringQueue(1);
  return queue ? "" : queue.error().message;
}

using Clock = std::chrono::steady_clock;

// What computing for a while showed.
struct Trial {
  MachineState state;
  std::optional<Int8Rate> int8;
};

Trial ComputeForAWhile(const SystemInfo& system, ThreadPool& pool) {
  // Long enough for what others use to show in ticks of 10 ms; of each of the two loops.
  constexpr double kSeconds = 0.25;
  Trial trial;
  MachineState& state = trial.state;
  state.system = system;
  state.threads = pool.thread_count();
  state.uring_problem = UringProblem();
  state.before = ReadCpuConditions();
  const double cpu_before = ProcessCpuSeconds();
  const auto start = Clock::now();
  state.loop = MeasureLoopTimes(pool, kSeconds);
  trial.int8 = MeasureInt8Rate(pool, kSeconds);
  state.wall_seconds = SecondsSince(start);
  state.cpu_seconds = ProcessCpuSeconds() - cpu_before;
  state.after = ReadCpuConditions();
  return trial;
}

// Memory and, with a file, the disk under it.
struct KnownRates {
  MachineRates rates;
  std::optional<double> disk_bytes_per_second;
  std::string kept_in;  // the file that they were kept in; "" where they were measured now
};

Result<KnownRates> FindRates(const DoctorOptions& options, const File* file,
                             const KernelTable& kernels, uint64_t budget, ThreadPool& pool) {
  RatesRequest request = {
      .types = {}, .file = file, .cache_path = RatesPath(), .remeasure = options.remeasure};
  const uint64_t resident = ResidentBytes();
  request.limits.memory_bytes =
      std::min(request.limits.memory_bytes, budget - std::min(budget, resident));
  const auto kept = LoadRates(request.cache_path);
  KnownRates known;
  THAW_ASSIGN(known.rates, ObtainRates(request, kernels, pool));
  if (!options.remeasure && kept && kept->rates == known.rates) known.kept_in = request.cache_path;
  if (file != nullptr) {
    THAW_ASSIGN(const std::string device, DeviceOf(file->path()));
    known.disk_bytes_per_second = known.rates.FindDisk(device)->bytes_per_second;
  }
  return known;
}

Json RatesJson(const Result<KnownRates>& known, const std::optional<Int8Rate>& int8) {
  Json rates = {{"memory_gb_per_s", nullptr},
                {"memory_buffer_bytes", nullptr},
                {"disk_gb_per_s", nullptr},
                {"int8_tops", int8 ? Json(int8->operations_per_second / kTera) : Json(nullptr)},
                {"int8_instruction", int8 ? Json(int8->instruction) : Json(nullptr)},
                {"kept_in", ""},
                {"problem", known ? "" : known.error().message}};
  if (!known) return rates;
  rates["memory_gb_per_s"] = known->rates.memory_bytes_per_second / kGiga;
  rates["memory_buffer_bytes"] = known->rates.buffer_bytes;
  if (known->disk_bytes_per_second) {
    rates["disk_gb_per_s"] = *known->disk_bytes_per_second / kGiga;
  }
  rates["kept_in"] = known->kept_in;
  return rates;
}

template <typename Number>
Json OrNull(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}

// How much of the CPUs this program gets.
Json CpusJson(const MachineState& state) {
  const CpuConditions& cpu = state.after;
  return {{"allowed", OrNull(cpu.allowed_cpus)},
          {"cores", OrNull(cpu.allowed_cores)},
          {"quota", OrNull(cpu.quota_cpus)},
          {"load_average", OrNull(state.before.load_average)},
          {"used_by_others", OrNull(CpusOfOthers(state))},
          {"stolen", OrNull(CpusStolen(state))},
          {"frequency_hz", OrNull(cpu.frequency_hz)},
          {"highest_frequency_hz", OrNull(cpu.highest_frequency_hz)},
          {"governor", cpu.frequency_governor},
          {"thermal_throttles", OrNull(cpu.thermal_throttles)},
          {"loop_median_excess", state.loop->median_excess},
          {"loop_p90_excess", state.loop->p90_excess}};
}

Json TablesJson(const std::vector<TableNeeds>& tables) {
  Json json = Json::array();
  for (const TableNeeds& table : tables) {
    json.push_back({{"name", table.name},
                    {"available", table.is_available()},
                    {"needs", table.needed},
                    {"missing", table.missing},
                    {"refused", table.is_refused}});
  }
  return json;
}

// `file` is the model's, or nullptr.
Result<Json> DescribeMachine(const DoctorOptions& options, const File* file) {
  const CpuFeatures& cpu = HostCpu();
  const SystemInfo system = ReadSystemInfo();
  std::vector<ElementType> types;  // all, so that whatever is wrong here is found
  for (const ElementTypeInfo& info : AllElementTypes()) types.push_back(info.type);
  THAW_ASSIGN(const KernelTable* kernels, SelectCheckedKernels("", types));
  THAW_ASSIGN(const TileDecoder* decoder,
              SelectCheckedDecoder(kCpuBackend, *kernels, kAllFrozenKinds));
  const std::vector<TableNeeds> tables = NeedsOfAllTables(cpu);
  Json available = Json::array();
  for (const TableNeeds& table : tables) {
    if (table.is_available()) available.push_back(table.name);
  }
  const uint64_t budget = DefaultBudget(system, ResidentBytes());
  ThreadPool pool(options.threads > 0 ? options.threads : AvailableThreads());
  const Trial trial = ComputeForAWhile(system, pool);
  const bool has_uring = trial.state.uring_problem.empty();
  return Json{{"cpu", cpu.name},
              {"cpu_features", cpu.Names()},
              {"threads", pool.thread_count()},
              {"cpus", CpusJson(trial.state)},
              {"kernels_available", std::move(available)},
              {"kernels", kernels->name},
              {"kernels_reason", WhyChosen(tables, *kernels)},
              {"kernel_tables", TablesJson(tables)},
              {"codec_backends", {kCpuBackend}},
              {"decoder", decoder->name},
              {"rates", RatesJson(FindRates(options, file, *kernels, budget, pool), trial.int8)},
              {"memory_total_bytes", Bytes(system.memory_total)},
              {"memory_available_bytes", Bytes(system.memory_available)},
              {"cgroup_limit_bytes", Bytes(system.cgroup_limit)},
              {"cgroup_used_bytes", Bytes(system.cgroup_used)},
              {"default_budget_bytes", budget},
              {"huge_pages", system.huge_pages},
              {"reader", has_uring ? "io_uring" : "pread"},
              {"warnings", FindSlowdowns(trial.state)}};
}

// The parts of a model that can only be read through the page cache.
Json FilesWithoutDirectReads(const GgufFile& file) {
  Json paths = Json::array();
  for (int i = 0; i < file.file_count(); ++i) {
    if (!file.file(i)->direct()) paths.push_back(file.file(i)->path());
  }
  return paths;
}

// `budget` is what the machine leaves a run.
Result<Json> DescribeModelFile(const GgufFile& file, const std::string& path, uint64_t budget) {
  THAW_ASSIGN(const std::string architecture, file.GetStringOr("general.architecture", ""));
  uint64_t weight_bytes = 0;
  std::map<std::string_view, uint64_t> bytes_by_type;
  for (const TensorInfo& tensor : file.tensors()) {
    weight_bytes += tensor.bytes;
    bytes_by_type[TypeName(tensor)] += tensor.bytes;
  }
  Json weights = Json::object();
  for (const auto& [type, bytes] : bytes_by_type) weights[std::string(type)] = bytes;
  Json model = {{"path", path}, {"architecture", architecture}};
  const auto summary = SummarizeModel(file);
  model["supported"] = summary.has_value();
  if (summary) {
    model["layers"] = summary->n_layers;
    model["context_length"] = summary->context_length;
    model["kv_bytes_per_position"] = summary->kv_bytes_per_position;
  } else {
    model["problem"] = summary.error().message;
  }
  const Json without_direct = FilesWithoutDirectReads(file);
  model["direct_io"] = without_direct.empty();
  model["warnings"] = Json::array();
  for (const Json& part : without_direct) {
    model["warnings"].push_back(
        fmt::format("{}: its file system has no direct reads, so what is "
                    "read goes through the page cache, beside the budget",
                    part.get<std::string>()));
  }
  if (weight_bytes > budget) {
    model["warnings"].push_back(
        fmt::format("its weights take {}, but the budget is {} where none is given: what does not "
                    "stay in memory is read for every token",
                    FormatBytes(weight_bytes), FormatBytes(budget)));
  }
  model["weight_bytes"] = weight_bytes;
  model["weight_bytes_by_type"] = std::move(weights);
  return model;
}

std::string BytesText(const Json& bytes, std::string_view absent) {
  return bytes.is_null() ? std::string(absent) : FormatBytes(bytes.get<uint64_t>());
}

std::string Words(const Json& list) {
  std::string words;
  for (const Json& word : list) words += (words.empty() ? "" : " ") + word.get<std::string>();
  return words.empty() ? "none" : words;
}

std::string TextOr(const Json& text, std::string_view absent) {
  const auto given = text.get<std::string>();
  return given.empty() ? std::string(absent) : given;
}

std::string WarningsText(const Json& warnings) {
  std::string text;
  for (const Json& warning : warnings) text += ReportRow("warning", warning.get<std::string>());
  return text;
}

std::string CpusText(const Json& cpus) {
  std::string text = CompactJson(cpus["allowed"].is_null() ? Json("unknown") : cpus["allowed"]);
  if (!cpus["cores"].is_null()) text += fmt::format(", {} cores", CompactJson(cpus["cores"]));
  if (!cpus["quota"].is_null()) text += fmt::format(", quota {:.2f}", cpus["quota"].get<double>());
  if (!cpus["load_average"].is_null()) {
    text += fmt::format(", load average {:.2f}", cpus["load_average"].get<double>());
  }
  if (!cpus["used_by_others"].is_null()) {
    text += fmt::format(", {:.2f} used by others", cpus["used_by_others"].get<double>());
  }
  if (!cpus["frequency_hz"].is_null()) {
    text += fmt::format(", {:.2f} GHz of {:.2f}", cpus["frequency_hz"].get<double>() / 1e9,
                        cpus["highest_frequency_hz"].get<double>() / 1e9);
  }
  return text;
}

std::string RateText(const Json& rate, std::string_view unit, std::string_view absent) {
  return rate.is_null() ? std::string(absent) : fmt::format("{:.2f} {}", rate.get<double>(), unit);
}

std::string RatesText(const Json& rates) {
  const auto problem = rates["problem"].get<std::string>();
  const auto kept_in = rates["kept_in"].get<std::string>();
  const std::string absent = "not measured" + (problem.empty() ? "" : ": " + problem);
  const std::string kept =
      kept_in.empty() ? "" : fmt::format(" (kept in {}; --remeasure)", kept_in);
  std::string text =
      ReportRow("memory rate", RateText(rates["memory_gb_per_s"], "GB/s", absent) + kept);
  if (!rates["disk_gb_per_s"].is_null()) {
    text += ReportRow("disk rate", RateText(rates["disk_gb_per_s"], "GB/s", absent) + kept);
  }
  std::string int8 = "not measured: this CPU has no instruction for int8 products";
  if (!rates["int8_tops"].is_null()) {
    int8 = fmt::format("{} by {}", RateText(rates["int8_tops"], "TOPS", ""),
                       rates["int8_instruction"].get<std::string>());
  }
  return text + ReportRow("int8 rate", int8);
}

std::string MachineText(const Json& machine) {
  std::string limit = BytesText(machine["cgroup_limit_bytes"], "none");
  if (!machine["cgroup_limit_bytes"].is_null()) {
    limit += fmt::format(", {} of it used", BytesText(machine["cgroup_used_bytes"], "unknown"));
  }
  return ReportRow("CPU", TextOr(machine["cpu"], "unknown")) +
         ReportRow("features", Words(machine["cpu_features"])) +
         ReportRow("CPUs", CpusText(machine["cpus"])) +
         ReportRow("threads", CompactJson(machine["threads"])) +
         ReportRow("kernels",
                   fmt::format("{}: {} (available: {})", machine["kernels"].get<std::string>(),
                               machine["kernels_reason"].get<std::string>(),
                               Words(machine["kernels_available"]))) +
         ReportRow("decoding", fmt::format("of frozen tensors by {} (back ends: {})",
                                           machine["decoder"].get<std::string>(),
                                           Words(machine["codec_backends"]))) +
         RatesText(machine["rates"]) +
         ReportRow("memory", fmt::format("{}, {} available",
                                         BytesText(machine["memory_total_bytes"], "unknown"),
                                         BytesText(machine["memory_available_bytes"], "unknown"))) +
         ReportRow("cgroup limit", limit) +
         ReportRow("budget", fmt::format("{} where none is given",
                                         BytesText(machine["default_budget_bytes"], ""))) +
         ReportRow("huge pages", TextOr(machine["huge_pages"], "none")) +
         ReportRow("reading", fmt::format("by {}", machine["reader"].get<std::string>())) +
         WarningsText(machine["warnings"]);
}

std::string ModelText(const Json& model) {
  std::string text = ReportRow("model", model["path"].get<std::string>()) +
                     ReportRow("architecture", TextOr(model["architecture"], "not stated"));
  if (model["supported"].get<bool>()) {
    text +=
        ReportRow("supported", "yes") +
        ReportRow("context", fmt::format("{} positions", CompactJson(model["context_length"]))) +
        ReportRow("KV cache", fmt::format("{} a position in f16",
                                          BytesText(model["kv_bytes_per_position"], "")));
  } else {
    text += ReportRow("supported", fmt::format("no: {}", model["problem"].get<std::string>()));
  }
  std::string weights = BytesText(model["weight_bytes"], "");
  for (const auto& [type, bytes] : model["weight_bytes_by_type"].items()) {
    weights += fmt::format(", {} {}", type, BytesText(bytes, ""));
  }
  return text + ReportRow("weights", weights) +
         ReportRow("direct reads", model["direct_io"].get<bool>() ? "yes" : "no") +
         WarningsText(model["warnings"]);
}

}  // namespace

Result<void> Execute(const DoctorOptions& options) {
  if (options.path.empty()) {
    THAW_ASSIGN(const Json machine, DescribeMachine(options, nullptr));
    return WriteOutput(options.json ? PrettyJson(machine) : MachineText(machine));
  }
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(options.path));
  THAW_ASSIGN(Json machine, DescribeMachine(options, file.file(0).get()));
  const auto budget = machine["default_budget_bytes"].get<uint64_t>();
  THAW_ASSIGN(Json model, DescribeModelFile(file, options.path, budget));
  if (!options.json) return WriteOutput(MachineText(machine) + '\n' + ModelText(model));
  machine["model"] = std::move(model);
  return WriteOutput(PrettyJson(machine));
}

}  // namespace thaw::cli
