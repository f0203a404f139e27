// The options that say how weights are held in memory: the same for every command that runs a
// model.
//
// They fill the EngineOptions that they are given, which must outlive the parsing.
#pragma once

#include <CLI/CLI.hpp>

#include "engine/engine.h"

namespace thaw::cli {

// --budget, --policy and --pin: what a plan of the memory depends on.
void AddPlanning(CLI::App& command, EngineOptions& engine);

// How the plan is carried out: reading ahead, preloading, verifying.
void AddReading(CLI::App& command, EngineOptions& engine);

}  // namespace thaw::cli
