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
#endif
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

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
      stopping_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_workers_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int thread_count() const { return thread_count_; }

  void Run(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
    const std::lock_guard caller(caller_mutex_);
    count_ = count;
    grain_ = grain;
    body_ = &body;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(thread_count_ - 1, std::memory_order_relaxed);
    bool someone_sleeps;
    {
      const std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
      someone_sleeps = sleepers_ > 0;
    }
    if (someone_sleeps) wake_workers_.notify_all();
    Work(0);
    const auto all_done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
    if (SpinUntil(all_done)) return;
    std::unique_lock lock(mutex_);
    wake_caller_.wait(lock, all_done);
  }

 private:
  void Work(int worker) {
    for (;;) {
      const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= count_) return;
      (*body_)(begin, std::min(begin + grain_, count_), worker);
    }
  }

  void WorkerLoop(int worker) {
    uint64_t seen = 0;
    for (;;) {
      const auto new_loop = [&] { return generation_.load(std::memory_order_acquire) != seen; };
      if (!SpinUntil(new_loop)) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        wake_workers_.wait(lock, new_loop);
        --sleepers_;
      }
      seen = generation_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_acquire)) return;
      Work(worker);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(
            mutex_);  // so that the caller cannot miss it between look and wait
        wake_caller_.notify_one();
      }
    }
  }

  const int thread_count_;
  std::vector<std::thread> threads_;

  std::mutex caller_mutex_;  // one loop at a time

  // The current loop: written by the caller before generation_ is raised.
  int64_t count_ = 0;
  int64_t grain_ = 1;
  const FunctionRef<void(int64_t, int64_t, int)>* body_ = nullptr;
  std::atomic<int64_t> next_{0};
  std::atomic<int> busy_{0};  // workers that have not finished the current loop

  std::mutex mutex_;  // guards sleeping, not the work
  std::condition_variable wake_workers_;
  std::condition_variable wake_caller_;
  std::atomic<uint64_t> generation_{0};
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
