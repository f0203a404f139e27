// Which storage device a file lies on: what rates that were measured on it hold for. One system
// call, no state.
#pragma once

#include <string>

#include "base/result.h"

namespace thaw {

// "254:0": the major and minor number of the device of the file system, as /proc/self/mountinfo
// lists it. Equal for files that share it; the same from one boot to the next as long as the disks
// are. kNotFound or kIo when the file cannot be looked at.
Result<std::string> DeviceOf(const std::string& path);

}  // namespace thaw
