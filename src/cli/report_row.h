// Lines of the reports that people read: a name in a column of its own, and the text behind it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace thaw::cli {

inline std::string ReportRow(std::string_view name, std::string_view text) {
  return fmt::format("{:<14}{}\n", name, text);
}

}  // namespace thaw::cli
