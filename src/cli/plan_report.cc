#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/units.h"

namespace thaw::cli {
namespace {

std::string Row(std::string_view name, uint64_t bytes, std::string_view text) {
  return fmt::format("{:<14}{:>10}{}{}\n", name, FormatBytes(bytes), text.empty() ? "" : "  ",
                     text);
}

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

Json PlanJson(const MemoryPlan& plan) {
  return {{"budget_bytes", plan.budget_bytes},
          {"floor_bytes", plan.floor_bytes},
          {"program_bytes", plan.program_bytes},
          {"growth_bytes", plan.growth_bytes},
          {"kernel_bytes", plan.kernel_bytes},
          {"kv_bytes", plan.kv_bytes},
          {"scratch_bytes", plan.scratch_bytes},
          {"logits_bytes", plan.logits_bytes},
          {"row_cache_bytes", plan.row_cache_bytes},
          {"weight_capacity_bytes", plan.weight_capacity_bytes},
          {"slot_bytes", plan.slot_bytes},
          {"weight_bytes", plan.weight_bytes},
          {"coded_bytes", plan.coded_bytes},
          {"thawed_bytes", plan.thawed_bytes},
          {"resident_bytes", plan.shares.resident_bytes},
          {"streamed_bytes", plan.shares.streamed_bytes},
          {"expert_bytes", plan.shares.expert_bytes},
          {"kept_expert_bytes", plan.shares.kept_bytes},
          {"bytes_visited_per_token", static_cast<uint64_t>(plan.shares.visited_bytes_per_token)},
          {"bytes_read_per_token", plan.bytes_read_per_token()},
          {"best_possible_hit_rate_bytes", plan.shares.HitRateBytes()},
          {"context", plan.context},
          {"prefill_chunk", plan.prefill_chunk}};
}

void AddForecast(const PlanReport& report, Json& json) {
  json["predicted_tok_per_s"] = report.speed.decode_tok_per_s;
  json["bound_by"] = report.speed.bound_by;
  json["compute_s_per_token"] = report.speed.compute_seconds;
  json["disk_s_per_token"] = report.speed.disk_seconds;
  json["knee_budget_bytes"] = Knee(report.curve);
  json["curve"] = Json::array();
  for (const BudgetPoint& point : report.curve) {
    json["curve"].push_back({{"budget_bytes", point.budget_bytes},
                             {"bytes_read_per_token", point.read_bytes_per_token},
                             {"predicted_tok_per_s", point.decode_tok_per_s}});
  }
  json["machine"] = {{"memory_gb_per_s", 1e-9 * report.rates.memory_bytes_per_second}};
  for (const DiskRate& disk : report.rates.disks) {
    if (disk.device == report.device) {
      json["machine"]["disk_gb_per_s"] = 1e-9 * disk.bytes_per_second;
    }
  }
}

std::string ForecastTable(const PlanReport& report) {
  std::string table =
      fmt::format("decode        {:.1f} tok/s predicted, bound by {} (memory {:.1f} GB/s)\n",
                  report.speed.decode_tok_per_s, report.speed.bound_by,
                  1e-9 * report.rates.memory_bytes_per_second);
  const uint64_t knee = Knee(report.curve);
  for (const BudgetPoint& point : report.curve) {
    table += fmt::format("{:>14}{:>10.1f} tok/s  {:>10} read{}\n", FormatBytes(point.budget_bytes),
                         point.decode_tok_per_s, FormatBytes(point.read_bytes_per_token),
                         point.budget_bytes == knee ? "  <- 90 % of the best from here on" : "");
  }
  return table;
}

std::string PlanTable(const MemoryPlan& plan) {
  const WeightShares& shares = plan.shares;
  const auto of_all = [&](uint64_t bytes) {
    const double all = static_cast<double>(std::max<uint64_t>(plan.weight_bytes, 1));
    return Percent(static_cast<double>(bytes) / all);
  };
  const uint64_t unused = plan.budget_bytes - std::min(plan.budget_bytes, plan.claimed_bytes());
  std::string table =
      Row("budget", plan.budget_bytes, "") +
      Row("  program", plan.program_bytes, "with its libraries and the model's tokenizer") +
      Row("  growth", plan.growth_bytes, "what it still touches while it runs") +
      Row("  kernel", plan.kernel_bytes, "page tables and the like") +
      Row("  KV cache", plan.kv_bytes, fmt::format("{} positions", plan.context)) +
      Row("  activations", plan.scratch_bytes,
          fmt::format("{} tokens at once", plan.prefill_chunk)) +
      Row("  logits", plan.logits_bytes, "") +
      Row("  row cache", plan.row_cache_bytes, "embeddings that tokens asked for last") +
      Row("  weights", plan.weight_capacity_bytes,
          plan.slot_bytes == 0 ? ""
                               : fmt::format("{} of it slots for those without a place",
                                             FormatBytes(plan.slot_bytes))) +
      Row("  unused", unused, "") +
      Row("floor", plan.floor_bytes, "the least budget with this context, KV cache and threads") +
      Row("weights", plan.weight_bytes, "") +
      (plan.coded_bytes == 0
           ? ""
           : Row("  coded", plan.coded_bytes, "decoded, or looked up, in each product")) +
      (plan.thawed_bytes == 0 ? ""
                              : Row("  thawed", plan.thawed_bytes,
                                    "in memory, of weights that are coded in the file")) +
      Row("  resident", shares.resident_bytes, of_all(shares.resident_bytes)) +
      Row("  streamed", shares.streamed_bytes, shares.streamed_bytes == 0 ? "" : "for every token");
  if (shares.expert_bytes == 0) return table;
  return table +
         Row("  experts", shares.expert_bytes,
             fmt::format("{} of them kept by use; at uniform use {} of what a token visits is in "
                         "memory and {} are read (an estimate)",
                         FormatBytes(shares.kept_bytes), Percent(shares.HitRateBytes()),
                         FormatBytes(plan.bytes_read_per_token())));
}

std::string PlanLine(const MemoryPlan& plan) {
  std::string line = fmt::format(
      "budget {}: program {}, KV cache {}, activations {}, weights {} | {} of {} of weights "
      "resident",
      FormatBytes(plan.budget_bytes),
      FormatBytes(plan.program_bytes + plan.growth_bytes + plan.kernel_bytes),
      FormatBytes(plan.kv_bytes),
      FormatBytes(plan.scratch_bytes + plan.logits_bytes + plan.row_cache_bytes),
      FormatBytes(plan.weight_capacity_bytes), FormatBytes(plan.shares.resident_bytes),
      FormatBytes(plan.weight_bytes));
  if (plan.shares.streamed_bytes > 0) {
    line += fmt::format(", {} streamed for every token", FormatBytes(plan.shares.streamed_bytes));
  }
  if (plan.shares.expert_bytes > 0) {
    line += fmt::format(", {} of {} of experts kept by use", FormatBytes(plan.shares.kept_bytes),
                        FormatBytes(plan.shares.expert_bytes));
  }
  return line;
}

}  // namespace thaw::cli
