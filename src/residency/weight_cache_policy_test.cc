// What every policy must hold, run over all of them, and what each alone promises.
#include <gmock/gmock.h>

#include <set>

#include "base/memory_region.h"
#include "residency/cache_test_support.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr int kFar = WeightCacheOptions::kFarAhead;

class EveryPolicy : public ::testing::TestWithParam<const Policy*> {};

std::string NameOf(const ::testing::TestParamInfo<const Policy*>& info) {
  std::string name(info.param->name());
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::ValuesIn(AllPolicies()), NameOf);

// Whole passes, one that ends early, one that skips every third tile, one that breaks off in the
// middle, and one that starts anew.
void RunUnsteadyPasses(WeightCache& cache, const TestModel& model, int threads) {
  const int32_t tiles = cache.map().tile_count();
  RunPass(cache, model, threads);
  ASSERT_TRUE(cache.BeginPass(tiles - 2));
  Visit(cache, model, TilesOf(0, tiles - 2), threads);
  ASSERT_TRUE(cache.BeginPass(tiles));
  std::vector<int32_t> some = TilesOf(0, tiles);
  std::erase_if(some, [](int32_t tile) { return tile % 3 == 1; });
  Visit(cache, model, some, threads);
  ASSERT_TRUE(cache.BeginPass(tiles));
  Visit(cache, model, TilesOf(0, tiles / 2), threads);
  RunPass(cache, model, threads);
  EXPECT_EQ(cache.Statistics().pinned_bytes, 0);
  EXPECT_LE(cache.Statistics().resident_bytes, cache.capacity_bytes());
}

// Over every capacity, each way of reading and each reach of reading ahead.
void RunEveryConfiguration(const Policy& policy, const TestModel& model, int visiting_threads) {
  const Watchdog watchdog;
  const uint64_t full = FullCapacity(model.Map(), policy);
  for (uint64_t capacity = LeastCapacity(model, policy); capacity <= full;
       capacity += kHugePageBytes) {
    for (const int prefetch_ahead : {0, 1, 2, kFar}) {
      for (const bool synchronous : {false, true}) {
        for (const int io_threads : {1, 2}) {
          for (const bool use_uring : {false, true}) {
            SCOPED_TRACE(fmt::format("capacity {}, ahead {}, synchronous {}, threads {}, uring {}",
                                     capacity, prefetch_ahead, synchronous, io_threads, use_uring));
            const auto cache = model.Cache({.capacity_bytes = capacity,
                                            .policy = &policy,
                                            .prefetch_ahead = prefetch_ahead,
                                            .synchronous_prefetch = synchronous,
                                            .io_threads = io_threads,
                                            .use_uring = use_uring});
            RunUnsteadyPasses(*cache, model, visiting_threads);
          }
        }
      }
    }
  }
}

TEST_P(EveryPolicy, PinsTheBytesOfTheFileFromOneThread) {
  const TemporaryDirectory folder;
  RunEveryConfiguration(*GetParam(), TestModel(LayeredShapes(4), folder), 1);
}

TEST_P(EveryPolicy, PinsTheBytesOfTheFileFromThreeThreads) {
  const TemporaryDirectory folder;
  RunEveryConfiguration(*GetParam(), TestModel(LayeredShapes(4), folder), 3);
}

TEST_P(EveryPolicy, LeavesPinnedTilesWhereTheyAre) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const auto cache =
      model.Cache({.capacity_bytes = LeastCapacity(model, *GetParam()), .policy = GetParam()});
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  const auto held = cache->Pin(5);
  ASSERT_TRUE(held);
  const std::byte* data = held->data().data();
  for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  EXPECT_EQ(held->data().data(), data);
  EXPECT_TRUE(model.IsExpected(*cache, 5, held->data()));
}

TEST_P(EveryPolicy, NeverHoldsMoreThanItsCapacity) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const uint64_t full = FullCapacity(model.Map(), *GetParam());
  for (uint64_t capacity = LeastCapacity(model, *GetParam()); capacity <= full;
       capacity += kHugePageBytes) {
    const auto cache = model.Cache({.capacity_bytes = capacity, .policy = GetParam()});
    cache->SetTrace([&](const VisitEvent& event) {
      EXPECT_LE(event.resident_bytes, capacity);
      EXPECT_EQ(event.capacity_bytes, capacity);
    });
    for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  }
}

