#include "base/terminal.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace thaw {

bool IsTerminal(StandardStream stream) { return ::isatty(static_cast<int>(stream)) == 1; }

Result<std::optional<std::string>> LineReader::Next() {
  size_t searched = 0;  // held_ has no newline before this
  for (;;) {
    const size_t newline = held_.find('\n', searched);
    if (newline != std::string::npos) {
      std::string line = held_.substr(0, newline);
      held_.erase(0, newline + 1);
      return line;
    }
    searched = held_.size();
    std::array<char, 4096> chunk;
    const ssize_t got = ::read(descriptor_, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) return Fail(ErrorCode::kCancelled, "interrupted");
    if (got < 0) {
      return Fail(ErrorCode::kIo, "standard input cannot be read: {}",
                  std::generic_category().message(errno));
    }
    if (got == 0) {
      if (held_.empty()) return std::nullopt;
      return std::exchange(held_, {});
    }
    held_.append(chunk.data(), static_cast<size_t>(got));
  }
}

}  // namespace thaw
