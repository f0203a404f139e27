#include "base/thread_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace thaw {
namespace {

class ThreadPoolOf : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, VisitsEveryIndexOnce) {
  ThreadPool pool(GetParam());
  for (const int64_t count : {0, 1, 2, 7, 100, 1001}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int worker) {
        ASSERT_LE(end - begin, grain);
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, GetParam());
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& v : visits) EXPECT_EQ(v.load(), 1);
    }
  }
}

TEST_P(ThreadPoolOf, VisitsEveryItemOfAnySharesOnce) {
  const int threads = GetParam();
  ThreadPool pool(threads);
  for (int pattern = 0; pattern < 8; ++pattern) {
    // Shares of none, of one and of many items; the last one is everybody's.
    std::vector<int64_t> ends;
    int64_t end = 0;
    for (int share = 0; share <= threads; ++share) {
      end += std::vector<int64_t>{0, 1, 40}[static_cast<size_t>(share + pattern) % 3];
      ends.push_back(pattern == 7 ? 0 : end);
    }
    std::vector<std::atomic<int>> visits(static_cast<size_t>(ends.back()));
    pool.ParallelFor(ends, [&](int64_t item, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, threads);
      ++visits[static_cast<size_t>(item)];
    });
    for (const auto& v : visits) EXPECT_EQ(v.load(), 1);
  }
}

TEST_P(ThreadPoolOf, EveryWorkerBeginsWithItsShareAndHelpsWithTheOthers) {
  const int threads = GetParam();
  ThreadPool pool(threads);
  std::vector<int64_t> ends(static_cast<size_t>(threads) + 1);
  for (int share = 0; share < threads; ++share) ends[static_cast<size_t>(share)] = 2 * (share + 1);
  ends.back() = 2 * threads;
  // The first item of every share waits until all have begun, that of share 0 until all others are
  // done too: so the second one of share 0 is left to those who come to help.
  std::atomic<int> begun{0};
  std::atomic<int> done{0};
  std::vector<int> worker_of(static_cast<size_t>(2 * threads));
  pool.ParallelFor(ends, [&](int64_t item, int worker) {
    worker_of[static_cast<size_t>(item)] = worker;
    if (item % 2 == 0) {
      ++begun;
      while (begun < threads) std::this_thread::yield();
    }
    if (item == 0 && threads > 1) {
      while (done < 2 * threads - 1) std::this_thread::yield();
    }
    ++done;
  });
  for (int share = 0; share < threads; ++share) {
    EXPECT_EQ(worker_of[static_cast<size_t>(2 * share)], share);
  }
  if (threads > 1) {
    EXPECT_NE(worker_of[1], 0);
  }
}

TEST_P(ThreadPoolOf, SurvivesManyShortLoopsAndPauses) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 300; ++round) {
    pool.ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    // Long enough that workers fall asleep now and then.
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(sum.load(), 300 * 28);
}

TEST_P(ThreadPoolOf, TwoCallersTakeTurns) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  const auto call = [&] {
    for (int round = 0; round < 50; ++round) {
      pool.ParallelFor(10, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum.load(), 1000);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, ::testing::Values(1, 2, 5));

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(AvailableThreads(), 1); }

}  // namespace
}  // namespace thaw