TEST_P(EveryPolicy, ButOffHitsEverythingWhenEverythingFits) {
  const TestModel model(LayeredShapes(4));
  const auto cache = model.Cache({.policy = GetParam()});
  RunPass(*cache, model);
  const CountedSince since(*cache);
  for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  const uint64_t passes_read = GetParam() == &OffPolicy() ? 3 : 0;
  EXPECT_EQ(since.miss_bytes(), passes_read * cache->map().weight_bytes());
}

TEST_P(EveryPolicy, NeverLetsPinnedWeightsGo) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const uint64_t capacity =
      GetParam() == &KeepAllPolicy() ? WeightCacheOptions::kUnlimited : 4 << 20;
  const auto cache =
      model.Cache({.capacity_bytes = capacity, .policy = GetParam(), .pinned = {"blk.3.*"}});
  RunPass(*cache, model);
  std::set<int32_t> pinned;
  const std::vector<char> by_name = cache->pinned_tiles();
  cache->SetTrace([&](const VisitEvent& event) {
    if (by_name[static_cast<size_t>(event.tile)] == 0) return;
    EXPECT_TRUE(event.hit) << event.matrix;
    pinned.insert(event.tile);
  });
  for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  EXPECT_EQ(pinned.size(), 3);
  // More of them, while the cache is in use.
  cache->SetTrace({});
  const auto report = cache->PinMatrices(cache->FindMatrices("output"));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->tiles, 1);
  RunPass(*cache, model);
  const int32_t output = cache->map().tile_count() - 1;
  for (int pass = 0; pass < 2; ++pass) {
    RunPass(*cache, model);
    EXPECT_TRUE(cache->PinIfResident(output));
  }
}

