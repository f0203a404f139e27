#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace thaw {
namespace {

// Longer than the gaps between two loops of a decode step (sampling and detokenizing excepted),
// short enough that an idle program soon uses no CPU.
constexpr int kSpinMicroseconds = 80;

// Looks between two clock reads; a clock read costs about as much as this many pauses.
constexpr int kLooksPerClockRead = 64;

// Waits until `done()` or until the spin time is over; returns whether `done()`.
template <typename Done>
bool SpinUntil(Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kSpinMicroseconds);
  do {
    for (int i = 0; i < kLooksPerClockRead; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("isb" ::: "memory");  // most cores take `yield` for nothing
#endif
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// What is left to claim of a share of the current loop: its end, and the next item, in one word. A
// claim adds one to it, so it succeeds only while the loop is open; the fields of the loop are read
// after it, and the caller changes them only once every claimed item is done and no other can be
// claimed. On a line of its own, which stays with the thread whose share it is.
class alignas(64) Share {
 public:
  void Open(int64_t begin, int64_t end) {
    word_.store(static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(begin),
                std::memory_order_release);
  }

  // Whether an item was left, which is the caller's then. Looks first: what is done with is not
  // written to again and again.
  bool Claim(int64_t& item) {
    if (!HasItem(word_.load(std::memory_order_relaxed))) return false;
    const uint64_t claimed = word_.fetch_add(1, std::memory_order_acq_rel);
    item = static_cast<int64_t>(claimed & kItemMask);
    return HasItem(claimed);
  }

 private:
  static constexpr uint64_t kItemMask = 0xffffffff;
  static bool HasItem(uint64_t word) { return (word & kItemMask) < word >> 32; }

  std::atomic<uint64_t> word_{0};
};

}  // namespace

class ThreadPool::Impl {
 public:
  explicit Impl(int thread_count)
      : thread_count_(thread_count), shares_(static_cast<size_t>(thread_count) + 1) {
    for (int worker = 1; worker < thread_count; ++worker) {
      threads_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_.store(true, std::memory_order_release);
    }
    wake_workers_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int thread_count() const { return thread_count_; }

  // end_of(i) is where share i ends.
  template <typename EndOf>
  void Run(const EndOf& end_of, FunctionRef<void(int64_t, int)> body) {
    const std::lock_guard caller(caller_mutex_);
    const int64_t item_count = end_of(thread_count_);
    THAW_CHECK(item_count < int64_t{1} << 32);
    item_count_ = item_count;
    body_ = &body;
    done_.store(0, std::memory_order_relaxed);
    int64_t begin = 0;
    for (int share = 0; share <= thread_count_; ++share) {
      const int64_t end = end_of(share);
      THAW_CHECK(begin <= end && end <= item_count);
      shares_[static_cast<size_t>(share)].Open(begin, end);
      begin = end;
    }
    loops_.fetch_add(1, std::memory_order_release);
    bool someone_sleeps;
    {
      const std::lock_guard lock(mutex_);
      someone_sleeps = sleepers_ > 0;
    }
    if (someone_sleeps) wake_workers_.notify_all();
    Work(0);
    const auto all_done = [&] { return done_.load(std::memory_order_acquire) == item_count; };
    if (SpinUntil(all_done)) return;
    std::unique_lock lock(mutex_);
    wake_caller_.wait(lock, all_done);
  }

 private:
  // Does items of the current loop until none is left to claim. They are counted together at the
  // end; until then the loop cannot be over.
  void Work(int worker) {
    int64_t done = 0;
    const auto do_share = [&](int share) {
      int64_t item;
      while (shares_[static_cast<size_t>(share)].Claim(item)) {
        (*body_)(item, worker);
        ++done;
      }
    };
    for (int i = 0; i < thread_count_; ++i) do_share((worker + i) % thread_count_);
    do_share(thread_count_);
    if (done == 0) return;
    const int64_t item_count = item_count_;
    if (done_.fetch_add(done, std::memory_order_acq_rel) + done == item_count && worker != 0) {
      const std::lock_guard lock(
          mutex_);  // so that the caller cannot miss it between look and wait
      wake_caller_.notify_one();
    }
  }

  void WorkerLoop(int worker) {
    uint64_t seen = 0;
    const auto wanted = [&] {
      return loops_.load(std::memory_order_acquire) != seen ||
             stopping_.load(std::memory_order_acquire);
    };
    while (!stopping_.load(std::memory_order_acquire)) {
      if (!SpinUntil(wanted)) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        wake_workers_.wait(lock, wanted);
        --sleepers_;
      }
      seen = loops_.load(std::memory_order_acquire);
      Work(worker);
    }
  }

  const int thread_count_;
  std::vector<std::thread> threads_;

  std::mutex caller_mutex_;  // one loop at a time

  // The current loop: written by the caller before its shares are opened, read after a claim.
  // Workers find it on the line on which they see that there is a new one.
  alignas(64) const FunctionRef<void(int64_t, int)>* body_ = nullptr;
  int64_t item_count_ = 0;
  std::atomic<uint64_t> loops_{0};  // begun so far
  std::atomic<bool> stopping_{false};
  std::vector<Share> shares_;  // of the workers, and everybody's

  alignas(64) std::atomic<int64_t> done_{0};  // items of the current loop that are finished

  alignas(64) std::mutex mutex_;  // guards sleeping, not the work
  std::condition_variable wake_workers_;
  std::condition_variable wake_caller_;
  int sleepers_ = 0;
};

ThreadPool::ThreadPool(int thread_count) {
  THAW_CHECK(thread_count >= 1);
  impl_ = std::make_unique<Impl>(thread_count);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::thread_count() const { return impl_->thread_count(); }

void ThreadPool::ParallelFor(int64_t count, int64_t grain,
                             FunctionRef<void(int64_t, int64_t, int)> body) {
  THAW_CHECK(grain >= 1);
  if (count <= 0) return;
  if (impl_->thread_count() == 1 || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      body(begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  const int64_t threads = impl_->thread_count();
  const int64_t runs = (count + grain - 1) / grain;
  impl_->Run([&](int64_t share) { return runs * std::min(share + 1, threads) / threads; },
             [&](int64_t run, int worker) {
               body(run * grain, std::min((run + 1) * grain, count), worker);
             });
}

void ThreadPool::ParallelFor(std::span<const int64_t> share_ends,
                             FunctionRef<void(int64_t item, int worker)> body) {
  THAW_CHECK(std::ssize(share_ends) == impl_->thread_count() + 1);
  if (impl_->thread_count() == 1 || share_ends.back() <= 1) {
    for (int64_t item = 0; item < share_ends.back(); ++item) body(item, 0);
    return;
  }
  impl_->Run([&](int share) { return share_ends[static_cast<size_t>(share)]; }, body);
}

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace thaw
