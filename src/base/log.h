// Log lines on stderr. Results never go through here: they are the command line's, on stdout.
//
// Thread safe. A line costs a formatted write; lines below the current level cost a comparison.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace thaw {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Lines below `level` are dropped. The level at start is kWarning.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

// Writes one line whatever the level; use the functions below.
void WriteLogLine(LogLevel level, std::string_view text);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level < GetLogLevel()) return;
  WriteLogLine(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

}  // namespace thaw