TEST_P(EveryPolicy, RefusesToPinWhatDoesNotFitAndChangesNothing) {
  const TestModel model(LayeredShapes(8));
  // Where everything has a place, everything can be pinned.
  if (GetParam() == &KeepAllPolicy()) {
    const auto cache = model.Cache({.policy = GetParam()});
    EXPECT_TRUE(cache->PinMatrices(cache->FindMatrices("*")));
    return;
  }
  const auto cache = model.Cache({.capacity_bytes = 4 << 20, .policy = GetParam()});
  RunPass(*cache, model);
  const std::vector<char> pinned = cache->pinned_tiles();
  const CacheStatistics before = cache->Statistics();
  const auto refused = cache->PinMatrices(cache->FindMatrices("blk.*"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(cache->pinned_tiles(), pinned);
  EXPECT_EQ(cache->Statistics().shares.resident_bytes, before.shares.resident_bytes);
  EXPECT_EQ(cache->Statistics().slot_bytes, before.slot_bytes);
}

TEST_P(EveryPolicy, NamesAPinnedPatternThatMatchesNothing) {
  const TestModel model(LayeredShapes(2));
  const auto cache =
      WeightCache::Create(model.Map(), {.policy = GetParam(), .pinned = {"output", "blk.9.*"}});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(cache.error().message, HasSubstr("'blk.9.*'"));
}

TEST(PlannedCache, MissesExactlyTheStreamedBytesInEveryPassAfterTheFirst) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const TileMap map = model.Map();
  const std::vector<char> none(static_cast<size_t>(map.tile_count()), 0);
  const std::vector<TileUse> unseen(none.size());
  for (const uint64_t mebibytes : {2, 4, 6, 8, 10}) {
    const auto targets = ChoosePlacement(map, PlannedPolicy(), unseen, none, mebibytes << 20);
    ASSERT_TRUE(targets);
    for (const int prefetch_ahead : {0, 1, kFar}) {
      const auto cache =
          model.Cache({.capacity_bytes = mebibytes << 20, .prefetch_ahead = prefetch_ahead});
      RunPass(*cache, model);
      const CountedSince all(*cache);
      constexpr int kPasses = 5;
      for (int pass = 0; pass < kPasses; ++pass) {
        const CountedSince since(*cache);
        RunPass(*cache, model);
        EXPECT_EQ(since.miss_bytes(), targets->shares.streamed_bytes);
      }
      // Reads ahead of the pass that follows come before and after.
      EXPECT_LE(all.bytes_read(), kPasses * targets->shares.streamed_bytes + targets->slot_bytes);
      EXPECT_GE(all.bytes_read() + targets->slot_bytes, kPasses * targets->shares.streamed_bytes);
      const CacheStatistics s = cache->Statistics();
      EXPECT_EQ(PlacedBytes(*cache), targets->shares.resident_bytes);
      EXPECT_EQ(s.shares.resident_bytes, targets->shares.resident_bytes);
      EXPECT_EQ(s.slot_bytes, targets->slot_bytes);
      const uint64_t hit_bytes = kPasses * s.weight_bytes - all.miss_bytes();
      EXPECT_DOUBLE_EQ(
          static_cast<double>(hit_bytes) / static_cast<double>(kPasses * s.weight_bytes),
          s.shares.HitRateBytes());
    }
  }
}

TEST(LruCache, HitsNothingInACycleThatIsLongerThanItsCapacity) {
  const Watchdog watchdog;
  const TestModel model(EqualShapes(17));
  for (const uint64_t mebibytes : {2, 4, 6, 8}) {
    for (const int prefetch_ahead : {0, 2, kFar}) {
      const auto cache = model.Cache({.capacity_bytes = mebibytes << 20,
                                      .policy = &LruPolicy(),
                                      .prefetch_ahead = prefetch_ahead});
      for (int pass = 0; pass < 4; ++pass) RunPass(*cache, model);
      EXPECT_EQ(cache->Statistics().hits, 0) << mebibytes << " MiB, ahead " << prefetch_ahead;
    }
  }
}

// Of twelve tiles four fit at a time: a little less than 512 KiB each, because what a file puts
// before them comes along.
std::set<int32_t> ResidentAfter(const Policy& policy, std::span<const int32_t> visits) {
  const TestModel model(EqualShapes(12, (512 << 10) - 4096));
  const auto cache =
      model.Cache({.capacity_bytes = 2 << 20, .policy = &policy, .prefetch_ahead = 0});
  EXPECT_TRUE(cache->BeginPass(12));
  Visit(*cache, model, visits);
  std::set<int32_t> resident;
  for (int32_t tile = 0; tile < 12; ++tile) {
    if (cache->PinIfResident(tile)) resident.insert(tile);
  }
  return resident;
}

TEST(LruCache, LetsTheLeastRecentlyVisitedGoFirst) {
  const std::vector<int32_t> visits = {9, 3, 7, 1, 3, 5, 9, 11};
  // Four slots: {9 3 7 1}, 3 again, 5 for 9, 9 for 7, 11 for 1.
  EXPECT_THAT(ResidentAfter(LruPolicy(), visits), ::testing::ElementsAre(3, 5, 9, 11));
}

TEST(MruCache, LetsTheMostRecentlyVisitedGoFirst) {
  const std::vector<int32_t> visits = {9, 3, 7, 1, 3, 5, 9, 11};
  // {9 3 7 1}, 3 again, 5 for 3, 9 again, 11 for 9.
  EXPECT_THAT(ResidentAfter(MruPolicy(), visits), ::testing::ElementsAre(1, 5, 7, 11));
}

TEST(LruCache, KeepsItsTilesWhenItIsGivenTheCapacityThatItHas) {
  const TestModel model(EqualShapes(17));
  const auto cache =
      model.Cache({.capacity_bytes = 6 << 20, .policy = &LruPolicy(), .prefetch_ahead = 0});
  RunPass(*cache, model);
  const CacheStatistics before = cache->Statistics();
  ASSERT_GT(before.resident_bytes, 0);
  ASSERT_TRUE(cache->SetCapacity((6 << 20) + 4096));  // no huge page more
  ASSERT_TRUE(cache->Optimize());
  EXPECT_EQ(cache->Statistics().resident_bytes, before.resident_bytes);
}

TEST(MruCache, HitsInACycleThatIsLongerThanItsCapacity) {
  const TestModel model(EqualShapes(17));
  for (const int prefetch_ahead : {0, 1, kFar}) {
    const auto cache = model.Cache(
        {.capacity_bytes = 6 << 20, .policy = &MruPolicy(), .prefetch_ahead = prefetch_ahead});
    for (int pass = 0; pass < 6; ++pass) RunPass(*cache, model);
    EXPECT_GT(cache->Statistics().hits, 0) << prefetch_ahead;
  }
}

TEST(OffCache, HitsNothingEvenWhenEverythingFits) {
  const TestModel model(LayeredShapes(4));
  const auto cache = model.Cache({.policy = &OffPolicy()});
  for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  EXPECT_EQ(cache->Statistics().hits, 0);
  EXPECT_EQ(cache->Statistics().miss_bytes, 3 * cache->map().weight_bytes());
}

// Passes that visit tiles 0 to 2 and one other each time.
void VisitFrequentAndOthers(WeightCache& cache, const TestModel& model, int32_t first_other,
                            int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    ASSERT_TRUE(cache.BeginPass(cache.map().tile_count()));
    Visit(cache, model, std::vector<int32_t>{0, 1, 2, first_other + pass});
  }
}

