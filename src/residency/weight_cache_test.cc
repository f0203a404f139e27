#include "residency/weight_cache.h"

#include <gmock/gmock.h>

#include <mutex>
#include <thread>
#include <vector>

#include "residency/cache_test_support.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

// Reads nothing but what is asked for.
WeightCacheOptions OnDemand(uint64_t capacity_bytes = WeightCacheOptions::kUnlimited) {
  return {.capacity_bytes = capacity_bytes, .prefetch_ahead = 0};
}

TEST(WeightCache, CreationReadsNothing) {
  TestModel model(LayeredShapes(3));
  const auto cache = model.Cache();
  EXPECT_EQ(model.file().read_count(), 0);
  EXPECT_EQ(cache->Statistics().resident_bytes, 0);
  EXPECT_EQ(cache->Statistics().weight_bytes, cache->map().weight_bytes());
}

TEST(WeightCache, EveryInstanceHasItsOwnId) {
  const TestModel model(EqualShapes(1));
  EXPECT_NE(model.Cache()->Statistics().instance_id, model.Cache()->Statistics().instance_id);
}

TEST(WeightCache, AHitIsAViewOfTheSameMemoryAndReadsNothing) {
  TestModel model(LayeredShapes(2));
  const auto cache = model.Cache(OnDemand());
  const auto first = cache->Pin(1);
  ASSERT_TRUE(first);
  EXPECT_TRUE(model.IsExpected(*cache, 1, first->data()));
  const uint64_t reads = model.file().read_count();
  const auto second = cache->Pin(1);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->data().data(), second->data().data());
  EXPECT_EQ(model.file().read_count(), reads);
}

TEST(WeightCache, APinnedTileCanBeMovedAndReleasesOnce) {
  const TestModel model(EqualShapes(2));
  const auto cache = model.Cache(OnDemand());
  {
    auto first = cache->Pin(0);
    ASSERT_TRUE(first);
    PinnedTile moved = *std::move(first);
    moved = *cache->Pin(1);
    EXPECT_TRUE(model.IsExpected(*cache, 1, moved.data()));
  }
  EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
}

TEST(WeightCache, ManyThreadsThatWantAnAbsentTileCauseOneRead) {
  const Watchdog watchdog;
  const auto gate = std::make_shared<ReadGate>();
  TestModel model(EqualShapes(3), {.gate = gate});
  const auto cache = model.Cache(OnDemand());
  std::vector<std::thread> threads;
  std::atomic<int> correct{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto pinned = cache->Pin(2);
      if (pinned && model.IsExpected(*cache, 2, pinned->data())) ++correct;
    });
  }
  gate->AwaitReaders(1);
  gate->Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(correct, 8);
  EXPECT_EQ(model.file().read_count(), 1);
  EXPECT_EQ(cache->Statistics().bytes_read, cache->map().tile(2).bytes);
}

TEST(WeightCache, VisitsCountAsHitsWhenTheTileStayedFromAnEarlierOne) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache(OnDemand());
  const uint64_t bytes = cache->map().tile(0).bytes;
  const auto a = cache->Pin(0);
  const auto b = cache->Pin(0);
  const auto c = cache->Pin(0);
  const CacheStatistics s = cache->Statistics();
  EXPECT_EQ(s.misses, 1);
  EXPECT_EQ(s.hits, 2);
  EXPECT_EQ(s.hit_bytes, 2 * bytes);
  EXPECT_EQ(s.miss_bytes, bytes);
  EXPECT_EQ(s.bytes_read, bytes);
  EXPECT_EQ(s.resident_bytes, bytes);
  EXPECT_EQ(s.pinned_bytes, bytes);
}

TEST(WeightCache, ATileThatWasReadAheadIsAMissAtItsFirstVisitAlone) {
  const TestModel model(EqualShapes(3));
  const auto cache = model.Cache({.prefetch_ahead = 3, .synchronous_prefetch = true});
  for (uint64_t pass = 0; pass < 3; ++pass) {
    RunPass(*cache, model);
    EXPECT_EQ(cache->Statistics().misses, 3);
    EXPECT_EQ(cache->Statistics().hits, 3 * pass);
  }
  EXPECT_EQ(cache->Statistics().bytes_read, cache->map().weight_bytes());
}

TEST(WeightCache, ReadsAsManyLayersAheadOfTheVisitAsAsked) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(6));
  for (const int layers_ahead : {1, 2, 3}) {
    const auto cache = model.Cache({.prefetch_ahead = layers_ahead, .synchronous_prefetch = true});
    const TileMap& map = cache->map();
    ASSERT_TRUE(cache->BeginPass(map.tile_count()));
    for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
      ASSERT_TRUE(cache->Pin(tile));
      const int32_t farthest = map.matrix_of(tile).layer + layers_ahead;
      for (int32_t other = 0; other < map.tile_count(); ++other) {
        const bool is_near = map.matrix_of(other).layer <= farthest;
        EXPECT_EQ(cache->PinIfResident(other).has_value(), is_near) << tile << " " << other;
      }
    }
  }
}

