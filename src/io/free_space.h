// Whether a file system has room for a file that is to be written.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace thaw {

// kResourceExhausted, with both numbers, where the folder of `path` has less than `bytes` free. A
// system that does not tell is taken to have enough; writing then says.
Result<void> CheckFreeSpace(const std::string& path, uint64_t bytes);

}  // namespace thaw
