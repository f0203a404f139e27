// Python's two ways to format text: "%d of %s" % (1, "x") and "{} of {name}".format(1, name="x").
#pragma once

#include <string_view>

#include "chat/heap.h"

namespace thaw::jinja {

// `arguments` is a tuple of several, a dict for "%(name)s", or the only one.
Result<Value> FormatPercent(Heap& heap, std::string_view format, const Value& arguments);

Result<Value> FormatBraces(Heap& heap, std::string_view format, const Arguments& arguments);

}  // namespace thaw::jinja
