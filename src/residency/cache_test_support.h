// What the tests of the weight cache share: models of random bytes in memory or on disk, passes
// over them that compare every byte, and a watchdog that turns a deadlock into a failure.
//
// A TestModel keeps its bytes and its file for as long as it lives; caches made over it must go
// first. Expected() may be called by any thread.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/faulty_file.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"
#include "io/uncached_file.h"
#include "residency/weight_cache.h"
#include "tensor/packed_rows.h"

namespace thaw {

inline constexpr auto kKeepGoing = [](uint64_t, uint64_t) { return true; };

// Stops the program when it lives for longer than any test may take, also with sanitizers, and says
// in which part of it. Time that the whole program stands still, as a machine that is suspended,
// does not count.
class Watchdog {
 public:
  explicit Watchdog(std::string part = {}) : part_(std::move(part)), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  static constexpr int kMostSeconds = 200;

  void Watch() {
    std::unique_lock lock(mutex_);
    for (int second = 0; second < kMostSeconds; ++second) {
      if (changed_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) return;
    }
    std::fputs(("the watchdog stops a test that does not end " + part_ + "\n").c_str(), stderr);
    std::abort();
  }

  std::string part_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

struct MatrixShape {
  std::string name;
  int32_t layer = 0;
  WeightGroup group = WeightGroup::kAttention;
  int64_t rows = 0;
  int64_t cols = 1024;  // of float32: 4 KiB a row, so up to 128 rows a tile
  bool is_packed = false;
  int64_t n_experts = 0;
  int64_t n_used = 0;
};

// Each layer one tile of 400 KiB and two, packed, of 448 and 352 KiB; last an output matrix of 240
// KiB, packed.
inline std::vector<MatrixShape> LayeredShapes(int32_t layers) {
  std::vector<MatrixShape> shapes;
  for (int32_t layer = 0; layer < layers; ++layer) {
    shapes.push_back({fmt::format("blk.{}.attn", layer), layer, WeightGroup::kAttention, 100});
    shapes.push_back(
        {fmt::format("blk.{}.ffn", layer), layer, WeightGroup::kFeedForward, 200, 1024, true});
  }
  shapes.push_back({"output", layers, WeightGroup::kOutput, 60, 1024, true});
  return shapes;
}

// Each layer one tile of 400 KiB, and 8 experts, of which a pass uses 2, of one packed tile of 256
// KiB each; last an output matrix of 240 KiB.
inline std::vector<MatrixShape> ExpertShapes(int32_t layers) {
  std::vector<MatrixShape> shapes;
  for (int32_t layer = 0; layer < layers; ++layer) {
    shapes.push_back({fmt::format("blk.{}.attn", layer), layer, WeightGroup::kAttention, 100});
    shapes.push_back({fmt::format("blk.{}.experts", layer), layer, WeightGroup::kExperts, 8 * 64,
                      1024, true, 8, 2});
  }
  shapes.push_back({"output", layers, WeightGroup::kOutput, 60});
  return shapes;
}

// One tile of `tile_bytes` each, a multiple of 4 KiB up to 512 KiB: arithmetic stays exact.
inline std::vector<MatrixShape> EqualShapes(int32_t tiles, uint64_t tile_bytes = 512 << 10) {
  std::vector<MatrixShape> shapes;
  for (int32_t tile = 0; tile < tiles; ++tile) {
    shapes.push_back({fmt::format("w{}", tile), tile, WeightGroup::kAttention,
                      static_cast<int64_t>(tile_bytes / 4096)});
  }
  return shapes;
}

class TestModel {
 public:
  // In memory, read through a FaultyFile.
  explicit TestModel(std::vector<MatrixShape> shapes, FileFaults faults = {})
      : shapes_(std::move(shapes)), bytes_(RandomBytes(FileBytes(shapes_))) {
    faulty_ = std::make_shared<FaultyFile>(std::make_shared<MemoryFile>("m.gguf", bytes_),
                                           std::move(faults));
    file_ = faulty_;
    Thaw();
  }

  // On disk in `folder`, read past the page cache where the file system has direct reads.
  TestModel(std::vector<MatrixShape> shapes, const TemporaryDirectory& folder)
      : shapes_(std::move(shapes)), bytes_(RandomBytes(FileBytes(shapes_))) {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    file_ = std::make_shared<UncachedFile>(*OpenFile(folder.Write("m.gguf", text)));
    Thaw();
  }

  TileMap Map() const {
    std::vector<WeightMatrix> matrices;
    uint64_t offset = kDataOffset;
    for (const MatrixShape& shape : shapes_) {
      matrices.push_back({.name = shape.name,
                          .type = ElementType::kF32,
                          .rows = shape.rows,
                          .cols = shape.cols,
                          .file = file_,
                          .offset = offset,
                          .layer = shape.layer,
                          .group = shape.group,
                          .use = MatrixUse::kBoth,
                          .is_packed = shape.is_packed,
                          .n_experts = shape.n_experts,
                          .n_used = shape.n_used});
      offset += BytesOf(shape);
    }
    return *TileMap::Create(std::move(matrices));
  }

  std::unique_ptr<WeightCache> Cache(const WeightCacheOptions& options = {}) const {
    auto cache = WeightCache::Create(Map(), options);
    if (cache) return *std::move(cache);
    ADD_FAILURE() << cache.error().message;
    return nullptr;
  }

  FaultyFile& file() { return *faulty_; }

  bool IsExpected(const WeightCache& cache, int32_t tile, std::span<const std::byte> data) const {
    const Tile& where = cache.map().tile(tile);
    return data.size() == where.bytes &&
           std::memcmp(data.data(), thawed_.data() + where.offset, where.bytes) == 0;
  }
  // As the file has them, and as the tiles there should be in memory.
  std::span<const std::byte> Bytes(uint64_t offset, uint64_t count) const {
    return std::span(bytes_).subspan(offset, count);
  }
  std::span<const std::byte> ThawedBytes(uint64_t offset, uint64_t count) const {
    return std::span(thawed_).subspan(offset, count);
  }

