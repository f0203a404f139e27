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

// What is left to claim of the current loop, in one word. A claim is one exchange of the word, so
// it succeeds only while the loop is open; the fields of the loop are read after it, and the caller
// changes them only once every claimed run is done and no other can be claimed.
struct Ticket {
  uint64_t word;

  static Ticket Make(uint64_t run_count) { return {run_count << 32}; }
  uint64_t run_count() const { return word >> 32; }
  uint64_t next_run() const { return word & 0xffffffff; }
  bool has_run() const { return next_run() < run_count(); }
};

}  // namespace

class ThreadPool::Impl {
 public:
  explicit Impl(int thread_count) : thread_count_(thread_count) {
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

  void Run(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
    const std::lock_guard caller(caller_mutex_);
    const auto run_count = static_cast<uint64_t>((count + grain - 1) / grain);
    THAW_CHECK(run_count <= UINT32_MAX);
    count_ = count;
    grain_ = grain;
    body_ = &body;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(Ticket::Make(run_count).word, std::memory_order_release);
    bool someone_sleeps;
    {
      const std::lock_guard lock(mutex_);
      someone_sleeps = sleepers_ > 0;
    }
    if (someone_sleeps) wake_workers_.notify_all();
    Work(0);
    const auto all_done = [&] { return done_.load(std::memory_order_acquire) == run_count; };
    if (SpinUntil(all_done)) return;
    std::unique_lock lock(mutex_);
    wake_caller_.wait(lock, all_done);
  }

 private:
  bool HasRun() const { return Ticket{ticket_.load(std::memory_order_acquire)}.has_run(); }

  // Does runs of the current loop until none is left to claim.
  void Work(int worker) {
    uint64_t seen = ticket_.load(std::memory_order_acquire);
    while (Ticket{seen}.has_run()) {
      if (!ticket_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      const Ticket claimed{seen};
      const auto begin = static_cast<int64_t>(claimed.next_run()) * grain_;
      (*body_)(begin, std::min(begin + grain_, count_), worker);
      const bool was_last =
          done_.fetch_add(1, std::memory_order_acq_rel) + 1 == claimed.run_count();
      if (was_last && worker != 0) {
        const std::lock_guard lock(
            mutex_);  // so that the caller cannot miss it between look and wait
        wake_caller_.notify_one();
      }
      seen = ticket_.load(std::memory_order_acquire);
    }
  }

  void WorkerLoop(int worker) {
    const auto wanted = [&] { return HasRun() || stopping_.load(std::memory_order_acquire); };
    while (!stopping_.load(std::memory_order_acquire)) {
      if (!SpinUntil(wanted)) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        wake_workers_.wait(lock, wanted);
        --sleepers_;
      }
      Work(worker);
    }
  }

  const int thread_count_;
  std::vector<std::thread> threads_;

  std::mutex caller_mutex_;  // one loop at a time

  // The current loop: written by the caller before ticket_, read after a claim.
  int64_t count_ = 0;
  int64_t grain_ = 1;
  const FunctionRef<void(int64_t, int64_t, int)>* body_ = nullptr;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<uint64_t> done_{0};  // runs of the current loop that are finished

  std::mutex mutex_;  // guards sleeping, not the work
  std::condition_variable wake_workers_;
  std::condition_variable wake_caller_;
  std::atomic<bool> stopping_{false};
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
  impl_->Run(count, grain, body);
}

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace thaw
