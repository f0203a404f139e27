#include "base/terminal.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/interrupt.h"
#include "base/system_message.h"

namespace thaw {
namespace {

// A signal that comes just before a wait begins does not end it, so the flag is looked at again
// this often: soon for a person, and next to nothing for the machine.
constexpr int kLookAgainMilliseconds = 100;

// Whether something can be read, or the end is reached, within that time.
bool IsReadable(int descriptor, int milliseconds) {
  pollfd waited = {.fd = descriptor, .events = POLLIN, .revents = 0};
  // An error shows again, with its reason, in the read that follows.
  const int ready = ::poll(&waited, 1, milliseconds);
  return ready > 0 || (ready < 0 && errno != EINTR);
}

// kCancelled when a signal came, even if something can be read too.
Result<void> WaitForInput(int descriptor) {
  for (;;) {
    const bool readable = IsReadable(descriptor, kLookAgainMilliseconds);
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (readable) return {};
  }
}

}  // namespace

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
    if (ended_) {
      if (held_.empty()) return std::nullopt;
      return std::exchange(held_, {});
    }
    searched = held_.size();
    THAW_TRY(WaitForInput(descriptor_));
    THAW_TRY(ReadMore());
  }
}

bool LineReader::HasLine(std::string_view prefix) {
  const auto is_whole = [this] { return held_.find('\n') != std::string::npos; };
  while (!is_whole() && !ended_ && IsReadable(descriptor_, 0)) {
    if (!ReadMore()) return false;
  }
  return is_whole() && held_.starts_with(prefix);
}

Result<void> LineReader::ReadMore() {
  std::array<char, 4096> chunk;
  const ssize_t got = ::read(descriptor_, chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return {};
  if (got < 0) {
    return Fail(ErrorCode::kIo, "standard input cannot be read: {}", SystemMessage(errno));
  }
  ended_ = got == 0;
  held_.append(chunk.data(), static_cast<size_t>(got));
  return {};
}

}  // namespace thaw
