#include "cli/residency_arguments.h"

#include <string>

#include "cli/argument_checks.h"
#include "cli/rates_path.h"
#include "codec/tile_decoder.h"

namespace thaw::cli {
namespace {

constexpr const char* kGroup = "Memory";

// More layers than any model has.
constexpr int kMaxLayersAhead = 1 << 16;

// "planned|lru|..."
std::string PolicyNames() {
  std::string names;
  for (const Policy* policy : AllPolicies()) {
    if (!names.empty()) names += '|';
    names += policy->name();
  }
  return names;
}

}  // namespace

void AddPlanning(CLI::App& command, EngineOptions& engine) {
  command
      .add_option_function<std::string>(
          "--budget", [&engine](const std::string& text) { engine.budget = *ParseBudget(text); },
          "Memory of the whole process at most: 600MiB, 50% of what the machine leaves, floor, "
          "floor+20MiB, floor+50% of the weights (default: what the machine leaves, less a margin)")
      ->check(Passes(ParseBudget))
      ->type_name("SIZE")
      ->group(kGroup);
  command.add_option("--policy", engine.policy, "Which weights stay in memory (default: planned)")
      ->check(Passes(FindPolicy))
      ->type_name(PolicyNames())
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--tier", [&engine](const std::string& name) { engine.tier = *FindTier(name); },
          "How frozen weights, IQ1, IQ2 and IQ3 are held: coded, thawed, or auto: thawed as far as "
          "there is memory and that is faster (default: auto)")
      ->check(Passes(FindTier))
      ->type_name("auto|coded|thawed")
      ->group(kGroup);
  command
      .add_option("--codec-backend", engine.codec_backend,
                  "Who decodes frozen weights (default: cpu)")
      ->check(Passes(CheckCodecBackend))
      ->type_name("cpu")
      ->group(kGroup);
  engine.rates_path = RatesPath();
  command
      .add_option("--pin", engine.pinned,
                  "Weights that stay, by name, * for any characters; may be given several times "
                  "(default: none)")
      ->allow_extra_args(false)
      ->type_name("PATTERN")
      ->group(kGroup);
}

void AddReading(CLI::App& command, EngineOptions& engine) {
  command
      .add_option("--frequency-window", engine.frequency_window,
                  "Tokens that lfu, and planned for experts, look back on, 1 to 64 (default: 64)")
      ->check(Between(1, 64))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_option("--prefetch-ahead", engine.prefetch_ahead,
                  "Layers that are read ahead; 0: none (default: as far as memory reaches)")
      ->check(Between(0, kMaxLayersAhead))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_flag("--sync-prefetch", engine.synchronous_prefetch,
                "Wait for what is read ahead, instead of computing meanwhile (default: off)")
      ->group(kGroup);
  command
      .add_option("--io-threads", engine.io_threads,
                  "Threads that read, 1 to 64 (default: as many as the way of reading needs)")
      ->check(Between(1, 64))
      ->type_name("N")
      ->group(kGroup);
  command
      .add_flag("--preload", engine.preload,
                "Read what stays in memory before the first token (default: with it)")
      ->group(kGroup);
  command
      .add_flag("--verify", engine.verify,
                "Preload, and compare what is in memory with the file once more (default: off)")
      ->group(kGroup);
}

}  // namespace thaw::cli
