// JSON to template values: the one place where nlohmann's types enter.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "chat/value.h"

namespace thaw::jinja {

// Invalid UTF-8 becomes U+FFFD; integers beyond 64 bits become floats. Fails beyond kMaxValueDepth
// levels.
Result<Value> FromJson(const nlohmann::ordered_json& json, int depth = 0);

// Reads text whose arrays and objects nest at most kMaxValueDepth deep. `name` stands for the text
// in errors.
Result<nlohmann::ordered_json> ParseJson(std::string_view text, std::string_view name);

}  // namespace thaw::jinja
