// Files that fail, readers that stall, and memory that changes.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "residency/cache_test_support.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

TEST(WeightCacheFaults, AFailedReadNamesFileTensorRowsAndOffset) {
  const Watchdog watchdog;
  TestModel model(LayeredShapes(2));
  for (const int prefetch_ahead : {0, 1, WeightCacheOptions::kFarAhead}) {
    const auto cache = model.Cache({.prefetch_ahead = prefetch_ahead});
    const int32_t broken = 2;  // the second tile of blk.0.ffn
    const Tile& where = cache->map().tile(broken);
    model.file().SetFaults({.broken_byte = where.offset + 5});
    ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
    for (int32_t tile = 0; tile < cache->map().tile_count(); ++tile) {
      const auto pinned = cache->Pin(tile);
      ASSERT_EQ(pinned.has_value(), tile != broken);
      if (pinned) {
        EXPECT_TRUE(model.IsExpected(*cache, tile, pinned->data()));
        continue;
      }
      EXPECT_EQ(pinned.error().code, ErrorCode::kIo);
      EXPECT_THAT(pinned.error().message, HasSubstr("m.gguf"));
      EXPECT_THAT(pinned.error().message, HasSubstr(cache->map().Describe(broken)));
      EXPECT_THAT(pinned.error().message, HasSubstr(std::to_string(where.offset)));
    }
    EXPECT_FALSE(cache->PinIfResident(broken));
    EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
    // The fault goes, and so does the error.
    model.file().SetFaults({});
    RunPass(*cache, model);
  }
}

TEST(WeightCacheFaults, SmallCapacitiesSurviveFailedReadsUnderEveryPolicy) {
  const Watchdog watchdog;
  TestModel model(LayeredShapes(8));
  for (const Policy* policy : AllPolicies()) {
    model.file().SetFaults({});
    const auto cache =
        model.Cache({.capacity_bytes = LeastCapacity(model, *policy), .policy = policy});
    for (int round = 0; round < 3; ++round) {
      // All fail, then none does: no slot may be lost by it.
      model.file().SetFaults({.truncated_to = 0});
      ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
      int failed = 0;
      for (int32_t tile = 0; tile < cache->map().tile_count(); ++tile) {
        failed += cache->Pin(tile) ? 0 : 1;
      }
      EXPECT_TRUE(round > 0 || failed == cache->map().tile_count()) << policy->name();
      model.file().SetFaults({});
      RunPass(*cache, model, 3);
    }
  }
}

TEST(WeightCacheFaults, ReadingAheadGoesOnAfterReadsThatFailed) {
  const Watchdog watchdog;
  TestModel model(EqualShapes(24, 256 << 10));
  const auto cache = model.Cache({.capacity_bytes = 2 << 20,
                                  .policy = &OffPolicy(),
                                  .prefetch_ahead = 2,
                                  .synchronous_prefetch = true});
  model.file().SetFaults({.truncated_to = 0});
  for (int pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(cache->BeginPass(24));
    for (int32_t tile = 0; tile < 24; ++tile) EXPECT_FALSE(cache->Pin(tile));
  }
  model.file().SetFaults({});
  ASSERT_TRUE(cache->BeginPass(24));
  // The first few were tried ahead by the pass before.
  Visit(*cache, model, TilesOf(0, 6));
  EXPECT_TRUE(cache->PinIfResident(6));
  EXPECT_TRUE(cache->PinIfResident(7));
}

TEST(WeightCacheFaults, ManyThreadsThatWantABrokenTileAllGetTheError) {
  const Watchdog watchdog;
  TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  model.file().SetFaults({.broken_byte = cache->map().tile(1).offset});
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] { errors += cache->Pin(1) ? 0 : 1; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 6);
}

