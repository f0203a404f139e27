#include "io/read_queue.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "io/direct_read.h"

namespace thaw {
namespace {

// Where direct reads set no rule, the payload keeps its place within a cache line of the x86.
constexpr uint64_t kCacheLineBytes = 64;

int64_t NanosecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

// Fills in all but the time.
ReadCompletion ReadSomehow(const ReadRequest& request) {
  ReadCompletion completion = {.tag = request.tag};
  if (request.file->IsCached(request.offset, request.bytes)) {
    completion.source = ReadSource::kPageCache;
    completion.outcome = ReadThroughCache(request);
    return completion;
  }
  const auto access = request.file->direct();
  if (access && request.bytes > 0) {
    DirectRead read(request, *access);
    auto state = DirectRead::State::kPending;
    while (state == DirectRead::State::kPending) {
      const ssize_t got = ::pread(read.descriptor(), read.memory(), read.bytes(),
                                  static_cast<off_t>(read.offset()));
      state = read.Take(got >= 0 ? got : -errno);
    }
    completion.disk_bytes = read.disk_bytes();
    if (state == DirectRead::State::kComplete) {
      completion.source = ReadSource::kDisk;
      return completion;
    }
  }
  completion.source = ReadSource::kBuffered;
  completion.outcome = ReadThroughCache(request);
  return completion;
}

class PlainQueue final : public ReadQueue {
 public:
  std::string_view name() const override { return "pread"; }
  int depth() const override { return 1; }
  int pending() const override { return done_ ? 1 : 0; }

  void Submit(const ReadRequest& request) override {
    THAW_CHECK(!done_);
    done_ = ReadNow(request);
  }

  ReadCompletion Wait() override {
    THAW_CHECK(done_);
    return *std::exchange(done_, std::nullopt);
  }

 private:
  std::optional<ReadCompletion> done_;
};

}  // namespace

uint64_t ReadAlignment(const File& file) {
  const auto access = file.direct();
  return access ? access->alignment : kCacheLineBytes;
}

uint64_t ReadSpan(uint64_t offset, uint64_t bytes, uint64_t alignment) {
  return RoundUp(offset % alignment + bytes, alignment);
}

ReadCompletion ReadNow(const ReadRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  ReadCompletion completion = ReadSomehow(request);
  completion.nanoseconds = NanosecondsSince(start);
  return completion;
}

std::unique_ptr<ReadQueue> CreatePlainQueue() { return std::make_unique<PlainQueue>(); }

}  // namespace thaw
