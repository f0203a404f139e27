#include "cli/freeze_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/units.h"

namespace thaw::cli {
namespace {

// "3 tensors as they are, 1.2 GiB: ..." for each reason. Vectors and other small things are one.
std::string KeptLines(const FreezeReport& report) {
  struct Sum {
    int64_t tensors = 0;
    uint64_t bytes = 0;
    std::string first;
  };
  std::map<std::string, Sum> by_reason;
  for (const KeptTensorReport& kept : report.kept) {
    Sum& sum = by_reason[kept.reason];
    if (sum.tensors++ == 0) sum.first = kept.name;
    sum.bytes += kept.bytes;
  }
  std::string lines;
  for (const auto& [reason, sum] : by_reason) {
    const std::string what =
        sum.tensors == 1 ? sum.first : fmt::format("{} and {} more", sum.first, sum.tensors - 1);
    lines += fmt::format("  kept {} ({}): {}\n", what, FormatBytes(sum.bytes), reason);
  }
  return lines;
}

// Sources that were quantized before, one sentence for all.
std::string SourceLine(const FreezeReport& report) {
  std::map<std::string, int64_t> by_type;
  for (const FrozenTensorReport& tensor : report.tensors) {
    if (Info(tensor.source_type).is_quantized) ++by_type[Info(tensor.source_type).name];
  }
  if (by_type.empty()) return "";
  std::string types;
  for (const auto& [type, count] : by_type) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, type);
  }
  return fmt::format(
      "  quantized for the second time: {}; errors are relative to the dequantized input\n", types);
}

}  // namespace

std::string FreezeTable(const FreezeReport& report) {
  std::string table;
  if (!report.tensors.empty()) {
    table += fmt::format("{:<44} {:<5} {:<7} {:>6} {:>9} {:>8}\n", "tensor", "kind", "source",
                         "bits", "rmse", "seconds");
  }
  for (const FrozenTensorReport& tensor : report.tensors) {
    table += fmt::format("{:<44} {:<5} {:<7} {:>6.3f} {:>9.5f} {:>8.2f}\n", tensor.name,
                         FrozenKindName(tensor.kind), Info(tensor.source_type).name,
                         tensor.bits_per_weight, tensor.relative_rmse, tensor.seconds);
  }
  table +=
      fmt::format("{}{} tensors frozen", report.tensors.empty() ? "" : "\n", report.tensors.size());
  if (!report.tensors.empty()) {
    table += fmt::format(", {:.3f} bits a weight, relative RMSE {:.5f}", report.bits_per_weight,
                         report.relative_rmse);
  }
  table += "\n" + KeptLines(report) + SourceLine(report);
  table += fmt::format("{} of {} in {:.1f} s{}\n", FormatBytes(report.bytes),
                       FormatBytes(report.input_bytes), report.seconds,
                       report.is_verified ? ", verified" : "");
  return table;
}

Json FreezeJson(const FreezeReport& report) {
  Json tensors = Json::array();
  for (const FrozenTensorReport& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"kind", FrozenKindName(tensor.kind)},
                       {"source_type", Info(tensor.source_type).name},
                       {"weights", tensor.weights},
                       {"bytes", tensor.bytes},
                       {"bits_per_weight", tensor.bits_per_weight},
                       {"relative_rmse", tensor.relative_rmse},
                       {"type_rmse", tensor.type_rmse > 0 ? Json(tensor.type_rmse) : Json(nullptr)},
                       {"seconds", tensor.seconds}});
  }
  Json kept = Json::array();
  for (const KeptTensorReport& tensor : report.kept) {
    kept.push_back({{"name", tensor.name},
                    {"source_type", Info(tensor.source_type).name},
                    {"weights", tensor.weights},
                    {"bytes", tensor.bytes},
                    {"reason", tensor.reason}});
  }
  return {{"tensors", std::move(tensors)},
          {"kept", std::move(kept)},
          {"bits_per_weight", report.bits_per_weight},
          {"relative_rmse", report.relative_rmse},
          {"bytes", report.bytes},
          {"input_bytes", report.input_bytes},
          {"seconds", report.seconds},
          {"verified", report.is_verified}};
}

}  // namespace thaw::cli
