#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/system_message.h"
#include "io/direct_read.h"
#include "io/read_queue.h"

namespace thaw {
namespace {

using Clock = std::chrono::steady_clock;

// The most entries that every kernel with io_uring gives (IORING_MAX_ENTRIES is 32768 by now).
constexpr int kMostDepth = 4096;

// Each direct read has a slot, whose index the kernel carries as user data. Buffers are not
// registered: it gained nothing and fails beyond the limit of locked memory (8 MiB for ordinary
// users).
class UringQueue final : public ReadQueue {
 public:
  // Takes over the ring.
  UringQueue(const io_uring& ring, int depth) : ring_(ring), slots_(static_cast<size_t>(depth)) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) free_slots_.push_back(slot);
  }

  ~UringQueue() override {
    while (in_flight() > 0) {
      const Answer answer = AwaitAnswer();
      if (answer.slot != kNoSlot) free_slots_.push_back(answer.slot);
    }
    io_uring_queue_exit(&ring_);
  }

  std::string_view name() const override { return "io_uring"; }
  int depth() const override { return static_cast<int>(slots_.size()); }
  int pending() const override { return static_cast<int>(in_flight() + done_.size()); }

  void Submit(const ReadRequest& request) override {
    THAW_CHECK(pending() < depth());
    const auto access = request.file->direct();
    if (!access || request.bytes == 0 || request.file->IsCached(request.offset, request.bytes)) {
      done_.push_back(ReadNow(request));
      return;
    }
    const uint64_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = {DirectRead(request, *access), Clock::now()};
    Ask(slot);
  }

  ReadCompletion Wait() override {
    THAW_CHECK(pending() > 0);
    while (done_.empty()) {
      const Answer answer = AwaitAnswer();
      if (answer.slot == kNoSlot) continue;
      const DirectRead::State state = slots_[answer.slot].read.Take(answer.result);
      if (state == DirectRead::State::kPending) {
        Ask(answer.slot);
      } else {
        Finish(answer.slot, state);
      }
    }
    ReadCompletion completion = std::move(done_.front());
    done_.pop_front();
    return completion;
  }

 private:
  // Of an entry that asks for nothing.
  static constexpr uint64_t kNoSlot = UINT64_MAX;

  struct Slot {
    DirectRead read;
    Clock::time_point start;
  };
  struct Answer {
    uint64_t slot;
    int64_t result;
  };

  size_t in_flight() const { return slots_.size() - free_slots_.size(); }

  // Hands the slot's next piece to the kernel.
  void Ask(uint64_t slot) {
    const DirectRead& read = slots_[slot].read;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry != nullptr) {
      io_uring_prep_read(entry, read.descriptor(), read.memory(), read.bytes(), read.offset());
      io_uring_sqe_set_data64(entry, slot);
      io_uring_submit(&ring_);
      if (io_uring_sq_ready(&ring_) == 0) return;
      // The kernel took nothing (no memory for the request, as at the limit of a memory cgroup).
      // The entry stays in the ring until it can; by then it must not write to the buffer.
      io_uring_prep_nop(entry);
      io_uring_sqe_set_data64(entry, kNoSlot);
    }
    Finish(slot, DirectRead::State::kRefused);
  }

  Answer AwaitAnswer() {
    io_uring_cqe* entry = nullptr;
    int error = 0;
    do {
      error = io_uring_wait_cqe(&ring_, &entry);
    } while (error == -EINTR || error == -EAGAIN);
    // All others say that the ring itself is not one.
    THAW_CHECK(error == 0);
    const Answer answer = {io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return answer;
  }

  // Moves the slot's read, complete or refused, to those that are done.
  void Finish(uint64_t slot, DirectRead::State state) {
    const DirectRead& read = slots_[slot].read;
    ReadCompletion completion = {.tag = read.request().tag, .disk_bytes = read.disk_bytes()};
    if (state == DirectRead::State::kComplete) {
      completion.source = ReadSource::kDisk;
    } else {
      completion.outcome = ReadThroughCache(read.request());
    }
    completion.nanoseconds = std::chrono::nanoseconds(Clock::now() - slots_[slot].start).count();
    done_.push_back(std::move(completion));
    free_slots_.push_back(slot);
  }

  io_uring ring_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_slots_;
  std::deque<ReadCompletion> done_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> CreateUringQueue(int depth) {
  THAW_CHECK(depth >= 1 && depth <= kMostDepth);
  io_uring ring = {};
  // Completions are worked off when the thread is in the kernel anyway, instead of by an interrupt
  // of what it computes (Linux 5.19). SINGLE_ISSUER with DEFER_TASKRUN would tie the queue to one
  // thread for life, its destruction included, and gained nothing at some thousand reads a second.
  int error = io_uring_queue_init(static_cast<unsigned>(depth), &ring, IORING_SETUP_COOP_TASKRUN);
  if (error == -EINVAL) error = io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0);
  if (error != 0) {
    return Fail(ErrorCode::kUnsupported, "io_uring cannot be used: {}", SystemMessage(-error));
  }
  return std::make_unique<UringQueue>(ring, depth);
}

}  // namespace thaw
