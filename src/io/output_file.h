// A file that appears whole or not at all.
//
// The bytes go to a temporary name beside the target. Commit() brings them to disk and renames them
// over the target; an OutputFile that is destroyed uncommitted (an error, an interrupt that
// unwinds) removes them and leaves whatever was at the target untouched. A target that is a
// symbolic link keeps being one: what it points to is replaced.
//
// Owned by one thread at a time. Each Append is a system call: hand over pieces of some KiB or
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace thaw {

class OutputFile {
 public:
  // Starts a file that is to become `path`. kInvalidArgument when something other than a regular
  // file stands there; kIo when the folder is missing or may not be written.
  static Result<OutputFile> Create(const std::string& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // As it was given to Create.
  const std::string& path() const { return path_; }
  // Bytes appended so far.
  uint64_t size() const { return size_; }

  Result<void> Append(std::span<const std::byte> bytes);
  Result<void> Append(std::string_view bytes) { return Append(std::as_bytes(std::span(bytes))); }

  // Makes the file appear at its path. Nothing else may be called afterwards.
  Result<void> Commit();

 private:
  OutputFile() = default;
  void Discard();

  std::string path_;
  std::string target_path_;     // path_ with symbolic links followed
  std::string temporary_path_;  // empty once committed or discarded
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace thaw
