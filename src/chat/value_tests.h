// The tests of Jinja: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "chat/builtin.h"

namespace thaw::jinja {

// Null where there is no such test. Tests return bools.
const Builtin* FindTest(std::string_view name);

Result<bool> ApplyTest(Runtime& runtime, std::string_view name, const Value& input,
                       const Arguments& arguments);

}  // namespace thaw::jinja
