#include "gguf/split_name.h"

#include <fmt/format.h>

namespace thaw {

std::string SplitPartPath(std::string_view prefix, uint64_t index, uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, index + 1, count);
}

std::optional<std::string> SplitPrefix(std::string_view path, uint64_t index, uint64_t count) {
  const std::string suffix = SplitPartPath("", index, count);
  if (path.size() <= suffix.size() || !path.ends_with(suffix)) return std::nullopt;
  return std::string(path.substr(0, path.size() - suffix.size()));
}

}  // namespace thaw
