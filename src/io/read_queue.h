// Reads ranges of files into memory by the shortest way that each allows, one or several at a time.
//
// What the page cache holds is copied from there (30 GB/s); the rest is read past the cache, from
// the disk straight into the caller's memory; where the file has no such way, or its file system
// refuses it after all, it is read plainly. All three put the same bytes at the same place, so
// callers care only for statistics. Why it is done so: docs/decisions/0004-reading.md.
//
// The caller owns the buffers and the files and keeps both until the request is done. A queue is
// used by one thread at a time, from any thread. Disk rates need requests of 512 KiB and more, 8 in
// flight, into huge pages (base/memory_region.h): 4 KiB pages give a third of the rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "io/file.h"

namespace thaw {

enum class ReadSource {
  kDisk,       // past the page cache
  kPageCache,  // the cache held all of it when the read began
  kBuffered,   // a plain read: from the disk, the cache or some of both
};

struct ReadRequest {
  const File* file;
  uint64_t offset;
  uint64_t bytes;
  // A multiple of ReadAlignment(*file), with room for ReadSpan(offset, bytes, that alignment). The
  // bytes at `offset` land at buffer + offset % alignment; those around them are unspecified.
  std::byte* buffer;
  uint64_t tag;  // comes back with the completion
};

struct ReadCompletion {
  uint64_t tag = 0;
  // As ReadExactlyAt tells it: path, offset, what was wanted and what was found.
  Result<void> outcome = {};
  ReadSource source = ReadSource::kBuffered;
  // Asked of the disk by direct reads, the rounding to the alignment included.
  uint64_t disk_bytes = 0;
  // From Submit (or the start of ReadNow) until the queue learned of the end.
  int64_t nanoseconds = 0;
};

// What buffers, and the payload within them, are placed by: the alignment of direct(), or 64, a
// cache line, where there is none. A power of two.
uint64_t ReadAlignment(const File& file);

// The room that a read takes: from `offset` rounded down to the end rounded up. `alignment` is a
// power of two.
uint64_t ReadSpan(uint64_t offset, uint64_t bytes, uint64_t alignment);

// Reads on this thread and returns when it is done.
ReadCompletion ReadNow(const ReadRequest& request);

class ReadQueue {
 public:
  ReadQueue() = default;
  // Waits for the reads under way: no buffer is written to afterwards. Their completions are
  // dropped.
  virtual ~ReadQueue() = default;
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // "io_uring" or "pread": how `doctor` and the statistics call it.
  virtual std::string_view name() const = 0;
  // The most requests at a time.
  virtual int depth() const = 0;
  // Submitted and not yet handed out by Wait; those that are done count too.
  virtual int pending() const = 0;

  // Takes a request; pending() < depth(). What fails comes back as a completion.
  virtual void Submit(const ReadRequest& request) = 0;

  // Blocks until one of the pending requests is done, whichever comes first; pending() > 0.
  virtual ReadCompletion Wait() = 0;
};

// Direct reads by io_uring, up to `depth` (1 to 4096) in flight. Ranges that are cached, and files
// without direct access, are read at once in Submit. kUnsupported with the reason where the kernel
// refuses: too old (ENOSYS), forbidden in containers (EPERM), memory that may be locked (ENOMEM).
Result<std::unique_ptr<ReadQueue>> CreateUringQueue(int depth);

// One request at a time, read by Submit on the thread that calls it; needs nothing of the kernel.
// Several of them on threads of their own reach .96 to 1.0 of the rate of io_uring.
std::unique_ptr<ReadQueue> CreatePlainQueue();

}  // namespace thaw
