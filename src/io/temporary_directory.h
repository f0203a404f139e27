// A folder for the files of one test, removed with all it holds when the object goes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace thaw {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "thaw-XXXXXX").string();
    THAW_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The path of a file of this name in the folder, whether it exists or not.
  std::string PathOf(std::string_view name) const { return (path_ / name).string(); }

  // Creates or replaces a file and returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    std::string file_path = PathOf(name);
    std::ofstream out(file_path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    THAW_CHECK(out.good());
    return file_path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace thaw
