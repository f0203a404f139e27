#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace thaw {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kWarning};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("thaw", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("thaw: %l: %v");
    made->set_level(spdlog::level::trace);  // the level is checked before formatting, here
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }

LogLevel GetLogLevel() { return current_level.load(std::memory_order_relaxed); }

void WriteLogLine(LogLevel level, std::string_view text) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace thaw
