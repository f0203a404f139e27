// Texts that the user hands over: arguments, files, pipes.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "cli/options.h"

namespace thaw::cli {

// A file, pipe or device, read to its end. kNotFound, kIo, or kResourceExhausted for more than
// `max_bytes`.
Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// The text of the source, standard input where it names none. Says on standard error what it waits
// for when a person sits there, unless `quiet`.
Result<std::string> ReadText(const TextSource& source, bool quiet = false);

// Takes off one line end: files and `echo` end with one that is no part of a prompt.
void DropLastNewline(std::string& text);

}  // namespace thaw::cli
