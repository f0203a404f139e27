// Where tests find their data.
//
// Goldens that travel with the repository live in tests/golden/. The full conformance folder is
// found through THAW_CONFORMANCE_DIR, by default ../shared/conformance beside the project; a test
// that needs it prints a SKIP where it is absent (GTEST_SKIP).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace thaw {

inline std::filesystem::path GoldenDir() {
  return std::filesystem::path(THAW_SOURCE_DIR) / "tests" / "golden";
}

// Empty when the folder is absent.
inline std::filesystem::path ConformanceDir() {
  const char* stated = std::getenv("THAW_CONFORMANCE_DIR");
  const std::filesystem::path dir = stated != nullptr ? stated : THAW_DEFAULT_CONFORMANCE_DIR;
  return std::filesystem::is_directory(dir) ? dir : std::filesystem::path();
}

}  // namespace thaw
