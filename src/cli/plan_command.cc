// thaw plan: what a budget would give.
#include <string>

#include "cli/commands.h"
#include "cli/plan_report.h"
#include "cli/standard_output.h"
#include "engine/engine.h"

namespace thaw::cli {

Result<void> Execute(const PlanOptions& options) {
  THAW_ASSIGN(const MemoryPlan plan, Engine::Plan(options.model.path, options.model.engine));
  return WriteOutput(options.json ? PrettyJson(PlanJson(plan)) : PlanTable(plan));
}

}  // namespace thaw::cli
