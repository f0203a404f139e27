// What a generation cost, for people (one line, or all of it) and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/json_text.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace thaw::cli {

// Everything that the reports are made from; filled as far as the work came. Names point into the
// engine that DescribeEngine was given.
struct RunReport {
  std::string model;
  std::string kernels;
  int threads = 0;
  MemoryPlan plan;
  uint64_t seed = 0;
  double load_seconds = 0;
  bool interrupted = false;  // by a signal
  std::optional<FinishReason> finish;
  GenerationStatistics generation;  // of all answers together
  Profile profile;                  // of the same answers
  CacheStatistics cache;
  double coded_product_seconds = 0;       // PassTimes::coded_products
  std::string reader_note;                // why reading goes another way than asked for
  std::vector<MatrixStatistics> hottest;  // weights on which most time went, the first the most
  uint64_t peak_resident_bytes = 0;
};

// Adds one answer's figures to those of the answers before it; the time to the first token stays
// the first answer's.
void AddGeneration(const GenerationStatistics& one, GenerationStatistics& total);

// "prompt 37 tokens 310 tok/s | answer 8 tokens 142 tok/s | first token 0.12 s | ...", and what is
// read for each token where something is.
std::string StatisticsLine(const RunReport& report);

// Some twenty lines, each with its newline.
std::string StatisticsTable(const RunReport& report);

// The object that --stats-json writes.
Json StatisticsJson(const RunReport& report);

// Takes over what the engine knows of itself, and the peak of memory up to now.
void DescribeEngine(const Engine& engine, RunReport& report);

// Prints and writes the report as the options ask for it, the profile only where they do.
Result<void> PublishReport(const RunReport& report, const ReportOptions& options);

// A seed for a user who gave none: 32 random bits, short enough to be typed again.
uint64_t RandomSeed();

// The few weights that took the longest to read, and of equal ones the most visited.
std::vector<MatrixStatistics> Hottest(std::vector<MatrixStatistics> all);

}  // namespace thaw::cli
