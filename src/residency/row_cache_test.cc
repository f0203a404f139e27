#include "residency/row_cache.h"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "io/faulty_file.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

// Answers when it is asked to, not before: so many reads are under way as are submitted.
class SlowQueue final : public ReadQueue {
 public:
  explicit SlowQueue(size_t& most_pending) : most_pending_(most_pending) {}
  std::string_view name() const override { return "slow"; }
  int depth() const override { return RowCache::kRowsInFlight; }
  int pending() const override { return static_cast<int>(requests_.size()); }
  void Submit(const ReadRequest& request) override {
    requests_.push_back(request);
    most_pending_ = std::max(most_pending_, requests_.size());
  }
  // The latest first.
  ReadCompletion Wait() override {
    const ReadRequest request = requests_.back();
    requests_.pop_back();
    return ReadNow(request);
  }

 private:
  size_t& most_pending_;
  std::deque<ReadRequest> requests_;
};

// A size without bytes.
class EmptyFile final : public File {
 public:
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return uint64_t{1} << 44; }
  Result<size_t> ReadSomeAt(uint64_t, std::span<std::byte>) const override { return 0; }

 private:
  const std::string path_ = "empty.gguf";
};

constexpr auto kNothingResident = [](const TableRow&, std::span<std::byte>) { return false; };

// Tables of float32 of so many rows and columns each, in one file of random bytes.
struct Tables {
  struct Shape {
    int64_t rows;
    int64_t cols;
  };

  explicit Tables(const std::vector<Shape>& shapes) {
    uint64_t size = 100;
    for (const Shape& shape : shapes) size += static_cast<uint64_t>(shape.rows * shape.cols) * 4;
    std::mt19937 random(3);
    for (uint64_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(random()));
    file =
        std::make_shared<FaultyFile>(std::make_shared<MemoryFile>("m.gguf", bytes), FileFaults{});
    std::vector<WeightMatrix> matrices;
    uint64_t offset = 100;
    for (const Shape& shape : shapes) {
      matrices.push_back({.name = fmt::format("table.{}", matrices.size()),
                          .rows = shape.rows,
                          .cols = shape.cols,
                          .file = file,
                          .offset = offset,
                          .use = MatrixUse::kLookedUp});
      offset += static_cast<uint64_t>(shape.rows * shape.cols) * 4;
    }
    map = std::make_unique<TileMap>(*TileMap::Create(std::move(matrices)));
    cache = *RowCache::Create(*map, std::make_unique<SlowQueue>(most_pending), PortableDecoder());
  }

  std::span<const std::byte> Expected(const TableRow& at) const {
    const WeightMatrix& table = map->matrix(at.matrix);
    const auto row_bytes = static_cast<uint64_t>(table.row_bytes());
    return std::span(bytes).subspan(table.offset + static_cast<uint64_t>(at.row) * row_bytes,
                                    row_bytes);
  }

  // Reads rows, each of which has to come once and right.
  void Read(const std::vector<TableRow>& rows) const {
    std::vector<int> calls(rows.size());
    const auto done = cache->Read(
        rows, kNothingResident, [&](size_t i, std::span<const std::byte> row) -> Result<void> {
          const auto expected = Expected(rows[i]);
          EXPECT_EQ(row.size(), expected.size());
          EXPECT_EQ(std::memcmp(row.data(), expected.data(), row.size()), 0) << rows[i].row;
          ++calls[i];
          return {};
        });
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_THAT(calls, ::testing::Each(1));
  }

  std::vector<std::byte> bytes;
  std::shared_ptr<FaultyFile> file;
  std::unique_ptr<TileMap> map;
  size_t most_pending = 0;
  std::unique_ptr<RowCache> cache;
};

TEST(RowCache, GivesTheRowsOfTheFileInWhateverOrderTheyAreAskedFor) {
  const Tables tables({{1000, 16}, {3, 48}, {700, 8}});
  std::mt19937 random(1);
  uint64_t asked = 0;
  for (int pass = 0; pass < 300; ++pass) {
    std::vector<TableRow> rows(random() % 70);
    for (TableRow& at : rows) {
      at.matrix = static_cast<int32_t>(random() % 3);
      const auto count = static_cast<uint64_t>(tables.map->matrix(at.matrix).rows);
      at.row = static_cast<int64_t>(random() % (1 + random() % count));
    }
    tables.Read(rows);
    asked += rows.size();
  }
  const RowStatistics s = tables.cache->Statistics();
  EXPECT_EQ(s.hits + s.reads, asked);
  EXPECT_EQ(s.reads, tables.file->read_count());
  EXPECT_EQ(s.bytes_read, tables.file->bytes_read());
  EXPECT_LT(s.reads, asked);
}

TEST(RowCache, ReadsWhatIsAbsentTogetherAndEachRowOnce) {
  const Tables tables({{100, 16}, {100, 32}});
  std::vector<TableRow> rows;
  for (int64_t i = 0; i < 40; ++i) rows.push_back({0, i % 20});
  for (int64_t i = 0; i < 40; ++i) rows.push_back({1, i % 20});
  tables.Read(rows);
  EXPECT_EQ(tables.most_pending, RowCache::kRowsInFlight);
  EXPECT_EQ(tables.file->read_count(), 40);
  EXPECT_EQ(tables.cache->Statistics().hits, 40);
  tables.Read(rows);
  EXPECT_EQ(tables.file->read_count(), 40);
  EXPECT_EQ(tables.cache->Statistics().hits, 120);
}

