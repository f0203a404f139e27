// What each command was asked to do, as plain data: made by command_line.h, used by commands.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/freeze.h"
#include "engine/generation.h"
#include "engine/speed_benchmark.h"

namespace thaw::cli {

// A model that is loaded, and how. `engine` is what -c, -t, --kernels, --kv-type and
// --prefill-chunk said; each command documents its own default context and KV type.
struct ModelOptions {
  std::string path;
  EngineOptions engine;
};

// What is reported beside the results. Each command documents which of these it has.
struct ReportOptions {
  bool progress = true;         // a bar on stderr while there is something to wait for
  bool quiet = false;           // nothing on stderr but warnings, errors and what was asked for
  bool verbose = false;         // log what is done
  bool statistics = false;      // all statistics instead of one line
  std::string statistics_file;  // JSON; "" for none
  bool profile = false;         // what the time went to, in both kinds of statistics
  std::string trace_file;       // a line of JSON for every visit of weights; "" for none
};

// Where a text comes from; at most one of the two is there, else it is standard input.
struct TextSource {
  std::optional<std::string> text;
  std::optional<std::string> file;
};

struct RunOptions {
  ModelOptions model;
  GenerationOptions generation;
  std::optional<uint64_t> seed;  // random when it was not given
  ReportOptions report;
  TextSource prompt;
  std::string messages_file;  // "" for none
  std::string system;         // "" for none
  bool raw = false;
};

struct ChatOptions {
  ModelOptions model;
  GenerationOptions generation;
  std::optional<uint64_t> seed;
  ReportOptions report;
  std::string system;
};

struct InspectOptions {
  std::string path;
  bool json = false;
  std::string tensor;    // "" for the whole file
  std::string npy_file;  // "" for none
};

struct TokenizeOptions {
  std::string path;
  TextSource text;
  std::string texts_file;  // "" for none
  bool json = false;
  bool add_bos = true;
  bool parse_special = true;
};

struct TemplateOptions {
  std::string path;
  std::string context_file;
  std::optional<std::chrono::year_month_day> today;  // the clock's when it was not given
};

struct LogitsOptions {
  ModelOptions model;
  ReportOptions report;
  std::string tokens_file;
  std::string out_file;
};

struct PerplexityOptions {
  ModelOptions model;
  ReportOptions report;
  std::string text_file;
  bool json = false;
};

struct PlanOptions {
  ModelOptions model;
  bool json = false;
  bool remeasure = false;  // the machine's rates, although they are known
};

struct BenchOptions {
  ModelOptions model;      // its path is "" where a shape is given
  std::string shape;       // "" for none
  std::string type;        // of the shape's weights
  std::string out_file;    // where the shape's model stays; "" for a file that goes again
  BenchmarkOptions speed;  // with defaults for what was not given
  bool cold = false;
  bool simulate = false;
  bool json = false;
  ReportOptions report;
};

struct FreezeCommandOptions {
  FreezeOptions freeze;
  ReportOptions report;
  bool json = false;
};

struct DoctorOptions {
  std::string path;  // "" for none
  int threads = 0;   // that runs would have; 0: as many as may be used
  bool remeasure = false;
  bool json = false;
};

using CommandOptions = std::variant<RunOptions, ChatOptions, InspectOptions, TokenizeOptions,
                                    TemplateOptions, LogitsOptions, PerplexityOptions, PlanOptions,
                                    BenchOptions, FreezeCommandOptions, DoctorOptions>;

}  // namespace thaw::cli
