// What a freezing run did, as a table for people and as JSON.
#pragma once

#include <string>

#include "cli/json_text.h"
#include "engine/freeze.h"

namespace thaw::cli {

// A line for each frozen tensor, what was kept and why, totals.
std::string FreezeTable(const FreezeReport& report);

// {"tensors": [{"name", "kind", "source_type", "weights", "bytes", "bits_per_weight",
// "relative_rmse", "type_rmse" or null, "seconds"}], "kept": [{"name", "source_type", "weights",
// "bytes", "reason"}], "bits_per_weight", "relative_rmse", "bytes", "input_bytes", "seconds",
// "verified"}; relative errors are those of the input's weights.
Json FreezeJson(const FreezeReport& report);

}  // namespace thaw::cli
