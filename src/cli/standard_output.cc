#include "cli/standard_output.h"

#include <cerrno>
#include <cstdio>

#include "base/interrupt.h"
#include "base/system_message.h"

namespace thaw::cli {
namespace {

Result<void> OutputFailure() {
  const int error_number = errno;
  if (error_number == EPIPE) {
    return Fail(ErrorCode::kCancelled, "nobody reads the output any more");
  }
  if (error_number == EINTR && Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
  return Fail(ErrorCode::kIo, "standard output cannot be written: {}", SystemMessage(error_number));
}

}  // namespace

Result<void> WriteOutput(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) return OutputFailure();
  return {};
}

Result<void> FlushOutput() {
  if (std::fflush(stdout) != 0) return OutputFailure();
  return {};
}

void WriteError(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace thaw::cli
