// thaw plan: what a budget would give.
#include "cli/commands.h"
#include "cli/plan_report.h"
#include "cli/rates_path.h"
#include "cli/standard_output.h"
#include "engine/engine.h"

namespace thaw::cli {
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
