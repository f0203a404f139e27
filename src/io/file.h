// Files that are read at stated offsets.
//
// A File has no position of its own, so any number of threads may read one at the same time without
// agreeing on anything. Its size is fixed when it is opened; a file that shrinks later shows as a
// read that ends early. Objects are shared (std::shared_ptr<const File>) by whoever keeps offsets
// into them.
//
// ReadSomeAt goes through the page cache of the system, which reads nothing ahead for it: that
// would fetch megabytes that nobody asked for, beside the budget. Only where a file has no direct
// reads, those of 64 KiB and more are read ahead. Whoever reads megabytes goes through
// io/read_queue.h, which uses the other ways to the same bytes that a File may know of: past the
// cache (direct), or from the cache alone (IsCached). A file takes up to three descriptors.
//
// MemoryFile (io/memory_file.h) stands in for a file in tests and fuzzers, FaultyFile
// (io/faulty_file.h) puts the failures of disks into any other File.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

  // A way past the page cache: reads of `descriptor` go from the disk straight into memory, when
  // offset, length and memory are multiples of `alignment`, a power of two.
  struct DirectAccess {
    int descriptor;  // belongs to the File
    uint32_t alignment;
  };
  // Nothing where the file system has no such way, and for files that are in memory anyway.
  virtual std::optional<DirectAccess> direct() const { return std::nullopt; }

  // Whether the page cache holds all of [offset, offset + bytes), found without causing reads;
  // false where the system does not tell, and beyond the end. Only a hint: what is cached now may
  // be gone when it is read. About 0.3 us for 512 KiB where the kernel has cachestat (6.5), 6 to 9
  // where only mincore is to be had.
  virtual bool IsCached([[maybe_unused]] uint64_t offset, [[maybe_unused]] uint64_t bytes) const {
    return false;
  }

  // kCorrupt, naming the file, when its size or the time of its last change is no longer what it
  // was when it was opened: offsets into it have lost their meaning. Another file that took its
  // name is no change; this one is still there. About 0.3 us.
  virtual Result<void> CheckUnchanged() const { return {}; }
};

// Fills all of `out`, in as many reads as it takes. kCorrupt when the file ends before that, with
// the path, the offset, the bytes wanted and the bytes there.
Result<void> ReadExactlyAt(const File& file, uint64_t offset, std::span<std::byte> out);

// Opens a regular file for reading; it is closed with the last reference. kNotFound when there is
// none, kInvalidArgument when it is something else than a file, kIo when the system refuses.
Result<std::shared_ptr<const File>> OpenFile(const std::string& path);

}  // namespace thaw
