// Files that are read at stated offsets.
//
// A File has no position of its own, so any number of threads may read one at the same time without
// agreeing on anything. Its size is fixed when it is opened; a file that shrinks later shows as a
// read that ends early. Objects are shared (std::shared_ptr<const File>) by whoever keeps offsets
// into them.
//
// MemoryFile (io/memory_file.h) stands in for a file in tests and fuzzers, FaultyFile
// (io/faulty_file.h) puts the failures of disks into any other File.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace thaw {

class File {
 public:
  virtual ~File() = default;

  // As the user wrote it: error messages begin with it.
  virtual const std::string& path() const = 0;

  // Bytes, when it was opened.
  virtual uint64_t size() const = 0;

  // Reads into the front of `out` from `offset` on and returns how many bytes that gave: fewer than
  // out.size() whenever the system likes, 0 only at the end of the file (or for an empty `out`).
  virtual Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

// Fills all of `out`, in as many reads as it takes. kCorrupt when the file ends before that, with
// the path, the offset, the bytes wanted and the bytes there.
Result<void> ReadExactlyAt(const File& file, uint64_t offset, std::span<std::byte> out);

// Opens a regular file for reading; it is closed with the last reference. kNotFound when there is
// none, kInvalidArgument when it is something else than a file, kIo when the system refuses.
Result<std::shared_ptr<const File>> OpenFile(const std::string& path);

}  // namespace thaw
