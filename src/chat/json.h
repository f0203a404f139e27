// JSON to template values: the one place where nlohmann's types enter.
#pragma once

#include <nlohmann/json.hpp>

#include "chat/value.h"

namespace thaw::jinja {

// Invalid UTF-8 becomes U+FFFD; integers beyond 64 bits become floats. Fails beyond kMaxValueDepth
// levels.
Result<Value> FromJson(const nlohmann::ordered_json& json, int depth = 0);

}  // namespace thaw::jinja