 private:
  // As in a model file, the weights begin somewhere behind the metadata.
  static constexpr uint64_t kDataOffset = 1056;

  void Thaw() {
    thawed_ = bytes_;
    const TileMap map = Map();
    std::vector<std::byte> scratch(map.thaw_scratch_bytes());
    for (const Tile& tile : map.tiles()) {
      const WeightMatrix& matrix = map.matrix(tile.matrix);
      if (!matrix.is_packed) continue;
      std::byte* rows = thawed_.data() + tile.offset;
      PackRows(matrix.type, matrix.cols, tile.row_count, rows, rows, scratch.data());
    }
  }

  static uint64_t BytesOf(const MatrixShape& shape) {
    return static_cast<uint64_t>(shape.rows * shape.cols) * 4;
  }
  static uint64_t FileBytes(const std::vector<MatrixShape>& shapes) {
    uint64_t bytes = kDataOffset;
    for (const MatrixShape& shape : shapes) bytes += BytesOf(shape);
    return bytes;
  }
  static std::vector<std::byte> RandomBytes(size_t count) {
    std::vector<uint64_t> words(count / 8 + 1);
    std::mt19937_64 random(7);
    // Without the highest bit of their exponents, which makes all of them finite numbers.
    for (uint64_t& word : words) word = random() & 0xbfffffffbfffffff;
    std::vector<std::byte> bytes(count);
    std::memcpy(bytes.data(), words.data(), count);
    return bytes;
  }

  std::vector<MatrixShape> shapes_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> thawed_;
  std::shared_ptr<FaultyFile> faulty_;
  std::shared_ptr<const File> file_;
};

inline std::vector<int32_t> TilesOf(int32_t begin, int32_t end) {
  std::vector<int32_t> tiles(static_cast<size_t>(end - begin));
  std::iota(tiles.begin(), tiles.end(), begin);
  return tiles;
}

// Visits `tiles` once each, in their order, by `threads` that each take the next.
inline void Visit(WeightCache& cache, const TestModel& model, std::span<const int32_t> tiles,
                  int threads = 1) {
  std::atomic<size_t> next{0};
  std::atomic<int> wrong{0};
  const auto work = [&] {
    for (size_t i = next++; i < tiles.size(); i = next++) {
      const auto pinned = cache.Pin(tiles[i]);
      if (!pinned || !model.IsExpected(cache, tiles[i], pinned->data())) ++wrong;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(wrong, 0);
}

inline void RunPass(WeightCache& cache, const TestModel& model, int threads = 1) {
  const int32_t end = cache.map().tile_count();
  ASSERT_TRUE(cache.BeginPass(end));
  Visit(cache, model, TilesOf(0, end), threads);
}

// One row through the cache.
inline std::vector<std::byte> RowOf(WeightCache& cache, int32_t matrix, int64_t row) {
  std::vector<std::byte> bytes;
  const TableRow rows[] = {{matrix, row}};
  const auto done =
      cache.ReadRows(rows, [&](size_t, std::span<const std::byte> of_row) -> Result<void> {
        bytes.assign(of_row.begin(), of_row.end());
        return {};
      });
  EXPECT_TRUE(done);
  return bytes;
}

// Of the tiles that have a place now.
inline uint64_t PlacedBytes(const WeightCache& cache) {
  uint64_t bytes = 0;
  for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) {
    if (cache.HasPlace(tile)) bytes += cache.map().tile(tile).bytes;
  }
  return bytes;
}

// Reads that were under way when the plan changed keep their memory until they end.
inline void RunPassesUntilPlanIsReached(WeightCache& cache, const TestModel& model) {
  constexpr int kManyPasses = 1000;
  const auto slot_bytes = [&] { return cache.slot_bytes(); };
  const CacheStatistics plan = cache.Statistics();
  for (int pass = 0; pass < kManyPasses; ++pass) {
    const bool is_reached =
        PlacedBytes(cache) == plan.shares.resident_bytes && slot_bytes() == plan.slot_bytes;
    RunPass(cache, model);  // also then: what got its place last is read to it by this pass
    if (is_reached) return;
  }
  ADD_FAILURE() << PlacedBytes(cache) << " bytes have places instead of "
                << plan.shares.resident_bytes << ", " << slot_bytes() << " are slots instead of "
                << plan.slot_bytes;
}

// What changed between two snapshots.
struct CountedSince {
  explicit CountedSince(const WeightCache& cache) : cache_(cache), before_(cache.Statistics()) {}
  uint64_t hits() const { return cache_.Statistics().hits - before_.hits; }
  uint64_t misses() const { return cache_.Statistics().misses - before_.misses; }
  uint64_t miss_bytes() const { return cache_.Statistics().miss_bytes - before_.miss_bytes; }
  uint64_t bytes_read() const { return cache_.Statistics().bytes_read - before_.bytes_read; }

 private:
  const WeightCache& cache_;
  CacheStatistics before_;
};

inline uint64_t LeastCapacity(const TestModel& model, const Policy& policy) {
  const TileMap map = model.Map();
  return MinimumCapacity(map, policy, std::vector<char>(static_cast<size_t>(map.tile_count()), 0));
}

inline std::unique_ptr<WeightCache> CacheOf(TileMap map, const WeightCacheOptions& options = {}) {
  auto cache = WeightCache::Create(std::move(map), options);
  if (cache) return *std::move(cache);
  ADD_FAILURE() << cache.error().message;
  return nullptr;
}

}  // namespace thaw
