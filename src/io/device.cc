#include "io/device.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "base/system_message.h"

namespace thaw {

Result<std::string> DeviceOf(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    const int error_number = errno;
    return Fail(error_number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path,
                SystemMessage(error_number));
  }
  return fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
}

}  // namespace thaw
