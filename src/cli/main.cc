// The program: arguments in, one command run, its outcome as an exit status.
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/interrupt.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/standard_output.h"

namespace {

enum ExitStatus { kDone = 0, kFailed = 1, kInterrupted = 130 };

thaw::Result<void> Run(const std::vector<std::string>& arguments, int& early_status) {
  using namespace thaw::cli;
  const auto parsed = ParseCommandLine(arguments);
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    early_status = early->status;
    WriteError(early->errors);
    THAW_TRY(WriteOutput(early->output));
  } else {
    THAW_TRY(std::visit([](const auto& options) { return Execute(options); },
                        std::get<CommandOptions>(parsed)));
  }
  return FlushOutput();
}

int Main(const std::vector<std::string>& arguments) {
  // A reader that goes away shows as a failed write instead.
  std::signal(SIGPIPE, SIG_IGN);
  // So does a file that is larger than a limit allows.
  std::signal(SIGXFSZ, SIG_IGN);
  thaw::CatchInterrupts();
  int status = kDone;
  const auto outcome = Run(arguments, status);
  if (outcome) return status;
  if (thaw::Interrupted()) return kInterrupted;
  if (outcome.error().code == thaw::ErrorCode::kCancelled) return kDone;
  thaw::cli::WriteError(fmt::format("thaw: {}\n", outcome.error().message));
  return kFailed;
}

}  // namespace

// Thaw throws nothing of its own, but memory can run out anywhere.
int main(int argc, char** argv) try {
  return Main(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
} catch (const std::bad_alloc&) {
  thaw::cli::WriteError("thaw: out of memory\n");
  return kFailed;
} catch (const std::exception& error) {
  thaw::cli::WriteError(fmt::format("thaw: {}\n", error.what()));
  return kFailed;
}
