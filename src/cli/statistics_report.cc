#include "cli/statistics_report.h"

#include <fmt/format.h>

#include <random>
#include <string_view>

#include "base/process.h"
#include "base/units.h"
#include "cli/standard_output.h"
#include "io/output_file.h"

namespace thaw::cli {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double HitRate(const CacheStatistics& cache) {
  const auto hits = static_cast<double>(cache.hits);
  return Ratio(hits, hits + static_cast<double>(cache.misses));
}

double HitRateBytes(const CacheStatistics& cache) {
  const auto hits = static_cast<double>(cache.hit_bytes);
  return Ratio(hits, hits + static_cast<double>(cache.miss_bytes));
}

// Every token visits every weight once, so no policy can do better than the share that is meant to
// stay resident.
double BestPossibleHitRateBytes(const CacheStatistics& cache) {
  return Ratio(static_cast<double>(cache.planned_bytes), static_cast<double>(cache.weight_bytes));
}

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

Json CacheJson(const CacheStatistics& cache, const GenerationStatistics& generation) {
  return {{"instance_id", cache.instance_id},
          {"policy", cache.policy},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"hit_bytes", cache.hit_bytes},
          {"miss_bytes", cache.miss_bytes},
          {"hit_rate", HitRate(cache)},
          {"hit_rate_bytes", HitRateBytes(cache)},
          {"evictions", cache.evictions},
          {"bytes_read", cache.bytes_read},
          {"bytes_read_per_token", BytesReadPerToken(generation)},
          {"stall_s", cache.stall_seconds},
          {"thaw_s", cache.thaw_seconds},
          {"time_saved_s", TimeSavedSeconds(cache)},
          {"resident_bytes", cache.resident_bytes},
          {"pinned_bytes", cache.pinned_bytes},
          {"planned_bytes", cache.planned_bytes},
          {"weight_bytes", cache.weight_bytes},
          {"best_possible_hit_rate_bytes", BestPossibleHitRateBytes(cache)}};
}

}  // namespace

double TimeSavedSeconds(const CacheStatistics& cache) {
  return static_cast<double>(cache.hit_bytes) *
         Ratio(cache.read_seconds, static_cast<double>(cache.bytes_read));
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
      "{}prompt {}{} | answer {}{} | first token {:.2f} s | peak memory {} | kernels {}, {} "
      "thread{}",
      report.interrupted ? "interrupted | " : "", Tokens(g.prompt_tokens),
      Rate(g.PromptTokensPerSecond()), Tokens(g.decode_tokens), Rate(g.DecodeTokensPerSecond()),
      g.ttft_seconds, FormatBytes(report.peak_resident_bytes), report.kernels, report.threads,
      report.threads == 1 ? "" : "s");
}

std::string StatisticsTable(const RunReport& report) {
  const GenerationStatistics& g = report.generation;
  const CacheStatistics& c = report.cache;
  const StepSummary steps = SummarizeSteps(g.step_seconds);
  std::string out;
  const auto row = [&out](std::string_view name, const std::string& text) {
    out += fmt::format("{:<14}{}\n", name, text);
  };
  row("model", report.model);
  row("kernels", fmt::format("{}, {} threads", report.kernels, report.threads));
  row("load", fmt::format("{:.2f} s", report.load_seconds));
  row("prompt", fmt::format("{}, {} of them reused,{} in {:.3f} s", Tokens(g.prompt_tokens),
                            g.reused_tokens, Rate(g.PromptTokensPerSecond()), g.prompt_seconds));
  row("first token", fmt::format("{:.3f} s", g.ttft_seconds));
  row("answer", fmt::format("{}{}, {}", Tokens(g.decode_tokens), Rate(g.DecodeTokensPerSecond()),
                            FinishText(report)));
  row("decode step", fmt::format("median {:.2f} ms, 99 % within {:.2f} ms, variation {:.1f} %",
                                 steps.p50_ms, steps.p99_ms, 100 * steps.cv));
  row("seed", fmt::format("{}", report.seed));
  row("memory", fmt::format("peak {}; KV cache for {} positions {}, working memory {}",
                            FormatBytes(report.peak_resident_bytes), report.context,
                            FormatBytes(report.kv_bytes), FormatBytes(report.scratch_bytes)));
  row("weights", fmt::format("{} of {} resident, policy {}", FormatBytes(c.resident_bytes),
                             FormatBytes(c.weight_bytes), c.policy));
  row("cache", fmt::format("{} hits, {} misses ({:.1f} % of the bytes hit, {:.1f} % possible), {} "
                           "evictions",
                           c.hits, c.misses, 100 * HitRateBytes(c),
                           100 * BestPossibleHitRateBytes(c), c.evictions));
  row("reading", fmt::format("{} in {:.3f} s, {} a token; stalled {:.3f} s, saved {:.3f} s",
                             FormatBytes(c.bytes_read), c.read_seconds,
                             FormatBytes(static_cast<uint64_t>(BytesReadPerToken(g))),
                             c.stall_seconds, TimeSavedSeconds(c)));
  return out;
}

Json StatisticsJson(const RunReport& report) {
  const GenerationStatistics& g = report.generation;
  const StepSummary steps = SummarizeSteps(g.step_seconds);
  return {{"model", report.model},
          {"kernels", report.kernels},
          {"threads", report.threads},
          {"context", report.context},
          {"kv_bytes", report.kv_bytes},
          {"scratch_bytes", report.scratch_bytes},
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
          {"cache", CacheJson(report.cache, g)}};
}

void DescribeEngine(const Engine& engine, RunReport& report) {
  report.kernels = engine.kernels_name();
  report.threads = engine.options().threads;
  report.context = engine.options().context;
  report.kv_bytes = engine.kv_bytes();
  report.scratch_bytes = engine.scratch_bytes();
  report.cache = engine.cache_statistics();
  report.peak_resident_bytes = PeakResidentBytes();
}

Result<void> PublishReport(const RunReport& report, const ReportOptions& options) {
  if (options.statistics) {
    WriteError(StatisticsTable(report));
  } else if (!options.quiet) {
    WriteError(StatisticsLine(report) + '\n');
  }
  if (options.statistics_file.empty()) return {};
  THAW_ASSIGN(OutputFile file, OutputFile::Create(options.statistics_file));
  THAW_TRY(file.Append(PrettyJson(StatisticsJson(report))));
  return file.Commit();
}

uint64_t RandomSeed() { return std::random_device()(); }

}  // namespace thaw::cli
