#include "residency/shared_pin.h"

#include <gmock/gmock.h>

#include <barrier>
#include <thread>

#include "residency/cache_test_support.h"

namespace thaw {
namespace {

constexpr int kThreads = 4;

// Every thread enters and leaves every tile of each pass; how often on_error was called.
int RunShared(WeightCache& cache, const TestModel& model, int passes, std::atomic<int>& wrong) {
  const int32_t tiles = cache.map().tile_count();
  std::vector<SharedPin> pins(static_cast<size_t>(tiles));
  std::atomic<int> errors{0};
  std::barrier pass_end(kThreads + 1);
  const auto work = [&] {
    for (int pass = 0; pass < passes; ++pass) {
      pass_end.arrive_and_wait();
      for (int32_t tile = 0; tile < tiles; ++tile) {
        SharedPin& pin = pins[static_cast<size_t>(tile)];
        const std::byte* data = pin.Enter(cache, [&](const Error&) { ++errors; });
        const uint64_t bytes = cache.map().tile(tile).bytes;
        if (data != nullptr && !model.IsExpected(cache, tile, {data, bytes})) ++wrong;
        if (data == nullptr) ++wrong;
        pin.Leave();
      }
      pass_end.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (int pass = 0; pass < passes; ++pass) {
    for (int32_t tile = 0; tile < tiles; ++tile) {
      pins[static_cast<size_t>(tile)].Start(tile, kThreads);
    }
    EXPECT_TRUE(cache.BeginPass(tiles));
    pass_end.arrive_and_wait();
    pass_end.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(SharedPin, ManyThreadsVisitEachTileOnceInAPass) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(4));
  for (const uint64_t capacity : {uint64_t{2} << 20, WeightCacheOptions::kUnlimited}) {
    const auto cache = model.Cache({.capacity_bytes = capacity});
    std::atomic<int> wrong{0};
    EXPECT_EQ(RunShared(*cache, model, 5, wrong), 0);
    EXPECT_EQ(wrong, 0);
    const CacheStatistics s = cache->Statistics();
    EXPECT_EQ(s.hits + s.misses, 5 * static_cast<uint64_t>(cache->map().tile_count()));
    EXPECT_EQ(s.pinned_bytes, 0);
  }
}

TEST(SharedPin, AnErrorIsToldOnceAndNobodyGetsData) {
  const Watchdog watchdog;
  TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  const int32_t broken = 3;
  model.file().SetFaults({.broken_byte = cache->map().tile(broken).offset + 9});
  std::atomic<int> without_data{0};
  EXPECT_EQ(RunShared(*cache, model, 3, without_data), 3);
  EXPECT_EQ(without_data, 3 * kThreads);
  EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
}

TEST(SharedPin, HoldsTheTileUntilTheLastPartLeaves) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  SharedPin pin;
  pin.Start(1, 2);
  const auto no_error = [](const Error& error) { ADD_FAILURE() << error.message; };
  EXPECT_NE(pin.Enter(*cache, no_error), nullptr);
  EXPECT_NE(pin.Enter(*cache, no_error), nullptr);
  pin.Leave();
  EXPECT_EQ(cache->Statistics().pinned_bytes, cache->map().tile(1).bytes);
  pin.Leave();
  EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
}

}  // namespace
}  // namespace thaw
