// Where the bytes of a budget go, for people (a line or a table) and as JSON for programs.
//
// Everything is taken from the plan that the engine made (engine/memory_plan.h) and its forecast
// (engine/speed_forecast.h); nothing is computed here but shares of them. Pure functions.
#pragma once

#include <string>

#include "cli/json_text.h"
#include "engine/engine.h"

namespace thaw::cli {

// The object that `thaw plan --json` prints.
Json PlanJson(const MemoryPlan& plan);

// What is added to it: predicted speed, what bounds it, the curve over budgets and its knee, and
// the machine's rates.
void AddForecast(const PlanReport& report, Json& json);

// A row for each budget of the curve, after a line of what is predicted and what bounds it.
std::string ForecastTable(const PlanReport& report);

// A row for each share, then what is resident and what is streamed.
std::string PlanTable(const MemoryPlan& plan);

// "budget 450.0 MiB: program 24.0 MiB, ... | 312.0 MiB of 591.3 MiB of weights resident, 279.3 MiB
// streamed for every token"
std::string PlanLine(const MemoryPlan& plan);

}  // namespace thaw::cli