TEST(LfuCache, KeepsTheFrequentOnesAndForgetsThemAfterTheWindow) {
  const TestModel model(EqualShapes(16, (512 << 10) - 4096));
  const auto cache = model.Cache({.capacity_bytes = 2 << 20,
                                  .policy = &LfuPolicy(),
                                  .frequency_window = 4,
                                  .prefetch_ahead = 0});
  VisitFrequentAndOthers(*cache, model, 4, 4);
  EXPECT_EQ(cache->Statistics().hits, 3 * 3);
  // Three others push the rare ones out of the fourth slot, not the frequent ones.
  ASSERT_TRUE(cache->BeginPass(16));
  Visit(*cache, model, std::vector<int32_t>{8, 9, 10});
  for (const int32_t frequent : {0, 1, 2}) EXPECT_TRUE(cache->PinIfResident(frequent)) << frequent;
  // After four passes without them, what came later is worth more.
  for (int pass = 0; pass < 4; ++pass) {
    ASSERT_TRUE(cache->BeginPass(16));
    Visit(*cache, model, std::vector<int32_t>{12, 13, 14, 15});
  }
  for (const int32_t forgotten : {0, 1, 2}) EXPECT_FALSE(cache->PinIfResident(forgotten));
  for (const int32_t kept : {12, 13, 14, 15}) EXPECT_TRUE(cache->PinIfResident(kept)) << kept;
}

TEST(KeepAllCache, RefusesACapacityThatIsTooSmallWithTheNumber) {
  const TestModel model(LayeredShapes(8));
  const auto cache =
      WeightCache::Create(model.Map(), {.capacity_bytes = 6 << 20, .policy = &KeepAllPolicy()});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(cache.error().message, HasSubstr("'keep-all' needs 10.0 MiB"));
}

// The tiles that a pass visits when each layer of ExpertShapes uses these two of its experts.
std::vector<int32_t> TilesWith(const TileMap& map, int32_t layer, int32_t first, int32_t second) {
  const int32_t experts = 2 * layer + 1;
  return {map.tiles_of(experts, first).first, map.tiles_of(experts, second).first};
}

// One pass; `announces` tells the cache of experts before they are visited, as a router does.
template <typename Choose>
void RunExpertPass(WeightCache& cache, const TestModel& model, bool announces, Choose choose) {
  const TileMap& map = cache.map();
  ASSERT_TRUE(cache.BeginPass(map.tile_count()));
  const int32_t layers = map.matrix_of(map.tile_count() - 1).layer;
  for (int32_t layer = 0; layer < layers; ++layer) {
    Visit(cache, model, TilesOf(map.tiles_of(2 * layer).first, map.tiles_of(2 * layer).first + 1));
    const auto [first, second] = choose(layer);
    const std::vector<int32_t> tiles = TilesWith(map, layer, first, second);
    if (announces) cache.Expect(tiles);
    Visit(cache, model, tiles);
  }
  Visit(cache, model, TilesOf(map.tile_count() - 1, map.tile_count()));
}

