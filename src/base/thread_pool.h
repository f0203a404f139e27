// A fixed set of threads that run the parts of one loop at a time.
//
// The thread that calls ParallelFor works too, so a pool of 1 starts no thread. One ParallelFor
// runs at a time; a second caller waits its turn. Bodies must not call ParallelFor on the same
// pool.
//
// Costs: a decode step forks and joins a few hundred times, so an idle worker spins for
// kSpinMicroseconds (thread_pool.cc) before it sleeps; waking a sleeping worker takes some 20 us.
// While it spins it yields. A loop ends when its runs are done, whether or not every worker has
// woken: where other programs hold the cores, the caller does the work of those that do not come,
// and at worst waits for one that was interrupted within a run.
#pragma once

#include <cstdint>
#include <memory>

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
  // are done. Which worker gets which run is not fixed, so results must not depend on it.
  void ParallelFor(int64_t count, int64_t grain,
                   FunctionRef<void(int64_t begin, int64_t end, int worker)> body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Hardware threads this process may run on (its CPU affinity), at least 1.
int AvailableThreads();

}  // namespace thaw
