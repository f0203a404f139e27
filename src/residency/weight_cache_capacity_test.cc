// The capacity changes while the cache is in use.
#include <gmock/gmock.h>

#include <array>
#include <optional>
#include <thread>

#include "base/memory_region.h"
#include "base/process.h"
#include "residency/cache_test_support.h"

namespace thaw {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Tiles of 512, 32, 400 and 80 KiB, so that extents do not fit into the holes that others leave.
std::vector<MatrixShape> UnequalShapes(int32_t layers) {
  std::vector<MatrixShape> shapes;
  for (int32_t layer = 0; layer < layers; ++layer) {
    for (const int64_t rows : {128, 8, 100, 20}) {
      shapes.push_back({fmt::format("blk.{}.rows{}", layer, rows), layer,
                        rows < 100 ? WeightGroup::kAttention : WeightGroup::kFeedForward, rows});
    }
  }
  return shapes;
}

// What ChoosePlacement says for a cache that has seen nothing or everything equally often.
PlacementTargets Planned(const TestModel& model, const Policy& policy, uint64_t capacity_bytes) {
  const TileMap map = model.Map();
  const std::vector<char> none(static_cast<size_t>(map.tile_count()), 0);
  return *ChoosePlacement(map, policy, std::vector<TileUse>(none.size()), none, capacity_bytes);
}

class Capacity : public ::testing::TestWithParam<const Policy*> {};

// keep-all has one capacity only.
std::vector<const Policy*> ResizablePolicies() {
  std::vector<const Policy*> policies(AllPolicies().begin(), AllPolicies().end());
  std::erase(policies, &KeepAllPolicy());
  return policies;
}

std::string NameOf(const ::testing::TestParamInfo<const Policy*>& info) {
  std::string name(info.param->name());
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, Capacity, ::testing::ValuesIn(ResizablePolicies()), NameOf);

TEST_P(Capacity, IsObeyedAtOnceAndThePlanIsReachedAtEveryStep) {
  const Watchdog watchdog;
  const TestModel model(UnequalShapes(10));
  const auto cache = model.Cache({.policy = GetParam()});
  std::minstd_rand random(3);
  const uint64_t full = FullCapacity(model.Map(), *GetParam());
  const uint64_t least = LeastCapacity(model, *GetParam());
  for (int step = 0; step < 40; ++step) {
    const uint64_t capacity = least + random() % (full - least + kMebibyte);
    ASSERT_TRUE(cache->SetCapacity(capacity));
    EXPECT_LE(cache->capacity_bytes(), capacity);
    EXPECT_LE(cache->Statistics().resident_bytes, capacity);
    RunPass(*cache, model);
    RunPassesUntilPlanIsReached(*cache, model);
    const PlacementTargets planned = Planned(model, *GetParam(), capacity);
    const CacheStatistics s = cache->Statistics();
    EXPECT_EQ(s.shares.resident_bytes, planned.shares.resident_bytes) << step;
    EXPECT_EQ(s.slot_bytes, planned.slot_bytes) << step;
    EXPECT_LE(s.resident_bytes, capacity);
    const CountedSince since(*cache);
    RunPass(*cache, model);
    if (GetParam() == &PlannedPolicy()) {
      EXPECT_EQ(since.miss_bytes(), planned.shares.streamed_bytes) << step;
    }
  }
}

TEST_P(Capacity, BelowTheMinimumIsRefusedAndChangesNothing) {
  const TestModel model(LayeredShapes(8));
  const auto cache = model.Cache({.capacity_bytes = 6 * kMebibyte, .policy = GetParam()});
  RunPass(*cache, model);
  const CacheStatistics before = cache->Statistics();
  const auto refused = cache->SetCapacity(LeastCapacity(model, *GetParam()) - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const CacheStatistics after = cache->Statistics();
  EXPECT_EQ(after.capacity_bytes, before.capacity_bytes);
  EXPECT_EQ(after.shares.resident_bytes, before.shares.resident_bytes);
  EXPECT_EQ(after.slot_bytes, before.slot_bytes);
  RunPass(*cache, model);
}

TEST_P(Capacity, AHandleStaysValidWhenItShrinksAndFollowsWithItsLastPin) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const auto cache = model.Cache({.policy = GetParam(), .prefetch_ahead = 0});
  RunPass(*cache, model);
  const int32_t last = cache->map().tile_count() - 1;
  std::vector<PinnedTile> held;
  for (const int32_t tile : {0, 7, last}) held.push_back(*cache->Pin(tile));
  const uint64_t least = LeastCapacity(model, *GetParam());
  ASSERT_TRUE(cache->SetCapacity(least));
  EXPECT_LE(cache->Statistics().resident_bytes, least + cache->map().tile(0).bytes +
                                                    cache->map().tile(7).bytes +
                                                    cache->map().tile(last).bytes);
  EXPECT_TRUE(model.IsExpected(*cache, 0, held[0].data()));
  EXPECT_TRUE(model.IsExpected(*cache, 7, held[1].data()));
  EXPECT_TRUE(model.IsExpected(*cache, last, held[2].data()));
  held.clear();
  EXPECT_LE(cache->Statistics().resident_bytes, least);
  RunPassesUntilPlanIsReached(*cache, model);
  EXPECT_LE(cache->Statistics().resident_bytes, least);
  const PlacementTargets planned = Planned(model, *GetParam(), least);
  EXPECT_EQ(cache->Statistics().shares.resident_bytes, planned.shares.resident_bytes);
  EXPECT_EQ(cache->Statistics().slot_bytes, planned.slot_bytes);
}

TEST_P(Capacity, HandlesThatAreHeldWhileItChangesDoNotKeepThePlanFromBeingReached) {
  const Watchdog watchdog;
  const TestModel model(UnequalShapes(10));
  const auto cache = model.Cache({.policy = GetParam()});
  std::minstd_rand random(11);
  const uint64_t full = FullCapacity(model.Map(), *GetParam());
  const uint64_t least = LeastCapacity(model, *GetParam());
  for (int step = 0; step < 40; ++step) {
    RunPass(*cache, model);
    std::vector<PinnedTile> held;
    std::vector<int32_t> tiles;
    for (int i = 0; i < 2; ++i) {
      tiles.push_back(static_cast<int32_t>(random() % 40));
      held.push_back(*cache->Pin(tiles.back()));
    }
    const uint64_t capacity = step % 2 == 0 ? full : least + random() % (full - least);
    ASSERT_TRUE(cache->SetCapacity(capacity));
    for (size_t i = 0; i < held.size(); ++i) {
      EXPECT_TRUE(model.IsExpected(*cache, tiles[i], held[i].data()));
    }
    held.pop_back();
    RunPass(*cache, model);  // one handle keeps no tile waiting
    held.clear();
    EXPECT_LE(cache->Statistics().resident_bytes, capacity);
    RunPassesUntilPlanIsReached(*cache, model);
    const PlacementTargets planned = Planned(model, *GetParam(), capacity);
    EXPECT_EQ(cache->Statistics().shares.resident_bytes, planned.shares.resident_bytes) << step;
    EXPECT_EQ(cache->Statistics().slot_bytes, planned.slot_bytes) << step;
  }
}

// Three threads visit, the main thread changes the capacity, preloads and plans anew.
TEST_P(Capacity, ChangesAtRandomWhileThreadsVisit) {
  const Watchdog watchdog;
  const TestModel model(UnequalShapes(6));
  const uint64_t full = FullCapacity(model.Map(), *GetParam());
  const uint64_t least = LeastCapacity(model, *GetParam());
  for (const int prefetch_ahead : {0, 1, WeightCacheOptions::kFarAhead}) {
    const auto cache =
        model.Cache({.policy = GetParam(), .prefetch_ahead = prefetch_ahead, .io_threads = 2});
    std::atomic<bool> done{false};
    std::thread visits([&] {
      for (int pass = 0; pass < 60; ++pass) RunPass(*cache, model, 3);
      done = true;
    });
    std::minstd_rand random(5);
    while (!done) {
      EXPECT_TRUE(cache->SetCapacity(least + random() % (full - least + kMebibyte)));
      EXPECT_TRUE(random() % 4 != 0 || cache->Optimize());
      EXPECT_TRUE(random() % 4 != 0 || cache->Preload(kKeepGoing));
    }
    visits.join();
    ASSERT_TRUE(cache->SetCapacity(least));
    EXPECT_LE(cache->Statistics().resident_bytes, least);
    EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
    RunPass(*cache, model);
  }
}

TEST(CapacityOfPlanned, PreloadsAndChangesTogetherComeToAnEnd) {
  const Watchdog watchdog;
  const TestModel model(UnequalShapes(6));
  const auto cache = model.Cache({.io_threads = 2});
  std::vector<std::thread> preloads;
  for (int i = 0; i < 2; ++i) {
    preloads.emplace_back([&] {
      for (int round = 0; round < 30; ++round) EXPECT_TRUE(cache->Preload(kKeepGoing));
    });
  }
  std::minstd_rand random(9);
  for (int round = 0; round < 100; ++round) {
    EXPECT_TRUE(cache->SetCapacity((2 + random() % 6) * kMebibyte));
  }
  for (std::thread& thread : preloads) thread.join();
  ASSERT_TRUE(cache->SetCapacity(WeightCacheOptions::kUnlimited));
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  const CountedSince since(*cache);
  RunPass(*cache, model);
  EXPECT_EQ(since.misses(), 0);
}

TEST(CapacityOfPlanned, GrowthIsTakenUpAlsoByATileThatIsHeldInASlot) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(8));
  const auto cache = model.Cache({.capacity_bytes = 2 * kMebibyte});
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  int32_t streamed = 0;
  while (cache->HasPlace(streamed)) ++streamed;
  auto held = std::make_optional(*cache->Pin(streamed));
  ASSERT_TRUE(cache->SetCapacity(WeightCacheOptions::kUnlimited));
  EXPECT_TRUE(cache->Preload(kKeepGoing));  // does not wait for what this thread holds
  held.reset();
  EXPECT_TRUE(cache->Preload(kKeepGoing));
  EXPECT_EQ(cache->Statistics().resident_bytes, cache->map().weight_bytes());
  const CountedSince since(*cache);
  RunPass(*cache, model);
  EXPECT_EQ(since.misses(), 0);
}

