#include "residency/weight_cache.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <thread>

#include "io/faulty_file.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kColumns = 1024;  // float32: 4 KiB a row, 128 rows a tile
constexpr int64_t kRows = 300;      // two full tiles and one of 44 rows
constexpr uint64_t kRowBytes = kColumns * 4;

std::vector<std::byte> RandomBytes(size_t count) {
  std::minstd_rand random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// A cache over two matrices of one file, which can be made to fail.
struct Fixture {
  explicit Fixture(FileFaults faults = {})
      : bytes(RandomBytes(2 * kRows * kRowBytes)),
        file(std::make_shared<FaultyFile>(std::make_shared<MemoryFile>("m.gguf", bytes), faults)) {
    std::vector<WeightMatrix> matrices;
    for (int i = 0; i < 2; ++i) {
      matrices.push_back({.name = i == 0 ? "first" : "second",
                          .type = ElementType::kF32,
                          .rows = kRows,
                          .cols = kColumns,
                          .file = file,
                          .offset = static_cast<uint64_t>(i * kRows) * kRowBytes});
    }
    cache = *WeightCache::Create(std::move(matrices));
  }

  std::span<const std::byte> Expected(int32_t tile) const {
    const Tile& where = cache->map().tile(tile);
    return std::span(bytes).subspan(where.offset, where.bytes);
  }

  std::vector<std::byte> bytes;
  std::shared_ptr<FaultyFile> file;
  std::unique_ptr<WeightCache> cache;
};

bool Equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr auto KeepGoing = [](uint64_t, uint64_t) { return true; };

TEST(WeightCache, CreationReadsNothing) {
  const Fixture f;
  EXPECT_EQ(f.file->read_count(), 0);
  EXPECT_EQ(f.cache->Statistics().resident_bytes, 0);
}

TEST(WeightCache, PinGivesTheBytesOfTheFile) {
  Fixture f;
  for (int32_t tile = 0; tile < static_cast<int32_t>(f.cache->map().tiles().size()); ++tile) {
    const auto pinned = f.cache->Pin(tile);
    ASSERT_TRUE(pinned);
    EXPECT_TRUE(Equal(pinned->data(), f.Expected(tile)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pinned->data().data()) % 64, 0);
  }
}

TEST(WeightCache, AHitIsAViewOfTheSameMemoryAndReadsNothing) {
  Fixture f;
  const auto first = f.cache->Pin(1);
  const uint64_t reads = f.file->read_count();
  const auto second = f.cache->Pin(1);
  EXPECT_EQ(first->data().data(), second->data().data());
  EXPECT_EQ(f.file->read_count(), reads);
}

TEST(WeightCache, StatisticsCountHitsMissesAndPins) {
  Fixture f;
  const uint64_t tile_bytes = f.cache->map().tile(0).bytes;
  {
    const auto a = f.cache->Pin(0);
    const auto b = f.cache->Pin(0);
    auto c = f.cache->Pin(0);
    const PinnedTile moved = *std::move(c);
    const CacheStatistics s = f.cache->Statistics();
    EXPECT_EQ(s.misses, 1);
    EXPECT_EQ(s.hits, 2);
    EXPECT_EQ(s.hit_bytes, 2 * tile_bytes);
    EXPECT_EQ(s.miss_bytes, tile_bytes);
    EXPECT_EQ(s.bytes_read, tile_bytes);
    EXPECT_EQ(s.resident_bytes, tile_bytes);
    EXPECT_EQ(s.pinned_bytes, tile_bytes);
  }
  EXPECT_EQ(f.cache->Statistics().pinned_bytes, 0);
  EXPECT_EQ(f.cache->Statistics().weight_bytes, 2 * kRows * kRowBytes);
}

TEST(WeightCache, EveryInstanceHasItsOwnId) {
  const Fixture a;
  const Fixture b;
  EXPECT_NE(a.cache->Statistics().instance_id, b.cache->Statistics().instance_id);
}

TEST(WeightCache, AfterPreloadNoPinMisses) {
  Fixture f;
  ThreadPool pool(3);
  uint64_t last = 0;
  ASSERT_TRUE(f.cache->Preload(pool, [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 2 * kRows * kRowBytes);
    last = done;
    return true;
  }));
  EXPECT_EQ(last, 2 * kRows * kRowBytes);
  for (int32_t tile = 0; tile < static_cast<int32_t>(f.cache->map().tiles().size()); ++tile) {
    EXPECT_TRUE(Equal(f.cache->Pin(tile)->data(), f.Expected(tile)));
  }
  EXPECT_EQ(f.cache->Statistics().misses, 0);
}

