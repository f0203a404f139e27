// The arguments of the program, understood: the one place that knows the options by name.
//
// Pure but for what the help and version texts say of this build.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/options.h"

namespace thaw::cli {

// The program ends without a command: help, version, or arguments that make no sense.
struct EarlyExit {
  int status = 0;           // 0, or 2 for wrong usage
  std::string output = {};  // for standard output
  std::string errors = {};  // for standard error
};

// `arguments` without the program's own name.
std::variant<CommandOptions, EarlyExit> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace thaw::cli
