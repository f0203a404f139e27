// thaw plan: what a budget would give.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/commands.h"
#include "cli/plan_report.h"
#include "cli/standard_output.h"
#include "engine/engine.h"

namespace thaw::cli {
namespace {

// The file that keeps this machine's rates, in the user's cache folder; "" where there is none.
std::string RatesPath() {
  std::filesystem::path folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  folder /= "thaw";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : (folder / "rates").string();
}

}  // namespace

Result<void> Execute(const PlanOptions& options) {
  THAW_ASSIGN(const PlanReport report,
              Engine::Forecast(options.model.path, options.model.engine,
                               {.cache_path = RatesPath(), .remeasure = options.remeasure}));
  if (!options.json) return WriteOutput(PlanTable(report.plan) + ForecastTable(report));
  Json json = PlanJson(report.plan);
  AddForecast(report, json);
  return WriteOutput(PrettyJson(json));
}

}  // namespace thaw::cli
