#include "cli/answer_stream.h"

#include "base/interrupt.h"
#include "cli/standard_output.h"

namespace thaw::cli {
namespace {

Result<void> WriteNow(std::string_view text) {
  THAW_TRY(WriteOutput(text));
  return FlushOutput();
}

}  // namespace

void AnswerStream::Push(std::string_view text) {
  if (text.empty() || !status_) return;
  line_is_open_ = !text.ends_with('\n');
  status_ = WriteNow(text);
  if (!status_) StopFlag() = true;
}

Result<void> AnswerStream::Finish() {
  if (line_is_open_) Push("\n");
  return status_;
}

}  // namespace thaw::cli
