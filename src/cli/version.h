// What this build is.
#pragma once

namespace thaw::cli {

// Version, commit ("unknown" when built outside of git) and compiler, on one line.
extern const char kVersionLine[];

}  // namespace thaw::cli
