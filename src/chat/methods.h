// The methods of strings, lists and dicts, as Python has them. Methods that change their object are
// there to say that they may not.
#pragma once

#include <string_view>

#include "chat/builtin.h"

namespace thaw::jinja {

// Null where the value has no such method.
const Builtin* FindMethod(const Value& value, std::string_view name);
const Builtin* FindStringMethod(std::string_view name);

}  // namespace thaw::jinja
