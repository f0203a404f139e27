// Results, on standard output.
//
// An output that nobody reads any more (`thaw ... | head -1`) is kCancelled: the work may stop, and
// nothing went wrong. Everything else, a full disk for one, is kIo.
#pragma once

#include <string_view>

#include "base/result.h"

namespace thaw::cli {

// Buffered until the next flush.
Result<void> WriteOutput(std::string_view text);

// What was written is with the operating system afterwards.
Result<void> FlushOutput();

// Text for people on standard error, at once; failures are ignored, as there is nowhere to tell.
void WriteError(std::string_view text);

}  // namespace thaw::cli
