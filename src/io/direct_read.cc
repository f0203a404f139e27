#include "io/direct_read.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace thaw {
namespace {

// One call of the kernel reads less than 2 GiB; this is a multiple of every alignment below that.
constexpr uint64_t kMostBytesPerPiece = uint64_t{1} << 30;

}  // namespace

DirectRead::DirectRead(const ReadRequest& request, const File::DirectAccess& access)
    : request_(request),
      access_(access),
      begin_(request.offset - request.offset % access.alignment),
      payload_end_(request.offset % access.alignment + request.bytes),
      span_bytes_(ReadSpan(request.offset, request.bytes, access.alignment)) {
  THAW_CHECK(request.bytes > 0);
  THAW_CHECK(reinterpret_cast<uintptr_t>(request.buffer) % access.alignment == 0);
}

uint32_t DirectRead::bytes() const {
  return static_cast<uint32_t>(std::min(span_bytes_ - done_bytes_, kMostBytesPerPiece));
}

DirectRead::State DirectRead::Take(int64_t answer) {
  if (answer == -EINTR) return State::kPending;
  if (answer <= 0) return State::kRefused;
  const auto got_bytes = static_cast<uint64_t>(answer);
  disk_bytes_ += ReadSpan(0, got_bytes, access_.alignment);
  if (done_bytes_ + got_bytes >= payload_end_) return State::kComplete;
  // The end of the file is the one place where a direct read stops within a block.
  if (got_bytes % access_.alignment != 0) return State::kRefused;
  done_bytes_ += got_bytes;
  return State::kPending;
}

Result<void> ReadThroughCache(const ReadRequest& request) {
  std::byte* payload = request.buffer + request.offset % ReadAlignment(*request.file);
  return ReadExactlyAt(*request.file, request.offset, {payload, request.bytes});
}

}  // namespace thaw
