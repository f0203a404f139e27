// What the system says of an error number.
#pragma once

#include <string>
#include <system_error>

namespace thaw {

// Of errno, or of what a system call returned in its place; e.g. "No such file or directory".
inline std::string SystemMessage(int error_number) {
  return std::generic_category().message(error_number);
}

}  // namespace thaw
