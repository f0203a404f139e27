// Where this user's copy of the machine's rates lies (engine/rates_file.h).
#pragma once

#include <string>

namespace thaw::cli {

// A file in the folder for caches (XDG_CACHE_HOME, else HOME/.cache), which is made where it is
// missing; "" where there is none.
std::string RatesPath();

}  // namespace thaw::cli
