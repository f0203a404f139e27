#include "io/memory_file.h"

#include <algorithm>
#include <utility>

namespace thaw {

MemoryFile::MemoryFile(std::string path, std::vector<std::byte> bytes)
    : path_(std::move(path)), bytes_(std::move(bytes)) {}

MemoryFile::MemoryFile(std::string path, std::string_view bytes) : path_(std::move(path)) {
  const auto view = std::as_bytes(std::span(bytes));
  bytes_.assign(view.begin(), view.end());
}

Result<size_t> MemoryFile::ReadSomeAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset >= bytes_.size()) return 0;
  const size_t count = std::min<size_t>(out.size(), bytes_.size() - offset);
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), count, out.begin());
  return count;
}

}  // namespace thaw
