#include "cli/bench_report.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/units.h"
#include "cli/report_row.h"

namespace thaw::cli {
namespace {

// What the shares are shares of.
constexpr std::string_view kLegend =
    "GB/s and mem %: weights visited and, of decode, keys and values. TOPS and int8 %: two\n"
    "operations for each weight and token, attention apart. Rates of the machine: medians of\n"
    "measurements before, between and after the runs; mem % of decode that reads no file: the\n"
    "median step beside what was read of memory right before and after it.\n";

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// What a workload's median speed comes to.
struct Throughput {
  double bytes_per_second = 0;  // of WorkloadReport::BytesPerToken
  double read_bytes_per_second = 0;
  double operations_per_second = 0;
  double share_of_memory_rate = 0;
  double share_of_disk_rate = 0;
  std::optional<double> share_of_int8_rate = {};  // where the rate was measured
};

Throughput ThroughputOf(const WorkloadReport& workload, const BenchmarkReport& speed) {
  const double tok_per_s = workload.TokensPerSecond().median;
  Throughput t;
  t.bytes_per_second = workload.BytesPerToken() * tok_per_s;
  t.read_bytes_per_second = workload.BytesReadPerToken() * tok_per_s;
  t.operations_per_second = static_cast<double>(workload.run_operations) /
                            static_cast<double>(workload.tokens) * tok_per_s;
  t.share_of_memory_rate = workload.ShareOfMemoryRate().value_or(
      Ratio(t.bytes_per_second, speed.memory_bytes_per_second));
  t.share_of_disk_rate = Ratio(t.read_bytes_per_second, speed.disk_bytes_per_second);
  if (speed.int8) {
    t.share_of_int8_rate = Ratio(t.operations_per_second, speed.int8->operations_per_second);
  }
  return t;
}

// null where there is none, so that the key is always there.
Json NumberOrNull(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

// Whether what memory was measured over fits into the cache, whose rate it then is.
bool MeasuredTheCache(const BenchReport& report) {
  return report.last_level_cache && report.speed.memory_buffer_bytes < *report.last_level_cache;
}

std::string_view PhaseName(Phase phase) { return phase == Phase::kPrefill ? "prefill" : "decode"; }

Json RunJson(const WorkloadReport& workload, const BenchReport& report) {
  const Spread rate = workload.TokensPerSecond();
  const Throughput throughput = ThroughputOf(workload, report.speed);
  Json json = {
      {"what", PhaseName(workload.phase)},
      {"tokens", workload.tokens},
      {"after", workload.after},
      {"runs", workload.runs},
      {"threads", report.threads},
      {"budget_bytes", report.plan.budget_bytes},
      {"policy", report.policy},
      {"reader", report.reader},
      {"tok_per_s", {{"median", rate.median}, {"min", rate.min}, {"max", rate.max}}},
      {"bytes_per_token", workload.BytesPerToken()},
      {"kv_bytes_per_token",
       workload.phase == Phase::kDecode ? Json(workload.KvBytesPerToken()) : Json(nullptr)},
      {"bytes_read_per_token", workload.BytesReadPerToken()},
      {"hit_rate_bytes", workload.HitRateBytes()},
      {"stall_s_per_token", workload.StallSecondsPerToken()},
      {"gb_per_s", throughput.bytes_per_second / kGiga},
      {"share_of_memory_rate", throughput.share_of_memory_rate},
      {"share_of_disk_rate", throughput.share_of_disk_rate},
      {"tops", throughput.operations_per_second / kTera},
      {"share_of_int8_rate", NumberOrNull(throughput.share_of_int8_rate)},
      {"peak_rss_bytes", report.peak_resident_bytes}};
  if (workload.phase == Phase::kDecode) {
    const StepSummary steps = SummarizeSteps(workload.step_seconds);
    json["decode_ms"] = {{"p50", steps.p50_ms}, {"p99", steps.p99_ms}, {"cv", steps.cv}};
    const std::optional<double> rate_beside = workload.MemoryRate();
    json["memory_gb_per_s"] = rate_beside ? Json(*rate_beside / kGiga) : Json(nullptr);
  }
  return json;
}

Json ModelJson(const BenchReport& report) {
  Json json = {{"path", report.model}};
  if (!report.shape.empty()) {
    json["shape"] = report.shape;
    json["type"] = report.type;
  }
  json["weight_bytes"] = report.plan.weight_bytes;
  json["resident_bytes"] = report.plan.shares.resident_bytes;
  json["streamed_bytes"] = report.plan.shares.streamed_bytes;
  json["kv_bytes"] = report.plan.kv_bytes;
  json["context"] = report.plan.context;
  json["prefill_chunk"] = report.plan.prefill_chunk;
  return json;
}

Json SimulationJson(const PolicySimulation& simulation) {
  Json policies = Json::array();
  for (const SimulatedPolicy& p : simulation.policies) {
    policies.push_back({{"policy", p.policy},
                        {"fits", p.fits},
                        {"hit_rate", p.fits ? Json(p.hit_rate) : Json(nullptr)},
                        {"hit_rate_bytes", p.fits ? Json(p.hit_rate_bytes) : Json(nullptr)}});
  }
  return {{"capacity_bytes", simulation.capacity_bytes},
          {"router", SimulatedRouterName(simulation.router)},
          {"passes", simulation.passes},
          {"best_possible_hit_rate_bytes", simulation.best_possible_hit_rate_bytes},
          {"policies", std::move(policies)}};
}

std::string Header(const BenchReport& report) {
  const MemoryPlan& plan = report.plan;
  const BenchmarkReport& speed = report.speed;
  std::string text = ReportRow("model", report.model);
  if (!report.shape.empty()) {
    text += ReportRow("shape", fmt::format("{}, {}, random weights", report.shape, report.type));
  }
  text += ReportRow("weights", fmt::format("{}, {} of it in memory, {} streamed; policy {}",
                                           FormatBytes(plan.weight_bytes),
                                           FormatBytes(plan.shares.resident_bytes),
                                           FormatBytes(plan.shares.streamed_bytes), report.policy));
  text += ReportRow(
      "budget", fmt::format("{}, peak memory {}; {} positions, {} tokens at once",
                            FormatBytes(plan.budget_bytes), FormatBytes(report.peak_resident_bytes),
                            plan.context, plan.prefill_chunk));
  text +=
      ReportRow("processor", fmt::format("{}; kernels {}, {} thread{}", report.cpu, report.kernels,
                                         report.threads, report.threads == 1 ? "" : "s"));
  std::string memory =
      fmt::format("{:.2f} GB/s, reading {} again and again", speed.memory_bytes_per_second / kGiga,
                  FormatBytes(speed.memory_buffer_bytes));
  if (MeasuredTheCache(report)) {
    memory += fmt::format(": the rate of the cache of {}", FormatBytes(*report.last_level_cache));
  }
  text += ReportRow("memory rate", memory);
  text += ReportRow(
      "disk rate",
      fmt::format("{:.2f} GB/s; weights are read by {}{}", speed.disk_bytes_per_second / kGiga,
                  report.reader, report.reader_note.empty() ? "" : ": " + report.reader_note));
  text += ReportRow(
      "int8 rate", speed.int8
                       ? fmt::format("{:.2f} TOPS by {}", speed.int8->operations_per_second / kTera,
                                     speed.int8->instruction)
                       : "not measured: this CPU has no instruction for int8 products");
  return text + ReportRow("first token",
                          fmt::format("{:.3f} s after loading, {:.3f} s again, of a prompt of {}",
                                      speed.ttft_cold_seconds, speed.ttft_warm_seconds,
                                      speed.first_prompt_tokens));
}

std::string RunRow(const WorkloadReport& workload, const BenchmarkReport& speed) {
  const Spread rate = workload.TokensPerSecond();
  const Throughput throughput = ThroughputOf(workload, speed);
  std::string steps = fmt::format("{:>8} {:>8} {:>6}", "", "", "");
  if (workload.phase == Phase::kDecode) {
    const StepSummary s = SummarizeSteps(workload.step_seconds);
    steps = fmt::format("{:>8.2f} {:>8.2f} {:>6.1f}", s.p50_ms, s.p99_ms, 100 * s.cv);
  }
  return fmt::format(
      "{:<7} {:>6} {:>6} {:>8.2f} {:>8.2f} {:>8.2f} {} {:>10} {:>6.1f} {:>8.2f} {:>7.2f} {:>6.1f} "
      "{:>6.1f} {:>7.3f} {:>6}\n",
      PhaseName(workload.phase), workload.tokens, workload.after, rate.median, rate.min, rate.max,
      steps, FormatBytes(static_cast<uint64_t>(workload.BytesReadPerToken())),
      100 * workload.HitRateBytes(), 1e3 * workload.StallSecondsPerToken(),
      throughput.bytes_per_second / kGiga, 100 * throughput.share_of_memory_rate,
      100 * throughput.share_of_disk_rate, throughput.operations_per_second / kTera,
      throughput.share_of_int8_rate ? fmt::format("{:.1f}", 100 * *throughput.share_of_int8_rate)
                                    : "-");
}

// `experts` says how they are drawn, or nothing.
std::string SimulationTable(const PolicySimulation& simulation, std::string_view experts) {
  std::string text = fmt::format(
      "\nsimulated: {} tokens{}, {} for weights; at best {:.1f} % of the bytes are found in "
      "memory\n"
      "{:<10} {:>7} {:>8}\n",
      simulation.passes, experts, FormatBytes(simulation.capacity_bytes),
      100 * simulation.best_possible_hit_rate_bytes, "policy", "hits %", "bytes %");
  for (const SimulatedPolicy& p : simulation.policies) {
    text += p.fits ? fmt::format("{:<10} {:>7.1f} {:>8.1f}\n", p.policy, 100 * p.hit_rate,
                                 100 * p.hit_rate_bytes)
                   : fmt::format("{:<10} needs more memory\n", p.policy);
  }
  return text;
}

}  // namespace

Json BenchJson(const BenchReport& report) {
  const BenchmarkReport& speed = report.speed;
  Json runs = Json::array();
  for (const WorkloadReport& workload : speed.workloads) runs.push_back(RunJson(workload, report));
  Json json = {
      {"machine",
       {{"memory_gb_per_s", speed.memory_bytes_per_second / kGiga},
        {"memory_buffer_bytes", speed.memory_buffer_bytes},
        {"memory_rate_is_of_cache", MeasuredTheCache(report)},
        {"disk_gb_per_s", speed.disk_bytes_per_second / kGiga},
        {"int8_tops", speed.int8 ? Json(speed.int8->operations_per_second / kTera) : Json(nullptr)},
        {"int8_instruction", speed.int8 ? Json(speed.int8->instruction) : Json(nullptr)},
        {"cpu", report.cpu},
        {"kernels", report.kernels},
        {"reader", report.reader},
        {"reader_note", report.reader_note}}},
      {"model", ModelJson(report)},
      {"load_s", report.load_seconds},
      {"ttft_tokens", speed.first_prompt_tokens},
      {"ttft_cold_s", speed.ttft_cold_seconds},
      {"ttft_warm_s", speed.ttft_warm_seconds},
      {"peak_rss_bytes", report.peak_resident_bytes},
      {"runs", std::move(runs)}};
  if (report.simulation) json["simulation"] = SimulationJson(*report.simulation);
  if (report.skewed_simulation) {
    json["skewed_simulation"] = SimulationJson(*report.skewed_simulation);
  }
  return json;
}

std::string BenchTable(const BenchReport& report) {
  std::string text = Header(report);
  if (!report.speed.workloads.empty()) {
    text += fmt::format(
        "\n{:<7} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>10} {:>6} {:>8} {:>7} {:>6} "
        "{:>6} {:>7} {:>6}\n",
        "run", "tokens", "after", "tok/s", "least", "most", "p50 ms", "p99 ms", "cv %", "read/tok",
        "hit %", "stall ms", "GB/s", "mem %", "disk %", "TOPS", "int8 %");
    for (const WorkloadReport& w : report.speed.workloads) text += RunRow(w, report.speed);
    text += kLegend;
  }
  if (report.simulation) {
    const bool has_experts = report.skewed_simulation.has_value();
    text +=
        SimulationTable(*report.simulation, has_experts ? ", each expert as likely as any" : "");
  }
  if (report.skewed_simulation) {
    text += SimulationTable(*report.skewed_simulation, ", experts as likely as 1 / rank");
  }
  return text;
}

}  // namespace thaw::cli
