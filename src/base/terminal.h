// The standard streams as the operating system sees them: whether a person sits at them, and lines
// that a person types.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace thaw {

enum class StandardStream { kInput = 0, kOutput = 1, kError = 2 };

bool IsTerminal(StandardStream stream);

// Reads lines from a file descriptor, which it does not own. What it has read ahead is lost to
// others, so one reader a descriptor. Not thread safe.
class LineReader {
 public:
  // Of standard input.
  LineReader() = default;
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // The next line without its newline; nothing at the end of the input, whose last line may lack
  // the newline. kCancelled when an interrupt came (base/interrupt.h): what was read of the line so
  // far is kept for the next call (a terminal discards it).
  Result<std::optional<std::string>> Next();

  // Whether all of a line that begins with `prefix` has come and is the one that Next() gives.
  // Never waits; a failure is left for Next() to tell.
  bool HasLine(std::string_view prefix);

 private:
  // Appends what one read gives, 0 bytes at the end. kIo.
  Result<void> ReadMore();

  int descriptor_ = 0;
  std::string held_;    // read, not yet returned
  bool ended_ = false;  // a terminal tells its end but once
};

}  // namespace thaw
