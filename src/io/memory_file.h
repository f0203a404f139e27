// A File over bytes in memory: stands in for a file on disk in tests and fuzzers.
//
// Owns its bytes; immutable, so every thread may read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace thaw {

class MemoryFile final : public File {
 public:
  // `path` is the name that error messages give it; nothing by that name needs to exist.
  MemoryFile(std::string path, std::vector<std::byte> bytes);
  MemoryFile(std::string path, std::string_view bytes);

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::string path_;
  std::vector<std::byte> bytes_;
};

}  // namespace thaw
