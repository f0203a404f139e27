// Reading what Linux tells in the small text files of /proc and /sys.
//
// `root` is put before every absolute path, for tests; "" is the machine's own. Figures that a file
// does not have are absent, never guessed. No state; thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace thaw {

// Empty when there is no such file.
std::string ReadSmallFile(const std::string& path);

// The number that `text` begins with.
std::optional<uint64_t> LeadingNumber(std::string_view text);

// The number after `name` and a space on a line of "name number" pairs.
std::optional<uint64_t> NumberOfLine(std::string_view text, std::string_view name);

// The folders of the cgroup that this process is in and of those above it, innermost first, of the
// hierarchy that has `controller` ("memory", "cpu"): of version 2, and of version 1 where that has
// it. Folders end with a slash; they need not exist where /proc shows the paths of another
// namespace.
void VisitCgroupFolders(const std::string& root, std::string_view controller,
                        FunctionRef<void(const std::string& folder, bool is_version1)> visit);

}  // namespace thaw