TEST(CapacityOfPlanned, APreloadOfWhatIsBeingReadIntoASlotKeepsIt) {
  const Watchdog watchdog;
  const auto gate = std::make_shared<ReadGate>();
  const TestModel model(EqualShapes(24, 128 << 10), {.gate = gate});
  const auto cache = model.Cache({.capacity_bytes = 2 * kMebibyte, .io_threads = 3});
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  gate->AwaitReaders(3);
  ASSERT_TRUE(cache->SetCapacity(WeightCacheOptions::kUnlimited));
  std::thread opener([&] { gate->Open(); });
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  opener.join();
  EXPECT_EQ(cache->Statistics().resident_bytes, cache->map().weight_bytes());
  RunPass(*cache, model);
  EXPECT_EQ(cache->Statistics().misses, 0);
}

TEST(CapacityOfPlanned, ThePlanIsToldAtOnceAndReachedWhenReadsGiveTheirMemoryBack) {
  const Watchdog watchdog;
  const auto gate = std::make_shared<ReadGate>();
  const TestModel model(EqualShapes(31, 128 << 10), {.gate = gate});  // fill two huge pages
  const auto cache = model.Cache({.capacity_bytes = 2 * kMebibyte, .io_threads = 3});
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  gate->AwaitReaders(3);
  ASSERT_TRUE(cache->SetCapacity(WeightCacheOptions::kUnlimited));
  EXPECT_LT(PlacedBytes(*cache), cache->map().weight_bytes());
  EXPECT_EQ(cache->Statistics().shares.resident_bytes, cache->map().weight_bytes());
  gate->Open();
  RunPassesUntilPlanIsReached(*cache, model);
  EXPECT_EQ(PlacedBytes(*cache), cache->map().weight_bytes());
}