TEST(WeightCache, PreloadTwiceReadsOnce) {
  Fixture f;
  ThreadPool pool(2);
  ASSERT_TRUE(f.cache->Preload(pool, KeepGoing));
  const uint64_t read = f.cache->Statistics().bytes_read;
  ASSERT_TRUE(f.cache->Preload(pool, KeepGoing));
  EXPECT_EQ(f.cache->Statistics().bytes_read, read);
}

TEST(WeightCache, PreloadStopsWhenAskedTo) {
  Fixture f;
  ThreadPool pool(1);
  const auto stopped = f.cache->Preload(pool, [](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_LT(f.cache->Statistics().resident_bytes, 2 * kRows * kRowBytes);
}

TEST(WeightCache, AFailedReadNamesFileTensorAndOffsetAndLeavesTheTileAbsent) {
  Fixture f({.broken_byte = kRows * kRowBytes + 5});
  EXPECT_TRUE(f.cache->Pin(0));
  const int32_t broken = f.cache->map().tiles_of(1).first;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto pinned = f.cache->Pin(broken);
    ASSERT_FALSE(pinned);
    EXPECT_EQ(pinned.error().code, ErrorCode::kIo);
    EXPECT_THAT(pinned.error().message, HasSubstr("m.gguf"));
    EXPECT_THAT(pinned.error().message, HasSubstr("'second'"));
    EXPECT_THAT(pinned.error().message, HasSubstr(std::to_string(kRows * kRowBytes)));
  }
  EXPECT_EQ(f.cache->Statistics().pinned_bytes, 0);
}

TEST(WeightCache, PreloadReportsAFailedRead) {
  Fixture f({.truncated_to = kRows * kRowBytes});
  ThreadPool pool(2);
  const auto loaded = f.cache->Preload(pool, KeepGoing);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("'second'"));
}

TEST(WeightCache, ShortReadsAreCompleted) {
  Fixture f({.most_bytes_per_read = 1000});
  EXPECT_TRUE(Equal(f.cache->Pin(2)->data(), f.Expected(2)));
}

TEST(WeightCache, ReadRowIsTheSameWhetherTheTileIsResidentOrNot) {
  Fixture f;
  std::vector<std::byte> row(kRowBytes);
  for (const bool resident : {false, true}) {
    if (resident) {
      EXPECT_TRUE(f.cache->Pin(f.cache->map().tiles_of(1).first + 2));
    }
    ASSERT_TRUE(f.cache->ReadRow(1, 290, row));
    EXPECT_TRUE(Equal(row, std::span(f.bytes).subspan((kRows + 290) * kRowBytes, kRowBytes)));
    if (!resident) {
      EXPECT_EQ(f.cache->Statistics().bytes_read, kRowBytes);
    }
  }
}

TEST(WeightCache, ManyThreadsWaitForOneRead) {
  Fixture f({.delay = std::chrono::milliseconds(5)});
  std::vector<std::thread> threads;
  std::atomic<int> correct{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto pinned = f.cache->Pin(3);
      if (pinned && Equal(pinned->data(), f.Expected(3))) ++correct;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(correct.load(), 8);
  EXPECT_EQ(f.cache->Statistics().bytes_read, f.cache->map().tile(3).bytes);
}

TEST(WeightCache, ThreadsThatPinEverythingInAnyOrderAgree) {
  Fixture f;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::minstd_rand random(seed + 1);
      for (int i = 0; i < 200; ++i) {
        const auto tile = static_cast<int32_t>(random() % f.cache->map().tiles().size());
        const auto pinned = f.cache->Pin(tile);
        if (!pinned || !Equal(pinned->data(), f.Expected(tile))) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  const CacheStatistics s = f.cache->Statistics();
  EXPECT_EQ(s.hits + s.misses, 800);
  EXPECT_EQ(s.bytes_read, s.resident_bytes);
}

}  // namespace
}  // namespace thaw
