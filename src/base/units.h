// Units as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace thaw {

// Of bytes and of operations a second, in decimal units.
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

// "512 B", "1.5 KiB", "591.3 MiB", "14.0 GiB": binary units, one decimal above bytes.
std::string FormatBytes(uint64_t bytes);

}  // namespace thaw
