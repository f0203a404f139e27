// A file as if the page cache held none of it: reads of io/read_queue.h take the way to the disk,
// which is what a measurement of the disk, or a test of that way, is about.
//
// Everything else is the other file's, which it shares. Thread safe as that one is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "io/file.h"

namespace thaw {

class UncachedFile final : public File {
 public:
  explicit UncachedFile(std::shared_ptr<const File> file) : file_(std::move(file)) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    return file_->ReadSomeAt(offset, out);
  }
  std::optional<DirectAccess> direct() const override { return file_->direct(); }
  bool IsCached(uint64_t /*offset*/, uint64_t /*bytes*/) const override { return false; }
  Result<void> CheckUnchanged() const override { return file_->CheckUnchanged(); }

 private:
  std::shared_ptr<const File> file_;
};

}  // namespace thaw
