#include "cli/rates_path.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace thaw::cli {

std::string RatesPath() {
  std::filesystem::path folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  folder /= "thaw";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : (folder / "rates").string();
}

}  // namespace thaw::cli
