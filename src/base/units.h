// Byte counts as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace thaw {

// "512 B", "1.5 KiB", "591.3 MiB", "14.0 GiB": binary units, one decimal above bytes.
std::string FormatBytes(uint64_t bytes);

}  // namespace thaw
