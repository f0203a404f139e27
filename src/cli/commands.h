// The commands, one a file (run_command.cc, ...).
//
// Each writes its results to standard output (standard_output.h) and what it reports of itself to
// standard error. An error is the sentence for the user; kCancelled means that a signal or the
// reader of standard output ended the work.
#pragma once

#include "base/result.h"
#include "cli/options.h"

namespace thaw::cli {

Result<void> Execute(const RunOptions& options);
Result<void> Execute(const ChatOptions& options);
Result<void> Execute(const InspectOptions& options);
Result<void> Execute(const TokenizeOptions& options);
Result<void> Execute(const TemplateOptions& options);
Result<void> Execute(const LogitsOptions& options);
Result<void> Execute(const PerplexityOptions& options);
Result<void> Execute(const PlanOptions& options);
Result<void> Execute(const BenchOptions& options);
Result<void> Execute(const FreezeCommandOptions& options);
Result<void> Execute(const DoctorOptions& options);

}  // namespace thaw::cli
