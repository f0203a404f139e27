#include "io/faulty_file.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"

namespace thaw {

FaultyFile::FaultyFile(std::shared_ptr<const File> file, FileFaults faults)
    : file_(std::move(file)), faults_(faults) {
  THAW_CHECK(faults_.most_bytes_per_read > 0);
}

Result<size_t> FaultyFile::ReadSomeAt(uint64_t offset, std::span<std::byte> out) const {
  ++read_count_;
  if (faults_.delay.count() > 0) std::this_thread::sleep_for(faults_.delay);

  out = out.first(std::min(out.size(), faults_.most_bytes_per_read));
  if (faults_.truncated_to) {
    const uint64_t left = *faults_.truncated_to - std::min(offset, *faults_.truncated_to);
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), left)));
  }
  if (faults_.broken_byte && offset <= *faults_.broken_byte &&
      out.size() > *faults_.broken_byte - offset) {
    return Fail(ErrorCode::kIo, "{}: reading {} bytes at offset {} failed: Input/output error",
                path(), out.size(), offset);
  }

  THAW_ASSIGN(const size_t got, file_->ReadSomeAt(offset, out));
  bytes_read_ += got;
  uint64_t farthest = farthest_end_;
  while (farthest < offset + got && !farthest_end_.compare_exchange_weak(farthest, offset + got)) {
  }
  return got;
}

}  // namespace thaw
