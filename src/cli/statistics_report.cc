#include "cli/statistics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>

#include "base/process.h"
#include "base/units.h"
#include "cli/report_row.h"
#include "cli/standard_output.h"
#include "io/output_file.h"

namespace thaw::cli {
namespace {

// As many as a person reads.
constexpr size_t kHottestCount = 5;

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double BytesReadPerToken(const GenerationStatistics& generation) {
  return Ratio(static_cast<double>(generation.decode_bytes_read),
               static_cast<double>(generation.step_seconds.size()));
}

std::string_view FinishText(const RunReport& report) {
  if (report.finish) return FinishReasonName(*report.finish);
  return report.interrupted ? FinishReasonName(FinishReason::kCancelled) : "nothing generated";
}

// "1 token", "2 tokens"
std::string Tokens(int64_t count) {
  return fmt::format("{} token{}", count, count == 1 ? "" : "s");
}

std::string Rate(double tokens_per_second) {
  return tokens_per_second > 0 ? fmt::format(" {:.4g} tok/s", tokens_per_second) : "";
}

Json CacheJson(const RunReport& report) {
  const CacheStatistics& cache = report.cache;
  return {{"instance_id", cache.instance_id},
          {"policy", cache.policy},
          {"reader", cache.reader},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"hit_bytes", cache.hit_bytes},
          {"miss_bytes", cache.miss_bytes},
          {"hit_rate", cache.hit_rate()},
          {"hit_rate_bytes", cache.hit_rate_bytes()},
          {"evictions", cache.evictions},
          {"bytes_read", cache.bytes_read},
          {"rows_read", cache.rows.reads},
          {"row_hits", cache.rows.hits},
          {"row_bytes_read", cache.rows.bytes_read},
          {"disk_bytes", cache.disk_bytes},
          {"page_cache_bytes", cache.page_cache_bytes},
          {"bytes_read_per_token", BytesReadPerToken(report.generation)},
          {"read_s", cache.read_seconds},
          {"stall_s", cache.stall_seconds},
          {"thaw_s", cache.thaw_seconds},
          {"coded_product_s", report.coded_product_seconds},
          {"time_saved_s", cache.time_saved_seconds()},
          {"capacity_bytes", cache.capacity_bytes},
          {"slot_bytes", cache.slot_bytes},
          {"resident_bytes", cache.resident_bytes},
          {"pinned_bytes", cache.pinned_bytes},
          {"planned_bytes", cache.shares.resident_bytes},
          {"weight_bytes", cache.weight_bytes},
          {"best_possible_hit_rate_bytes", cache.shares.HitRateBytes()}};
}

Json HottestJson(const std::vector<MatrixStatistics>& hottest) {
  Json list = Json::array();
  for (const MatrixStatistics& m : hottest) {
    list.push_back({{"name", m.name},
                    {"bytes", m.bytes},
                    {"resident_bytes", m.resident_bytes},
                    {"planned_bytes", m.planned_bytes},
                    {"visits", m.visits},
                    {"hits", m.hits},
                    {"read_s", m.read_seconds}});
  }
  return list;
}

// " | budget 450.0 MiB: 312.0 MiB of 591.3 MiB of weights in memory, 279.3 MiB read a token", or
// nothing.
std::string StreamingText(const RunReport& report) {
  const auto read = static_cast<uint64_t>(BytesReadPerToken(report.generation));
  if (read == 0) return "";
  return fmt::format(" | budget {}: {} of {} of weights in memory, {} read a token",
                     FormatBytes(report.plan.budget_bytes),
                     FormatBytes(report.cache.resident_bytes),
                     FormatBytes(report.cache.weight_bytes), FormatBytes(read));
}

// A name in front of each first line, and the text behind it.
class Table {
 public:
  void Row(std::string_view name, const std::string& text) { text_ += ReportRow(name, text); }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddGenerationRows(const RunReport& report, Table& table) {
  const GenerationStatistics& g = report.generation;
  const StepSummary steps = SummarizeSteps(g.step_seconds);
  table.Row("prompt",
            fmt::format("{}, {} of them reused,{} in {:.3f} s", Tokens(g.prompt_tokens),
                        g.reused_tokens, Rate(g.PromptTokensPerSecond()), g.prompt_seconds));
  table.Row("first token", fmt::format("{:.3f} s", g.ttft_seconds));
  table.Row("answer", fmt::format("{}{}, {}", Tokens(g.decode_tokens),
                                  Rate(g.DecodeTokensPerSecond()), FinishText(report)));
  table.Row("decode step",
            fmt::format("median {:.2f} ms, 99 % within {:.2f} ms, variation {:.1f} %", steps.p50_ms,
                        steps.p99_ms, 100 * steps.cv));
  table.Row("seed", fmt::format("{}", report.seed));
}

void AddCacheRows(const RunReport& report, Table& table) {
  const CacheStatistics& c = report.cache;
  table.Row("weights",
            fmt::format("{} of {} resident, policy {}, capacity {}", FormatBytes(c.resident_bytes),
                        FormatBytes(c.weight_bytes), c.policy, FormatBytes(c.capacity_bytes)));
  table.Row("cache", fmt::format("{} hits, {} misses ({:.1f} % of the bytes hit, {:.1f} % "
                                 "possible), {} evictions",
                                 c.hits, c.misses, 100 * c.hit_rate_bytes(),
                                 100 * c.shares.HitRateBytes(), c.evictions));
  table.Row("reading",
            fmt::format("{} in {:.3f} s, {} a token; stalled {:.3f} s, saved {:.3f} s",
                        FormatBytes(c.bytes_read), c.read_seconds,
                        FormatBytes(static_cast<uint64_t>(BytesReadPerToken(report.generation))),
                        c.stall_seconds, c.time_saved_seconds()));
  table.Row("thawing", fmt::format("{:.3f} s for what was read, {:.3f} s in products of coded "
                                   "weights",
                                   c.thaw_seconds, report.coded_product_seconds));
  table.Row(
      "read from",
      fmt::format("disk {}, page cache {}, by {}{}", FormatBytes(c.disk_bytes),
                  FormatBytes(c.page_cache_bytes), c.reader,
                  report.reader_note.empty() ? "" : fmt::format(" ({})", report.reader_note)));
  std::string_view name = "hottest";
  for (const MatrixStatistics& m : report.hottest) {
    table.Row(name, fmt::format("{}, {}, {} of {} visits hit, read for {:.3f} s", m.name,
                                FormatBytes(m.bytes), m.hits, m.visits, m.read_seconds));
    name = "";
  }
}

}  // namespace

std::vector<MatrixStatistics> Hottest(std::vector<MatrixStatistics> all) {
  std::ranges::stable_sort(all, [](const MatrixStatistics& a, const MatrixStatistics& b) {
    return std::pair(a.read_seconds, a.visits) > std::pair(b.read_seconds, b.visits);
  });
  std::erase_if(all, [](const MatrixStatistics& m) { return m.visits == 0; });
  all.resize(std::min(all.size(), kHottestCount));
  return all;
}

void AddGeneration(const GenerationStatistics& one, GenerationStatistics& total) {
  if (total.prompt_tokens == 0) total.ttft_seconds = one.ttft_seconds;
  total.prompt_tokens += one.prompt_tokens;
  total.reused_tokens += one.reused_tokens;
  total.prompt_seconds += one.prompt_seconds;
  total.decode_tokens += one.decode_tokens;
  total.step_seconds.insert(total.step_seconds.end(), one.step_seconds.begin(),
                            one.step_seconds.end());
  total.decode_bytes_read += one.decode_bytes_read;
}

std::string StatisticsLine(const RunReport& report) {
  const GenerationStatistics& g = report.generation;
  return fmt::format(
      "{}prompt {}{} | answer {}{} | first token {:.2f} s | peak memory {}{} | kernels {}, {} "
      "thread{}",
      report.interrupted ? "interrupted | " : "", Tokens(g.prompt_tokens),
      Rate(g.PromptTokensPerSecond()), Tokens(g.decode_tokens), Rate(g.DecodeTokensPerSecond()),
      g.ttft_seconds, FormatBytes(report.peak_resident_bytes), StreamingText(report),
      report.kernels, report.threads, report.threads == 1 ? "" : "s");
}

std::string StatisticsTable(const RunReport& report) {
  const MemoryPlan& plan = report.plan;
  Table table;
  table.Row("model", report.model);
  table.Row("kernels", fmt::format("{}, {} threads", report.kernels, report.threads));
  table.Row("load", fmt::format("{:.2f} s", report.load_seconds));
  AddGenerationRows(report, table);
  table.Row("memory",
            fmt::format("peak {}, budget {}, floor {}; KV cache for {} positions {}, "
                        "working memory {}",
                        FormatBytes(report.peak_resident_bytes), FormatBytes(plan.budget_bytes),
                        FormatBytes(plan.floor_bytes), plan.context, FormatBytes(plan.kv_bytes),
                        FormatBytes(plan.scratch_bytes)));
  AddCacheRows(report, table);
  return table.Take();
}

Json StatisticsJson(const RunReport& report) {
  const GenerationStatistics& g = report.generation;
  const StepSummary steps = SummarizeSteps(g.step_seconds);
  return {{"model", report.model},
          {"kernels", report.kernels},
          {"threads", report.threads},
          {"context", report.plan.context},
          {"budget_bytes", report.plan.budget_bytes},
          {"floor_bytes", report.plan.floor_bytes},
          {"kv_bytes", report.plan.kv_bytes},
          {"scratch_bytes", report.plan.scratch_bytes},
          {"peak_rss_bytes", report.peak_resident_bytes},
          {"load_s", report.load_seconds},
          {"seed", report.seed},
          {"finish", FinishText(report)},
          {"prompt_tokens", g.prompt_tokens},
          {"reused_tokens", g.reused_tokens},
          {"prompt_tok_per_s", g.PromptTokensPerSecond()},
          {"decode_tokens", g.decode_tokens},
          {"decode_tok_per_s", g.DecodeTokensPerSecond()},
          {"decode_ms", {{"p50", steps.p50_ms}, {"p99", steps.p99_ms}, {"cv", steps.cv}}},
          {"ttft_s", g.ttft_seconds},
          {"cache", CacheJson(report)},
          {"hottest", HottestJson(report.hottest)}};
}

void DescribeEngine(const Engine& engine, RunReport& report) {
  report.kernels = engine.kernels_name();
  report.threads = engine.options().threads;
  report.plan = engine.plan();
  report.cache = engine.cache_statistics();
  report.coded_product_seconds = engine.pass_times().coded_products;
  report.reader_note = engine.weights().reader_note();
  report.hottest = Hottest(engine.weights().PerMatrix());
  report.peak_resident_bytes = PeakResidentBytes();
}

Result<void> PublishReport(const RunReport& report, const ReportOptions& options) {
  if (options.statistics) {
    WriteError(StatisticsTable(report));
  } else if (!options.quiet) {
    WriteError(StatisticsLine(report) + '\n');
  }
  if (options.profile) WriteError(ProfileTable(report.profile));
  if (options.statistics_file.empty()) return {};
  Json json = StatisticsJson(report);
  if (options.profile) json["profile"] = ProfileJson(report.profile);
  THAW_ASSIGN(OutputFile file, OutputFile::Create(options.statistics_file));
  THAW_TRY(file.Append(PrettyJson(json)));
  return file.Commit();
}

uint64_t RandomSeed() { return std::random_device()(); }

}  // namespace thaw::cli
