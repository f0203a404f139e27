// One read past the page cache, as far as it has come: which piece to ask for next, and what an
// answer of the kernel means. How the pieces are asked for (pread, io_uring) is its user's matter.
//
//   kPending  --Take: a part of it, or interrupted--> kPending
//             --Take: all of the payload--> kComplete
//             --Take: anything else--> kRefused: the request goes through ReadThroughCache
//
// A refused read may be one that direct I/O cannot do (EINVAL of file systems that lie, the tail of
// a file, no kernel memory) or a real failure; the plain read decides and names the error, so that
// both ways tell the same. A value for one thread; the memory is the request's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/read_queue.h"

namespace thaw {

class DirectRead {
 public:
  enum class State { kPending, kComplete, kRefused };

  DirectRead() = default;
  // `request` has at least one byte.
  DirectRead(const ReadRequest& request, const File::DirectAccess& access);

  // The piece to ask for next; offset, size and memory are aligned.
  int descriptor() const { return access_.descriptor; }
  uint64_t offset() const { return begin_ + done_bytes_; }
  uint32_t bytes() const;
  std::byte* memory() const { return request_.buffer + done_bytes_; }

  // What the kernel answered to that piece: a count of bytes, or a negated errno.
  State Take(int64_t answer);

  const ReadRequest& request() const { return request_; }
  // What the disk has given so far, in whole blocks.
  uint64_t disk_bytes() const { return disk_bytes_; }

 private:
  ReadRequest request_ = {};
  File::DirectAccess access_ = {};
  uint64_t begin_ = 0;  // of the first piece, in the file; the rest counts from here
  uint64_t payload_end_ = 0;
  uint64_t span_bytes_ = 0;
  uint64_t done_bytes_ = 0;  // a multiple of the alignment
  uint64_t disk_bytes_ = 0;
};

// Reads the payload to its place in the request's buffer by the file's own ReadSomeAt.
Result<void> ReadThroughCache(const ReadRequest& request);

}  // namespace thaw
