// What a generation cost, for people (one line, or all of it) and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/json_text.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace thaw::cli {

// Everything that the reports are made from; filled as far as the work came.
struct RunReport {
  std::string model;
  std::string kernels;
  int threads = 0;
  int64_t context = 0;
  uint64_t kv_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t seed = 0;
  double load_seconds = 0;
  bool interrupted = false;  // by a signal
  std::optional<FinishReason> finish;
  GenerationStatistics generation;  // of all answers together
  CacheStatistics cache;
  uint64_t peak_resident_bytes = 0;
};

// Adds one answer's figures to those of the answers before it; the time to the first token stays
// the first answer's.
void AddGeneration(const GenerationStatistics& one, GenerationStatistics& total);

// "prompt 37 tokens 310 tok/s | answer 8 tokens 142 tok/s | first token 0.12 s | ..."
std::string StatisticsLine(const RunReport& report);

// Some ten lines, each with its newline.
std::string StatisticsTable(const RunReport& report);

// The object that --stats-json writes.
Json StatisticsJson(const RunReport& report);

// Takes over what the engine knows of itself, and the peak of memory up to now.
void DescribeEngine(const Engine& engine, RunReport& report);

// Prints and writes the report as the options ask for it.
Result<void> PublishReport(const RunReport& report, const ReportOptions& options);

// A seed for a user who gave none: 32 random bits, short enough to be typed again.
uint64_t RandomSeed();

// Seconds of reading that hits saved, at the rate at which this process has read.
double TimeSavedSeconds(const CacheStatistics& cache);

}  // namespace thaw::cli
