// The filters of Jinja: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "chat/builtin.h"

namespace thaw::jinja {

// Null where there is no such filter.
const Builtin* FindFilter(std::string_view name);

// Applies a filter that is named at run time, as `map('upper')` does.
Result<Value> ApplyFilter(Runtime& runtime, std::string_view name, const Value& input,
                          const Arguments& arguments);

// The tables behind FindFilter, by what their filters work on.
const Builtin* FindTextFilter(std::string_view name);
const Builtin* FindSequenceFilter(std::string_view name);

}  // namespace thaw::jinja