TEST(CapacityOfPlanned, MemoryGoesBackToTheSystemAndComesAgain) {
  const TestModel model(EqualShapes(128));  // 64 MiB
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "the system does not tell what is resident";
  ASSERT_TRUE(cache->SetCapacity(16 * kMebibyte));
  // Other allocations of the process may move by a few pages.
  EXPECT_LE(ResidentBytes(), before - 46 * kMebibyte);
  ASSERT_TRUE(cache->SetCapacity(WeightCacheOptions::kUnlimited));
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  EXPECT_GE(ResidentBytes(), before - 2 * kMebibyte);
  RunPass(*cache, model);
}

TEST(CapacityOfPlanned, MemoryGoesBackAroundAHandleThatIsHeld) {
  const TestModel model(EqualShapes(128));
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  if (ResidentBytes() == 0) GTEST_SKIP() << "the system does not tell what is resident";
  // Of all tiles the one that lies highest.
  int32_t highest = 0;
  const std::byte* address = nullptr;
  for (int32_t tile = 0; tile < 128; ++tile) {
    const auto pinned = cache->PinIfResident(tile);
    ASSERT_TRUE(pinned);
    if (pinned->data().data() > address) highest = tile;
    address = std::max(address, pinned->data().data());
  }
  const auto held = cache->Pin(highest);
  const uint64_t before = ResidentBytes();
  ASSERT_TRUE(cache->SetCapacity(16 * kMebibyte));
  EXPECT_LE(ResidentBytes(), before - 44 * kMebibyte);
  EXPECT_TRUE(model.IsExpected(*cache, highest, held->data()));
}