TEST_P(EveryPolicy, ServesExpertsAtEveryCapacityAndReadsNoneUnasked) {
  const Watchdog watchdog;
  const TestModel model(ExpertShapes(5));
  const TileMap map = model.Map();
  const Policy& policy = *GetParam();
  for (uint64_t capacity = LeastCapacity(model, policy); capacity <= FullCapacity(map, policy);
       capacity += kHugePageBytes) {
    for (const int ahead : {0, 1, kFar}) {
      for (const bool announces : {false, true}) {
        SCOPED_TRACE(fmt::format("capacity {}, ahead {}, {}", capacity, ahead, announces));
        const auto cache =
            model.Cache({.capacity_bytes = capacity, .policy = &policy, .prefetch_ahead = ahead});
        ASSERT_NE(cache, nullptr);
        // Experts 6 and 7 are never chosen.
        for (int32_t pass = 0; pass < 6; ++pass) {
          RunExpertPass(*cache, model, announces,
                        [&](int32_t layer) { return std::pair((pass + layer) % 5, 5); });
        }
        const CacheStatistics s = cache->Statistics();
        EXPECT_EQ(s.pinned_bytes, 0);
        EXPECT_LE(s.resident_bytes, s.capacity_bytes);
        for (const MatrixStatistics& matrix : cache->PerMatrix()) {
          if (!matrix.name.ends_with("experts")) continue;
          EXPECT_EQ(matrix.visits, 12U) << matrix.name;
          EXPECT_LE(matrix.resident_bytes, uint64_t{6} * (256 << 10)) << matrix.name;
        }
        for (int32_t layer = 0; layer < 5; ++layer) {
          for (const int32_t tile : TilesWith(map, layer, 6, 7)) {
            EXPECT_FALSE(cache->PinIfResident(tile)) << "nobody asked for it";
          }
        }
      }
    }
  }
}

TEST(PlannedExperts, ThoseUsedOftenStay) {
  const TestModel model(ExpertShapes(4));
  const TileMap map = model.Map();
  // Room for what every pass visits, 1.9 MiB, and for a half of the experts.
  const auto cache = model.Cache({.capacity_bytes = 6 << 20});
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->Statistics().shares.streamed_bytes, 0U);
  const auto pass = [&](int32_t i) {
    // Expert 0 always, each of the others now and then.
    RunExpertPass(*cache, model, true,
                  [&](int32_t layer) { return std::pair(0, 1 + (i * 3 + layer) % 7); });
  };
  for (int32_t i = 0; i < 20; ++i) pass(i);
  for (int32_t layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(cache->PinIfResident(TilesWith(map, layer, 0, 0).front())) << layer;
  }
  const CountedSince since(*cache);
  for (int32_t i = 20; i < 30; ++i) pass(i);
  // Of the 4 layers' visits of a pass, one expert's and the layers' own are always hits.
  EXPECT_GE(since.hits(), 10U * (4 + 4 + 1));
  EXPECT_GT(since.misses(), 0U);
}

TEST(PlannedExperts, WhatIsExpectedIsReadBeforeItIsVisited) {
  const TestModel model(ExpertShapes(4));
  const auto cache = model.Cache({.capacity_bytes = 6 << 20});
  ASSERT_NE(cache, nullptr);
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  const std::vector<int32_t> tiles = TilesWith(cache->map(), 0, 3, 6);
  cache->Expect(tiles);
  const Watchdog watchdog;
  for (const int32_t tile : tiles) {
    while (!cache->IsResident(tile)) std::this_thread::yield();
  }
  Visit(*cache, model, tiles);
  EXPECT_EQ(cache->Statistics().misses, 2U) << "they were read, if ahead of their visits";
}

}  // namespace
}  // namespace thaw