TEST(WeightCacheFaults, ShortReadsAreCompleted) {
  TestModel model(LayeredShapes(2), {.most_bytes_per_read = 30'000});
  const auto cache = model.Cache({.capacity_bytes = 2 << 20});
  for (int pass = 0; pass < 2; ++pass) RunPass(*cache, model);
}

TEST(WeightCacheFaults, ATruncatedFileIsNamedWithWhatIsMissing) {
  TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  const int32_t last = cache->map().tile_count() - 1;
  model.file().SetFaults({.truncated_to = cache->map().tile(last).offset + 100});
  EXPECT_TRUE(cache->Pin(last - 1));
  const auto pinned = cache->Pin(last);
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(pinned.error().message, HasSubstr("'output'"));
  const auto preloaded = cache->Preload(kKeepGoing);
  ASSERT_FALSE(preloaded);
  EXPECT_THAT(preloaded.error().message, HasSubstr("'output'"));
}

TEST(WeightCacheFaults, AReaderThatStallsHoldsUpItsOwnTileAlone) {
  const Watchdog watchdog;
  const auto gate = std::make_shared<ReadGate>();
  TestModel model(LayeredShapes(4), {.gate = gate});
  const auto cache = model.Cache({.io_threads = 1});
  const int32_t tiles = cache->map().tile_count();
  ASSERT_TRUE(cache->BeginPass(tiles));
  gate->AwaitReaders(1);  // tile 0
  model.file().SetFaults({});
  Visit(*cache, model, TilesOf(1, tiles));
  EXPECT_FALSE(cache->PinIfResident(0));
  gate->Open();
  Visit(*cache, model, TilesOf(0, 1));
}

TEST(WeightCacheFaults, AVisitWaitsForASlotWhenAllAreHeld) {
  const Watchdog watchdog;
  const TestModel model(EqualShapes(16, (512 << 10) - 4096));
  for (const Policy* policy : {&PlannedPolicy(), &LruPolicy(), &OffPolicy()}) {
    const auto cache =
        model.Cache({.capacity_bytes = 2 << 20, .policy = policy, .prefetch_ahead = 0});
    ASSERT_TRUE(cache->BeginPass(16));
    std::vector<int32_t> streamed;
    for (int32_t tile = 0; tile < 16; ++tile) {
      if (!cache->HasPlace(tile)) streamed.push_back(tile);
    }
    const auto slots =
        static_cast<size_t>(cache->Statistics().slot_bytes / cache->map().largest_span_bytes());
    std::vector<PinnedTile> held;
    for (size_t i = 0; i < slots; ++i) held.push_back(*cache->Pin(streamed[i]));
    std::atomic<bool> is_pinned{false};
    std::thread waiter([&] {
      const auto pinned = cache->Pin(streamed[slots]);
      is_pinned = true;
      EXPECT_TRUE(pinned && model.IsExpected(*cache, streamed[slots], pinned->data()));
    });
    for (size_t i = 0; i < slots; ++i) {
      EXPECT_FALSE(is_pinned);
      EXPECT_TRUE(model.IsExpected(*cache, streamed[i], held[i].data()));
    }
    held.pop_back();
    waiter.join();
  }
}

TEST(WeightCacheFaults, AChangedFileStopsTheNextPassAndVerify) {
  TestModel model(LayeredShapes(2));
  const auto cache = model.Cache();
  RunPass(*cache, model);
  model.file().SetFaults({.changed = true});
  const auto pass = cache->BeginPass(cache->map().tile_count());
  ASSERT_FALSE(pass);
  EXPECT_EQ(pass.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(pass.error().message, HasSubstr("m.gguf"));
  const auto verified = cache->Verify(kKeepGoing);
  ASSERT_FALSE(verified);
  EXPECT_THAT(verified.error().message, HasSubstr("m.gguf"));
}

TEST(WeightCacheFaults, WeightsThatAreNoNumbersAreAnErrorThatSaysWhere) {
  const TemporaryDirectory folder;
  const TestModel model(LayeredShapes(2), folder);
  const auto cache = model.Cache();
  for (const int32_t tile : {0, 1}) {  // as in the file, and packed
    const Tile& where = cache->map().tile(tile);
    const uint64_t offset = where.offset + 3 * 4096 + 400;
    {
      std::fstream file(folder.PathOf("m.gguf"), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(offset));
      const float nan = std::numeric_limits<float>::quiet_NaN();
      file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
    }
    const auto pinned = cache->Pin(tile);
    ASSERT_FALSE(pinned);
    EXPECT_EQ(pinned.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(pinned.error().message, HasSubstr("m.gguf"));
    EXPECT_THAT(pinned.error().message, HasSubstr(cache->map().Describe(tile)));
    EXPECT_THAT(pinned.error().message,
                HasSubstr(fmt::format("row {} at offset {}", where.row_begin + 3,
                                      where.offset + 3 * 4096)));
    EXPECT_THAT(pinned.error().message, HasSubstr("NaN"));
  }
}

TEST(WeightCacheFaults, VerifyFindsNothingWrongWithWhatIsResident) {
  const TestModel model(LayeredShapes(6));
  const auto cache = model.Cache({.capacity_bytes = 4 << 20});
  EXPECT_EQ(cache->Verify(kKeepGoing)->tiles, 0);
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  const auto report = cache->Verify(kKeepGoing);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->bytes, cache->Statistics().resident_bytes);
  EXPECT_EQ(cache->Statistics().pinned_bytes, 0);
  const auto stopped = cache->Verify([](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(WeightCacheFaults, VerifyNamesATileOfWhichOneByteWasFlipped) {
  const TestModel model(LayeredShapes(4));
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  for (const int32_t tile : {0, 5, cache->map().tile_count() - 1}) {
    const auto pinned = cache->Pin(tile);
    ASSERT_TRUE(pinned);
    std::byte& byte = const_cast<std::byte&>(pinned->data()[pinned->data().size() / 2]);
    byte ^= std::byte{0x10};
    const auto verified = cache->Verify(kKeepGoing);
    byte ^= std::byte{0x10};
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(verified.error().message, HasSubstr(cache->map().Describe(tile)));
    EXPECT_THAT(verified.error().message, HasSubstr("memory"));
  }
  EXPECT_TRUE(cache->Verify(kKeepGoing));
}

TEST(WeightCacheFaults, VerifyNamesChangedBytesInAFileOfTheSameSizeAndTime) {
  const TemporaryDirectory folder;
  const TestModel model(LayeredShapes(4), folder);
  const auto cache = model.Cache();
  ASSERT_TRUE(cache->Preload(kKeepGoing));
  ASSERT_TRUE(cache->Verify(kKeepGoing));
  const int32_t tile = 4;
  const auto path = folder.PathOf("m.gguf");
  const auto time = std::filesystem::last_write_time(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(cache->map().tile(tile).offset + 1000));
    const std::string changed(16, 'x');
    file.write(changed.data(), static_cast<std::streamsize>(changed.size()));
  }
  std::filesystem::last_write_time(path, time);
  const auto verified = cache->Verify(kKeepGoing);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(verified.error().message, HasSubstr(path));
  EXPECT_THAT(verified.error().message, HasSubstr(cache->map().Describe(tile)));
}

}  // namespace
}  // namespace thaw
