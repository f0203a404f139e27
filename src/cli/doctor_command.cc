// thaw doctor: what this machine can do, and what it would do with a model.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/cpu_features.h"
#include "base/process.h"
#include "base/system_info.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/standard_output.h"
#include "engine/budget.h"
#include "engine/model_file.h"
#include "gguf/gguf_file.h"
#include "io/read_queue.h"
#include "kernels/kernel_table.h"

namespace thaw::cli {
namespace {

Json Bytes(const std::optional<uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

// Why io_uring cannot be used; "" where it can.
std::string UringProblem() {
  const auto queue = CreateUringQueue(1);
  return queue ? "" : queue.error().message;
}

// What makes runs slow on this machine.
Json MachineWarnings(const SystemInfo& system, const std::string& uring_problem) {
  Json warnings = Json::array();
  if (system.huge_pages != "always" && system.huge_pages != "madvise") {
    warnings.push_back(
        fmt::format("huge pages are {}: reading weights from the disk takes up to "
                    "three times as long",
                    system.huge_pages.empty() ? "not there" : "off"));
  }
  if (!uring_problem.empty()) {
    warnings.push_back(fmt::format("{}: weights are read by threads instead", uring_problem));
  }
  return warnings;
}

Result<Json> DescribeMachine() {
  const CpuFeatures& cpu = HostCpu();
  const SystemInfo system = ReadSystemInfo();
  const std::string uring_problem = UringProblem();
  THAW_ASSIGN(const KernelTable* chosen, SelectKernels(""));
  Json available = Json::array();
  for (const KernelTable* table : AllKernelTables()) {
    if (table->is_available(cpu)) available.push_back(table->name);
  }
  return Json{{"cpu", cpu.name},
              {"cpu_features", cpu.Names()},
              {"threads", AvailableThreads()},
              {"kernels_available", std::move(available)},
              {"kernels", chosen->name},
              {"memory_total_bytes", Bytes(system.memory_total)},
              {"memory_available_bytes", Bytes(system.memory_available)},
              {"cgroup_limit_bytes", Bytes(system.cgroup_limit)},
              {"cgroup_used_bytes", Bytes(system.cgroup_used)},
              {"default_budget_bytes", DefaultBudget(system, ResidentBytes())},
              {"huge_pages", system.huge_pages},
              {"reader", uring_problem.empty() ? "io_uring" : "pread"},
              {"warnings", MachineWarnings(system, uring_problem)}};
}

// The parts of a model that can only be read through the page cache.
Json FilesWithoutDirectReads(const GgufFile& file) {
  Json paths = Json::array();
  for (int i = 0; i < file.file_count(); ++i) {
    if (!file.file(i)->direct()) paths.push_back(file.file(i)->path());
  }
  return paths;
}

Result<Json> DescribeModelFile(const std::string& path) {
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(path));
  THAW_ASSIGN(const std::string architecture, file.GetStringOr("general.architecture", ""));
  uint64_t weight_bytes = 0;
  std::map<std::string_view, uint64_t> bytes_by_type;
  for (const TensorInfo& tensor : file.tensors()) {
    weight_bytes += tensor.bytes;
    bytes_by_type[Info(tensor.type).name] += tensor.bytes;
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

std::string Row(std::string_view name, const std::string& text) {
  return fmt::format("{:<14}{}\n", name, text);
}

std::string WarningsText(const Json& warnings) {
  std::string text;
  for (const Json& warning : warnings) text += Row("warning", warning.get<std::string>());
  return text;
}

std::string MachineText(const Json& machine) {
  std::string limit = BytesText(machine["cgroup_limit_bytes"], "none");
  if (!machine["cgroup_limit_bytes"].is_null()) {
    limit += fmt::format(", {} of it used", BytesText(machine["cgroup_used_bytes"], "unknown"));
  }
  return Row("CPU", TextOr(machine["cpu"], "unknown")) +
         Row("features", Words(machine["cpu_features"])) +
         Row("threads", CompactJson(machine["threads"])) +
         Row("kernels", fmt::format("{} (available: {})", machine["kernels"].get<std::string>(),
                                    Words(machine["kernels_available"]))) +
         Row("memory",
             fmt::format("{}, {} available", BytesText(machine["memory_total_bytes"], "unknown"),
                         BytesText(machine["memory_available_bytes"], "unknown"))) +
         Row("cgroup limit", limit) +
         Row("budget", fmt::format("{} where none is given",
                                   BytesText(machine["default_budget_bytes"], ""))) +
         Row("huge pages", TextOr(machine["huge_pages"], "none")) +
         Row("reading", fmt::format("by {}", machine["reader"].get<std::string>())) +
         WarningsText(machine["warnings"]);
}

std::string ModelText(const Json& model) {
  std::string text = Row("model", model["path"].get<std::string>()) +
                     Row("architecture", TextOr(model["architecture"], "not stated"));
  if (model["supported"].get<bool>()) {
    text += Row("supported", "yes") +
            Row("context", fmt::format("{} positions", CompactJson(model["context_length"]))) +
            Row("KV cache",
                fmt::format("{} a position in f16", BytesText(model["kv_bytes_per_position"], "")));
  } else {
    text += Row("supported", fmt::format("no: {}", model["problem"].get<std::string>()));
  }
  std::string weights = BytesText(model["weight_bytes"], "");
  for (const auto& [type, bytes] : model["weight_bytes_by_type"].items()) {
    weights += fmt::format(", {} {}", type, BytesText(bytes, ""));
  }
  return text + Row("weights", weights) +
         Row("direct reads", model["direct_io"].get<bool>() ? "yes" : "no") +
         WarningsText(model["warnings"]);
}

}  // namespace

Result<void> Execute(const DoctorOptions& options) {
  THAW_ASSIGN(Json machine, DescribeMachine());
  if (options.path.empty()) {
    return WriteOutput(options.json ? PrettyJson(machine) : MachineText(machine));
  }
  THAW_ASSIGN(Json model, DescribeModelFile(options.path));
  if (!options.json) return WriteOutput(MachineText(machine) + '\n' + ModelText(model));
  machine["model"] = std::move(model);
  return WriteOutput(PrettyJson(machine));
}

}  // namespace thaw::cli