// Beside experts slots are as large as an expert's tile. While something pinned keeps a larger tile
// from its new place, a slot is no place for it: it would reach into what lies behind. It takes the
// place of others, because what is pinned may be so until it was visited.
TEST(CapacityOfPlanned, ATileLargerThanASlotTakesThePlaceOfOthers) {
  const Watchdog watchdog;
  std::vector<MatrixShape> shapes;
  for (int32_t layer = 0; layer < 16; ++layer) {
    shapes.push_back({fmt::format("blk.{}.dense", layer), layer, WeightGroup::kAttention, 128});
    shapes.push_back({fmt::format("blk.{}.experts", layer), layer, WeightGroup::kExperts, 64});
    shapes.back().n_experts = 4;
    shapes.back().n_used = 1;
  }
  const TestModel model(shapes);
  const auto cache = model.Cache();
  RunPassesUntilPlanIsReached(*cache, model);
  const TileMap& map = cache->map();
  std::optional<PinnedTile> held = *cache->Pin(map.tiles_of(1, 0).first);
  ASSERT_TRUE(cache->SetCapacity(10 * kMebibyte));
  std::vector<int32_t> placed;
  int32_t lacking = -1;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    if (map.is_chosen(tile)) continue;
    if (cache->HasPlace(tile)) {
      placed.push_back(tile);
    } else {
      lacking = tile;
    }
  }
  ASSERT_GE(lacking, 0) << "what is held leaves room for all places";
  ASSERT_LT(cache->slot_bytes() / cache->slot_count(), map.tile(lacking).span_bytes);
  ASSERT_TRUE(cache->BeginPass(map.tile_count()));
  Visit(*cache, model, placed);
  Visit(*cache, model, {&lacking, 1});
  EXPECT_TRUE(cache->HasPlace(lacking));
  EXPECT_LE(cache->Statistics().resident_bytes, cache->capacity_bytes());
  Visit(*cache, model, placed);
  RunPass(*cache, model);
  held.reset();
  RunPassesUntilPlanIsReached(*cache, model);
}

TEST(CapacityOfPlanned, OptimizeGivesThePlacesOfSkippedTilesToThoseThatAreVisited) {
  const TestModel model(EqualShapes(24, 256 << 10));
  const auto cache = model.Cache({.capacity_bytes = 4 * kMebibyte});
  const auto visit_second_half = [&] {
    ASSERT_TRUE(cache->BeginPass(24));
    Visit(*cache, model, TilesOf(12, 24));
  };
  for (int pass = 0; pass < 4; ++pass) visit_second_half();
  const auto placed_in = [&](int32_t begin, int32_t end) {
    int64_t count = 0;
    for (int32_t tile = begin; tile < end; ++tile) count += cache->HasPlace(tile) ? 1 : 0;
    return count;
  };
  ASSERT_LT(placed_in(12, 24), 12);
  const int64_t places = placed_in(0, 24);
  ASSERT_TRUE(cache->Optimize());
  // A read that was under way keeps its memory until it ends, which may take longer than a pass.
  const auto wanted = std::min<int64_t>(12, places);
  for (int pass = 0; pass < 10'000 && placed_in(12, 24) < wanted; ++pass) visit_second_half();
  visit_second_half();
  EXPECT_EQ(placed_in(12, 24), wanted);
  EXPECT_EQ(placed_in(0, 24), places);
  const CountedSince since(*cache);
  visit_second_half();
  EXPECT_EQ(since.misses(), static_cast<uint64_t>(12 - placed_in(12, 24)));
}

TEST(CapacityOfPlanned, APlanMadeInTheMiddleOfAPassSpreadsWhatIsStreamed) {
  const TestModel model(EqualShapes(48, 256 << 10));
  const auto cache = model.Cache({.capacity_bytes = 8 * kMebibyte});
  for (int pass = 0; pass < 3; ++pass) RunPass(*cache, model);
  ASSERT_TRUE(cache->BeginPass(48));
  Visit(*cache, model, TilesOf(0, 24));
  ASSERT_TRUE(cache->SetCapacity(6 * kMebibyte));
  std::array<int, 2> streamed = {};
  const std::vector<MatrixStatistics> tiles = cache->PerMatrix();
  for (size_t tile = 0; tile < tiles.size(); ++tile) {
    if (tiles[tile].planned_bytes == 0) ++streamed[tile / 24];
  }
  EXPECT_GT(streamed[0], 0);
  EXPECT_NEAR(streamed[0], streamed[1], 1);
}

}  // namespace
}  // namespace thaw