TEST(WeightCache, PinIfResidentReadsNothingAndCountsNothing) {
  TestModel model(EqualShapes(2));
  const auto cache = model.Cache(OnDemand());
  EXPECT_FALSE(cache->PinIfResident(0));
  EXPECT_EQ(model.file().read_count(), 0);
  ASSERT_TRUE(cache->Pin(0));
  const auto resident = cache->PinIfResident(0);
  ASSERT_TRUE(resident);
  EXPECT_TRUE(model.IsExpected(*cache, 0, resident->data()));
  EXPECT_EQ(cache->Statistics().hits, 0);
  EXPECT_EQ(cache->Statistics().misses, 1);
}

TEST(WeightCache, ARowIsTheSameWhetherItsTileIsResidentOrNot) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache(OnDemand());
  const int32_t matrix = 1;  // of two tiles
  const int64_t row = 150;
  const WeightMatrix& source = cache->map().matrix(matrix);
  const auto row_bytes = static_cast<uint64_t>(source.row_bytes());
  const auto expected = model.Bytes(source.offset + 150 * row_bytes, row_bytes);
  for (const uint64_t hits : {0, 1}) {
    EXPECT_THAT(RowOf(*cache, matrix, row), ::testing::ElementsAreArray(expected));
    EXPECT_EQ(cache->Statistics().bytes_read, row_bytes);
    EXPECT_EQ(cache->Statistics().rows.bytes_read, row_bytes);
    EXPECT_EQ(cache->Statistics().rows.hits, hits);
  }

  ASSERT_TRUE(cache->Preload(kKeepGoing));
  const CountedSince since(*cache);
  for (const int64_t other : {row, int64_t{77}}) {
    EXPECT_THAT(RowOf(*cache, matrix, other),
                ::testing::ElementsAreArray(model.Bytes(
                    source.offset + static_cast<uint64_t>(other) * row_bytes, row_bytes)));
  }
  EXPECT_EQ(since.bytes_read(), 0);
}

TEST(WeightCache, RowsAreReadPastThePageCacheWhereverTheyBegin) {
  const TemporaryDirectory folder;
  const TestModel model(LayeredShapes(2), folder);
  const auto cache = model.Cache(OnDemand());
  for (const int64_t row : {0, 1, 99}) {
    const auto row_bytes = static_cast<uint64_t>(cache->map().matrix(0).row_bytes());
    const uint64_t offset = cache->map().matrix(0).offset + static_cast<uint64_t>(row) * row_bytes;
    EXPECT_THAT(RowOf(*cache, 0, row), ::testing::ElementsAreArray(model.Bytes(offset, row_bytes)));
  }
  const RowStatistics rows = cache->Statistics().rows;
  EXPECT_EQ(rows.reads, 3);
  if (cache->reader_name() != "io_uring") GTEST_SKIP() << "SKIP: no direct reads here";
  EXPECT_GE(rows.disk_bytes, rows.bytes_read);
}

TEST(WeightCache, AfterPreloadNoVisitMisses) {
  const Watchdog watchdog;
  const TestModel model(LayeredShapes(4));
  for (const int prefetch_ahead : {0, 1, WeightCacheOptions::kFarAhead}) {
    const auto cache = model.Cache({.prefetch_ahead = prefetch_ahead});
    uint64_t shown = 0;
    const auto report = cache->Preload([&](uint64_t done, uint64_t total) {
      EXPECT_GE(done, shown);
      EXPECT_EQ(total, cache->map().weight_bytes());
      shown = done;
      return true;
    });
    ASSERT_TRUE(report);
    EXPECT_EQ(shown, cache->map().weight_bytes());
    EXPECT_EQ(report->tiles, cache->map().tile_count());
    EXPECT_EQ(report->tiles_read, cache->map().tile_count());
    EXPECT_EQ(report->bytes, cache->map().weight_bytes());
    EXPECT_EQ(report->tiles_streamed, 0);
    for (int pass = 0; pass < 2; ++pass) RunPass(*cache, model);
    EXPECT_EQ(cache->Statistics().misses, 0);
    EXPECT_EQ(cache->Statistics().bytes_read, cache->map().weight_bytes());
  }
}

TEST(WeightCache, PreloadTwiceReadsOnce) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  const CountedSince since(*cache);
  const auto again = cache->Preload(kKeepGoing);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->tiles_read, 0);
  EXPECT_EQ(since.bytes_read(), 0);
}

TEST(WeightCache, PreloadOfAGroupOfALayerReadsJustThat) {
  const TestModel model(LayeredShapes(3));
  const auto cache = model.Cache();
  const auto group = cache->FindMatrices(1, WeightGroup::kFeedForward);
  ASSERT_THAT(group, ::testing::ElementsAre(3));
  const auto report = cache->Preload(group, kKeepGoing);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->tiles_read, 2);
  const TileMap::Range& range = cache->map().tiles_of(3);
  for (int32_t tile = 0; tile < cache->map().tile_count(); ++tile) {
    const bool is_in_group = tile >= range.first && tile < range.first + range.count;
    EXPECT_EQ(cache->PinIfResident(tile).has_value(), is_in_group) << tile;
  }
  EXPECT_EQ(cache->Statistics().bytes_read, report->bytes);
}

