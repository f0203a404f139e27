// Turns what a user says into the tokens that a model continues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/json_text.h"
#include "engine/engine.h"

namespace thaw::cli {

// {"role": role, "content": content}
Json Message(std::string_view role, std::string_view content);

// A conversation through the model's chat template, with the beginning of an answer behind it.
// `messages` is a list of {"role", "content"}. kUnsupported where the model has no template.
Result<std::vector<int32_t>> EncodeConversation(Engine& engine, const Json& messages);

// A text as it is, with a BOS where the model wants one.
Result<std::vector<int32_t>> EncodeText(Engine& engine, std::string_view text);

}  // namespace thaw::cli
