#include "io/free_space.h"

#include <filesystem>
#include <system_error>

#include "base/units.h"

namespace thaw {

Result<void> CheckFreeSpace(const std::string& path, uint64_t bytes) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || bytes <= space.available) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{}: the model takes {}, but its file system has only {} free", path,
              FormatBytes(bytes), FormatBytes(space.available));
}

}  // namespace thaw
