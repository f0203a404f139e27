// Passes an answer on to standard output while it is generated.
//
// When the output fails, generation is asked to stop through StopFlag() and the failure is kept for
// Finish(). One answer a stream, not thread safe.
#pragma once

#include <string_view>

#include "base/result.h"

namespace thaw::cli {

class AnswerStream {
 public:
  void Push(std::string_view text);

  // Ends the last line, if it is not ended, and gives what went wrong with the output.
  Result<void> Finish();

 private:
  Result<void> status_;
  bool line_is_open_ = true;  // an empty answer is an empty line
};

}  // namespace thaw::cli