TEST(RowCache, TheRowThatWasAskedForTheLongestAgoLeaves) {
  // Rows of 128 KiB, of which eight fit: one set.
  const Tables tables({{20, 32768}});
  for (int64_t row = 0; row < 8; ++row) tables.Read({{0, row}});
  tables.Read({{0, 0}});
  EXPECT_EQ(tables.file->read_count(), 8);
  tables.Read({{0, 8}});  // takes the slot of row 1
  EXPECT_EQ(tables.file->read_count(), 9);
  tables.Read({{0, 0}});
  tables.Read({{0, 2}});
  EXPECT_EQ(tables.file->read_count(), 9);
  tables.Read({{0, 1}});
  EXPECT_EQ(tables.file->read_count(), 10);
}

TEST(RowCache, WhatIsInMemoryAlreadyIsNotRead) {
  const Tables tables({{10, 16}});
  const std::vector<TableRow> rows = {{0, 4}, {0, 5}};
  const auto done = tables.cache->Read(
      rows,
      [](const TableRow& at, std::span<std::byte> out) {
        std::ranges::fill(out, static_cast<std::byte>(at.row));
        return at.row == 5;
      },
      [&](size_t i, std::span<const std::byte> row) -> Result<void> {
        EXPECT_EQ(row[0], i == 1 ? std::byte{5} : tables.Expected(rows[0])[0]);
        return {};
      });
  EXPECT_TRUE(done);
  EXPECT_EQ(tables.file->read_count(), 1);
  EXPECT_EQ(tables.cache->Statistics().hits, 1);
}

TEST(RowCache, AFailedReadNamesItsRowAndLeavesTheOthersRight) {
  const Tables tables({{200, 16}});
  std::vector<TableRow> rows;
  for (int64_t row = 0; row < 50; ++row) rows.push_back({0, row});
  tables.file->SetFaults({.broken_byte = 100 + 30 * 64 + 7});
  const auto failed =
      tables.cache->Read(rows, kNothingResident,
                         [](size_t, std::span<const std::byte>) -> Result<void> { return {}; });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_THAT(failed.error().message, HasSubstr("tensor 'table.0', row 30: m.gguf"));
  EXPECT_THAT(failed.error().message, HasSubstr(std::to_string(100 + 30 * 64)));
  tables.file->SetFaults({});
  tables.Read(rows);
}

TEST(RowCache, AnErrorOfTheCallerEndsTheRead) {
  const Tables tables({{200, 16}});
  std::vector<TableRow> rows;
  for (int64_t row = 0; row < 50; ++row) rows.push_back({0, row});
  int calls = 0;
  const auto failed = tables.cache->Read(rows, kNothingResident,
                                         [&](size_t, std::span<const std::byte>) -> Result<void> {
                                           if (++calls < 3) return {};
                                           return Fail(ErrorCode::kUnsupported, "enough");
                                         });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "enough");
  EXPECT_EQ(calls, 3);
  tables.Read(rows);
}

TEST(RowCache, ThreadsMayReadAtTheSameTime) {
  const Tables tables({{300, 16}, {300, 16}});
  std::vector<std::thread> threads;
  for (int32_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t pass = 0; pass < 50; ++pass) {
        tables.Read({{thread % 2, pass * 7 % 300}, {1, pass}, {0, 3 * pass}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const RowStatistics s = tables.cache->Statistics();
  EXPECT_EQ(s.hits + s.reads, 3 * 50 * 3);
}

TEST(RowCache, StaysSmallHoweverLargeTheTablesAre) {
  constexpr int64_t kManyRows = 1 << 20;
  const auto bytes_of = [](std::vector<int64_t> cols, MatrixUse use) {
    std::vector<WeightMatrix> matrices;
    for (const int64_t n : cols) {
      matrices.push_back({.name = "w",
                          .rows = kManyRows,
                          .cols = n,
                          .file = std::make_shared<EmptyFile>(),
                          .use = use});
    }
    return RowCache::Bytes(*TileMap::Create(std::move(matrices)));
  };
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(bytes_of({}, MatrixUse::kLookedUp), 0);
  EXPECT_EQ(bytes_of({64}, MatrixUse::kMultiplied), 0);
  EXPECT_EQ(bytes_of({64}, MatrixUse::kLookedUp), bytes_of({64}, MatrixUse::kBoth));
  for (const std::vector<int64_t>& cols :
       std::vector<std::vector<int64_t>>{{64}, {576}, {4096}, {1536, 8960}, {4096, 4096, 4096}}) {
    EXPECT_LE(bytes_of(cols, MatrixUse::kLookedUp), kMiB + kMiB / 4 + kMiB / 16) << cols.size();
  }
}

}  // namespace
}  // namespace thaw
