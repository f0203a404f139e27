// A fixed set of threads that do the items of one loop at a time.
//
// The thread that calls a loop works too, so a pool of 1 starts no thread. One loop runs at a time;
// a second caller waits its turn. Bodies must not call loops on the same pool.
//
// Every thread has a share of the items, one run of them, and takes those of the others once its
// own are done. So what threads write to claim an item stays with them until the end of a loop:
// between two chiplets of one CPU a line of memory takes some 250 ns from one core to the other.
//
// Costs: a decode step forks and joins a few hundred times, so an idle worker spins for
// kSpinMicroseconds (thread_pool.cc) before it sleeps; waking a sleeping worker takes some 20 us.
// While it spins it yields. A loop ends when its items are done, whether or not every worker has
// woken: where other programs hold the cores, the caller does the work of those that do not come,
// and at worst waits for one that was interrupted within an item.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/function_ref.h"

namespace thaw {

class ThreadPool {
 public:
  // `thread_count` >= 1, the calling thread included.
  explicit ThreadPool(int thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const;

  // Splits [0, count) into runs of `grain` (the last may be shorter), fewer than 2^32 of them, and
  // calls body(begin, end, worker) once for each, worker in [0, thread_count()). Returns when all
  // are done. Every worker begins with as many; which gets which run is not fixed, so results must
  // not depend on it.
  void ParallelFor(int64_t count, int64_t grain,
                   FunctionRef<void(int64_t begin, int64_t end, int worker)> body);

  // Calls body(item, worker) once for each item in [0, share_ends.back()), fewer than 2^32. There
  // are thread_count() + 1 shares, [0, share_ends[0]), [share_ends[0], share_ends[1]), ...: worker
  // i begins with share i; once those of all workers are done or begun, they take turns at the last
  // one. Items of a share are begun in their order.
  void ParallelFor(std::span<const int64_t> share_ends,
                   FunctionRef<void(int64_t item, int worker)> body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Hardware threads this process may run on (its CPU affinity), at least 1.
int AvailableThreads();

}  // namespace thaw
