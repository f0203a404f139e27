// Measures how fast a loaded model runs, beside what the machine can do in the same seconds.
//
// Every workload works on the same fixed tokens each time. Its output is checked before its time
// counts: logits must be finite, and every run must end with the very logits of the one before.
// Workloads take turns, so that what else the machine does meanwhile falls on all of them, and the
// machine's rates are measured before, between and after: over the weights that are in memory, from
// the model's file, and of int8 arithmetic in registers. Where all weights are in memory some of
// them are also read between any two tokens: the rate of memory can be another from one tenth of a
// second to the next.
//
// All of it stays inside the engine's budget, of which it uses one session and, for measuring, the
// kBenchmarkReserveBytes that the engine must have been told to keep free
// (EngineOptions::reserved_bytes). Run nothing else on the engine meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/rate_measurement.h"

namespace thaw {

// What MeasureDiskRate needs; memory is measured over the resident weights, or over 2 MiB of this
// where there are hardly any.
inline constexpr uint64_t kBenchmarkReserveBytes = kMeasurementScratchBytes + (uint64_t{2} << 20);

struct BenchmarkOptions {
  std::vector<int64_t> prefill_tokens = {512};  // a workload each: tokens of a prompt
  std::vector<int64_t> decode_tokens = {64};    // a workload each: tokens one after another
  int64_t decode_after = 1;                     // tokens, at least one, that come before those
  int runs = 5;                                 // of each workload, after one that does not count
  double rate_seconds = 0.1;                    // of each measurement of the machine
  const std::atomic<bool>* cancel = nullptr;    // may be null

  // Positions of a sequence that the longest workload takes.
  int64_t PositionsNeeded() const;
};

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// All zero for no values; the median of an even count is the mean of the two in the middle.
Spread SpreadOf(std::vector<double> values);

enum class Phase { kPrefill, kDecode };

// What a workload did; sums are over all its runs that counted.
struct WorkloadReport {
  Phase phase = Phase::kPrefill;
  int64_t tokens = 0;  // of a run
  int64_t after = 0;   // tokens that come before those, uncounted
  int runs = 0;
  std::vector<double> run_seconds = {};
  std::vector<double> step_seconds = {};  // of decode, a token each
  // Bytes a second that were read before and after each step, their mean by time; empty where
  // weights are not all in memory.
  std::vector<double> step_memory_rates = {};
  uint64_t hit_bytes = 0;  // of weights visited, as they lie in files
  uint64_t miss_bytes = 0;
  uint64_t visited_bytes = 0;  // of both, in memory
  double stall_seconds = 0;    // summed over threads
  uint64_t run_kv_bytes = 0;   // of decode: keys and values that attention reads in one run
  // Two for each weight and token that it is multiplied with, in one run; attention, which
  // multiplies no weights, is left out.
  uint64_t run_operations = 0;

  Spread TokensPerSecond() const;
  // Weights that are visited, in memory, and, of decode, the keys and values of the positions seen.
  // What a prompt reads of those again depends on what a core's cache keeps, so it is left out
  // there.
  double BytesPerToken() const;
  double KvBytesPerToken() const;    // the second part of it
  double BytesReadPerToken() const;  // of weights, missed
  double StallSecondsPerToken() const;
  double HitRateBytes() const;
  // Where memory was read between the steps: the median of that rate, and the median share that a
  // step's bytes a second have of the rate beside it.
  std::optional<double> MemoryRate() const;
  std::optional<double> ShareOfMemoryRate() const;

 private:
  double PerToken(double sum) const;
};

struct BenchmarkReport {
  // From asking for the first prompt to its logits: right after loading, and again.
  int64_t first_prompt_tokens = 0;
  double ttft_cold_seconds = 0;
  double ttft_warm_seconds = 0;

  std::vector<WorkloadReport> workloads = {};  // as they stand in the options, prefill first

  // Medians.
  double memory_bytes_per_second = 0;
  uint64_t memory_buffer_bytes = 0;  // of what was read; as MachineRates::buffer_bytes
  double disk_bytes_per_second = 0;
  std::optional<Int8Rate> int8 = {};  // nothing where the CPU has no instruction for it
};

// `on_progress(done, total)` gets tokens. kInvalidArgument where a workload does not fit into the
// engine's context; kCorrupt for logits that are not finite or that differ from run to run.
Result<BenchmarkReport> RunBenchmark(Engine& engine, const BenchmarkOptions& options,
                                     FunctionRef<void(uint64_t done, uint64_t total)> on_progress);

}  // namespace thaw
