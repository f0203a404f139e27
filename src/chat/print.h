// Values as text: Python's str() and repr(), and the JSON of the `tojson` filter.
//
// All check the size of what they write against the Heap's limits while they write it.
#pragma once

#include <string>

#include "chat/heap.h"

namespace thaw::jinja {

// str(): strings as they are, undefined as nothing, everything else as repr().
Result<std::string> ToText(Heap& heap, const Value& value);
Result<void> AppendText(Heap& heap, const Value& value, std::string& out);
Result<void> AppendRepr(Heap& heap, const Value& value, std::string& out);

// The shortest digits that read back as the same number, as Python writes them: "1.0", "1e-07".
std::string FormatFloat(double value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  int indent = -1;          // blanks a level; negative: all on one line
  std::string indent_text;  // used instead where it is not empty
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// As json.dumps. Fails on values that JSON does not have (undefined, functions, generators).
Result<void> AppendJson(Heap& heap, const Value& value, const JsonStyle& style, std::string& out);

}  // namespace thaw::jinja
