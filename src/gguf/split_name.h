// The file names of a split model's parts: PREFIX-00001-of-00003.gguf, counted from 1 in names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thaw {

// The name of part `index` (from 0) of `count`.
std::string SplitPartPath(std::string_view prefix, uint64_t index, uint64_t count);

// What stands before "-00001-of-00003.gguf"; nothing when `path` is not the name of that part.
std::optional<std::string> SplitPrefix(std::string_view path, uint64_t index, uint64_t count);

}  // namespace thaw