TEST(WeightCache, FindMatricesTakesPatterns) {
  const TestModel model(LayeredShapes(3));
  const auto cache = model.Cache();
  EXPECT_THAT(cache->FindMatrices("blk.*.attn"), ::testing::ElementsAre(0, 2, 4));
  EXPECT_THAT(cache->FindMatrices("output"), ::testing::ElementsAre(6));
  EXPECT_THAT(cache->FindMatrices("blk"), ::testing::IsEmpty());
}

TEST(WeightCache, PreloadAtASmallCapacityReportsWhatCannotStay) {
  const TestModel model(LayeredShapes(6));
  const auto cache = model.Cache({.capacity_bytes = 4 << 20});
  const auto report = cache->Preload(kKeepGoing);
  ASSERT_TRUE(report);
  const CacheStatistics s = cache->Statistics();
  EXPECT_GT(report->tiles_streamed, 0);
  EXPECT_EQ(report->tiles_streamed + report->tiles_read, report->tiles);
  EXPECT_EQ(report->bytes_streamed, s.weight_bytes - s.shares.resident_bytes);
  EXPECT_EQ(s.resident_bytes, s.shares.resident_bytes);
}

TEST(WeightCache, PreloadStopsWhenAskedTo) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  const auto stopped = cache->Preload([](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(cache->Preload(kKeepGoing));
  RunPass(*cache, model);
  EXPECT_EQ(cache->Statistics().misses, 0);
}

TEST(WeightCache, PreloadingNothingIsDoneAtOnce) {
  const TestModel model(EqualShapes(1));
  const auto cache = model.Cache();
  const auto report = cache->Preload({}, kKeepGoing);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->tiles, 0);
}

TEST(WeightCache, TheTraceTellsOfEveryVisit) {
  const TestModel model(LayeredShapes(2));
  const auto cache = model.Cache(OnDemand());
  std::vector<VisitEvent> events;
  cache->SetTrace([&](const VisitEvent& event) { events.push_back(event); });
  for (int pass = 0; pass < 2; ++pass) RunPass(*cache, model);
  const auto tiles = static_cast<size_t>(cache->map().tile_count());
  ASSERT_EQ(events.size(), 2 * tiles);
  for (size_t i = 0; i < events.size(); ++i) {
    const auto tile = static_cast<int32_t>(i % tiles);
    EXPECT_EQ(events[i].tile, tile);
    EXPECT_EQ(events[i].pass, i / tiles + 1);
    EXPECT_EQ(events[i].hit, i >= tiles);
    EXPECT_EQ(events[i].matrix, cache->map().matrix_of(tile).name);
    EXPECT_EQ(events[i].bytes, cache->map().tile(tile).bytes);
  }
}

TEST(WeightCache, StatisticsOfMatricesAddUpToThoseOfTheCache) {
  const TestModel model(LayeredShapes(6));
  const auto cache = model.Cache({.capacity_bytes = 4 << 20, .frequency_window = 3});
  for (int pass = 0; pass < 5; ++pass) RunPass(*cache, model);
  const CacheStatistics s = cache->Statistics();
  uint64_t bytes = 0;
  uint64_t planned = 0;
  uint64_t hits = 0;
  uint64_t visits = 0;
  for (const MatrixStatistics& m : cache->PerMatrix()) {
    bytes += m.bytes;
    planned += m.planned_bytes;
    hits += m.hits;
    visits += m.visits;
    EXPECT_EQ(m.window_visits, 3) << m.name;
  }
  EXPECT_EQ(bytes, s.weight_bytes);
  EXPECT_EQ(planned, s.shares.resident_bytes);
  EXPECT_EQ(hits, s.hits);
  EXPECT_EQ(visits, s.hits + s.misses);
}

TEST(WeightCache, AMapWithoutTilesHasEmptyPasses) {
  const Watchdog watchdog;
  const TestModel model({});
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->BeginPass(0));
  EXPECT_TRUE(cache->Preload(kKeepGoing));
  EXPECT_EQ(cache->Statistics().hit_rate(), 0);
}

TEST(WeightCache, TheDestructorWaitsForReadsInFlight) {
  const Watchdog watchdog;
  const auto gate = std::make_shared<ReadGate>();
  const TestModel model(LayeredShapes(4), {.gate = gate});
  auto cache = model.Cache({.io_threads = 2});
  ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
  gate->AwaitReaders(2);
  std::thread opener([&] { gate->Open(); });
  cache.reset();
  opener.join();
}

TEST(WeightCache, SaysWhyItDoesNotUseIoUring) {
  const TestModel model(EqualShapes(1));
  const auto unasked = model.Cache({.use_uring = false});
  EXPECT_EQ(unasked->reader_name(), "pread");
  EXPECT_THAT(unasked->reader_note(), HasSubstr("not asked for"));
  const auto memory = model.Cache();
  EXPECT_EQ(memory->reader_name(), "pread");
  EXPECT_THAT(memory->reader_note(), HasSubstr("no direct reads"));
}

}  // namespace
}  // namespace thaw
