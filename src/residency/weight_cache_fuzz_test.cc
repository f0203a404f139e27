// Random operations on the weight cache, compared with a plain model of it: the bytes of the file,
// what is held, what is pinned by name and how many visits there were.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/memory_region.h"
#include "residency/cache_test_support.h"

// Operations in all; the stress test is built with 10 million.
#ifndef THAW_CACHE_OPERATIONS
#define THAW_CACHE_OPERATIONS 400000
#endif

namespace thaw {
namespace {

constexpr int64_t kOperations = THAW_CACHE_OPERATIONS;

// On one cache, before another one with other options takes its turn.
constexpr int64_t kOperationsPerCache = 10'000;

// 600 tiles of 2 to 16 KiB, 5 MiB in all: a miss costs a microsecond, and there are capacities
// between the least and all. With experts, every third matrix is of 4, of up to 8 KiB each, and
// there are 1200 tiles.
std::vector<MatrixShape> SmallShapes(bool with_experts) {
  std::vector<MatrixShape> shapes;
  std::minstd_rand random(17);
  for (int32_t i = 0; i < 600; ++i) {
    shapes.push_back({fmt::format("blk.{}.w{}", i / 20, i), i / 20,
                      i % 2 == 0 ? WeightGroup::kAttention : WeightGroup::kFeedForward,
                      static_cast<int64_t>(8 + random() % 57), /*cols=*/64});
    if (!with_experts || i % 3 != 0) continue;
    MatrixShape& experts = shapes.back();
    experts.group = WeightGroup::kExperts;
    experts.n_experts = 4;
    experts.n_used = 1;
    experts.rows = 4 * (1 + experts.rows / 2);
  }
  return shapes;
}

class CacheFuzz {
 public:
  CacheFuzz(const TestModel& model, uint32_t seed)
      : model_(model), random_(seed), cache_(model.Cache(RandomOptions())) {}

  void Run(int64_t operations) {
    for (int64_t i = 0; i < operations; ++i) {
      Step();
      if (i % 256 == 0) CheckCounts();
    }
    held_.clear();
    CheckCounts();
    CheckPlan();
  }

 private:
  struct Held {
    int32_t tile;
    PinnedTile handle;
  };

  // The least number of slots is three: with two handles held a visit can be served.
  static constexpr size_t kMostHeld = 2;

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }

  WeightCacheOptions RandomOptions() {
    policy_ = AllPolicies()[Below(static_cast<uint32_t>(AllPolicies().size()))];
    least_ = LeastCapacity(model_, *policy_);
    constexpr int kFar = WeightCacheOptions::kFarAhead;
    return {.capacity_bytes = RandomCapacity(),
            .policy = policy_,
            .frequency_window = 1 + static_cast<int>(Below(64)),
            .prefetch_ahead = std::array{kFar, kFar, 0, 1}[Below(4)],
            .synchronous_prefetch = Below(16) == 0,
            .io_threads = 1 + static_cast<int>(Below(2))};
  }

  uint64_t RandomCapacity() {
    const uint64_t full = FullCapacity(model_.Map(), *policy_);
    return least_ + Below(static_cast<uint32_t>(full - least_ + kHugePageBytes));
  }

  int32_t RandomTile() {
    return static_cast<int32_t>(Below(static_cast<uint32_t>(cache_->map().tile_count())));
  }

  std::vector<int32_t> RandomMatrices(uint32_t most) {
    std::vector<int32_t> matrices(1 + Below(most));
    for (int32_t& matrix : matrices) {
      matrix = static_cast<int32_t>(Below(static_cast<uint32_t>(cache_->map().matrices().size())));
    }
    return matrices;
  }

  void Step() {
    const uint32_t dice = Below(20'000);
    if (dice < 15'000) {
      VisitNext();
    } else if (dice < 16'500) {
      const int32_t tile = RandomTile();
      if (const auto resident = cache_->PinIfResident(tile)) Check(tile, resident->data());
    } else if (dice < 17'500) {
      Hold();
    } else if (dice < 18'500) {
      Release();
    } else if (dice < 19'900) {
      VisitTile(RandomTile());
    } else if (dice < 19'960) {
      CheckRow();
    } else if (dice < 19'980) {
      BeginPass();
      Expect();
    } else if (dice < 19'990) {
      ChangeCapacity();
    } else if (dice < 19'994) {
      EXPECT_TRUE(cache_->Preload(RandomMatrices(100), kKeepGoing));
    } else if (dice < 19'996) {
      EXPECT_TRUE(cache_->Optimize());
    } else if (dice < 19'999) {
      PinByName();
    } else {
      EXPECT_TRUE(cache_->Verify(kKeepGoing));
    }
  }

  void BeginPass() {
    const int32_t tiles = cache_->map().tile_count();
    end_ = Below(3) == 0 ? RandomTile() : tiles;
    next_ = 0;
    ASSERT_TRUE(cache_->BeginPass(end_));
  }

  // Tiles of experts that may be visited or not, and in another order.
  void Expect() {
    std::vector<int32_t> tiles;
    for (int i = 0; i < 12; ++i) {
      const int32_t tile = RandomTile();
      if (cache_->map().is_chosen(tile)) tiles.push_back(tile);
    }
    cache_->Expect(tiles);
  }

  void VisitNext() {
    if (Below(64) == 0) Expect();
    if (next_ >= end_) return BeginPass();
    VisitTile(next_);
    next_ += Below(50) == 0 ? 2 : 1;
  }

  void VisitTile(int32_t tile) {
    LetGoWhatIsTooMuch();
    const auto pinned = cache_->Pin(tile);
    ++visits_;
    ASSERT_TRUE(pinned);
    Check(tile, pinned->data());
  }

  void Hold() {
    LetGoWhatIsTooMuch();
    if (held_.size() == MostHeld()) return;
    const int32_t tile = RandomTile();
    auto pinned = cache_->Pin(tile);
    ++visits_;
    ASSERT_TRUE(pinned);
    held_.push_back({tile, *std::move(pinned)});
  }

  // With more held, what is free of little memory may lie in pieces that are too small to go on.
  size_t MostHeld() const { return cache_->capacity_bytes() < 2 * least_ ? 1 : kMostHeld; }

  void LetGoWhatIsTooMuch() {
    while (held_.size() > MostHeld()) Release();
  }

  void Release() {
    if (held_.empty()) return;
    const auto which = held_.begin() + Below(static_cast<uint32_t>(held_.size()));
    EXPECT_TRUE(model_.IsExpected(*cache_, which->tile, which->handle.data()));
    held_.erase(which);
  }

  // Three words of most, every byte of some.
  void Check(int32_t tile, std::span<const std::byte> data) {
    const Tile& where = cache_->map().tile(tile);
    ASSERT_EQ(data.size(), where.bytes);
    if (Below(32) == 0) {
      ASSERT_TRUE(model_.IsExpected(*cache_, tile, data)) << tile;
      return;
    }
    for (const uint64_t at : {uint64_t{0}, where.bytes / 2, where.bytes - 8}) {
      const auto expected = model_.ThawedBytes(where.offset + at, 8);
      ASSERT_EQ(std::memcmp(data.data() + at, expected.data(), 8), 0);
    }
  }

  void CheckRow() {
    const int32_t matrix = RandomMatrices(1).front();
    const WeightMatrix& source = cache_->map().matrix(matrix);
    const auto row = static_cast<int64_t>(Below(static_cast<uint32_t>(source.rows)));
    const std::vector<std::byte> bytes = RowOf(*cache_, matrix, row);
    ASSERT_EQ(std::ssize(bytes), source.row_bytes());
    const uint64_t offset = source.offset + static_cast<uint64_t>(row) * bytes.size();
    EXPECT_EQ(std::memcmp(bytes.data(), model_.Bytes(offset, bytes.size()).data(), bytes.size()),
              0);
  }

  void ChangeCapacity() {
    const uint64_t capacity = RandomCapacity();
    const bool fits = capacity >= MinimumCapacity(cache_->map(), *policy_, cache_->pinned_tiles());
    EXPECT_EQ(cache_->SetCapacity(capacity).has_value(), fits);
    EXPECT_TRUE(!fits || cache_->capacity_bytes() <= capacity);
  }

  void PinByName() {
    const std::vector<int32_t> matrices = RandomMatrices(10);
    std::vector<char> pinned = cache_->pinned_tiles();
    for (const int32_t matrix : matrices) {
      const TileMap::Range& tiles = cache_->map().tiles_of(matrix);
      for (int32_t tile = tiles.first; tile < tiles.first + tiles.count; ++tile) {
        pinned[static_cast<size_t>(tile)] = 1;
      }
    }
    const bool fits = cache_->capacity_bytes() >= MinimumCapacity(cache_->map(), *policy_, pinned);
    EXPECT_EQ(cache_->PinMatrices(matrices).has_value(), fits);
    EXPECT_TRUE(!fits || cache_->pinned_tiles() == pinned);
  }

  void CheckCounts() {
    const CacheStatistics s = cache_->Statistics();
    EXPECT_EQ(s.hits + s.misses, visits_);
    std::set<int32_t> held;
    uint64_t held_bytes = 0;
    for (const Held& h : held_) {
      if (held.insert(h.tile).second) held_bytes += cache_->map().tile(h.tile).bytes;
    }
    EXPECT_EQ(s.pinned_bytes, held_bytes);
    EXPECT_LE(s.resident_bytes, s.capacity_bytes + held_bytes);
    EXPECT_LE(s.resident_bytes, s.weight_bytes);
  }

  // With nothing held every tile that should have a place gets it, the pinned ones among them.
  void CheckPlan() {
    RunPassesUntilPlanIsReached(*cache_, model_);
    const std::vector<char> pinned = cache_->pinned_tiles();
    for (int32_t tile = 0; tile < cache_->map().tile_count(); ++tile) {
      EXPECT_TRUE(pinned[static_cast<size_t>(tile)] == 0 || cache_->HasPlace(tile));
    }
    ASSERT_TRUE(cache_->Preload(kKeepGoing));
    const CacheStatistics s = cache_->Statistics();
    EXPECT_EQ(PlacedBytes(*cache_), s.shares.resident_bytes);
    EXPECT_LE(s.shares.resident_bytes + s.slot_bytes, s.capacity_bytes);
    EXPECT_GE(s.resident_bytes, s.shares.resident_bytes);
  }

  const TestModel& model_;
  std::minstd_rand random_;
  const Policy* policy_ = nullptr;
  uint64_t least_ = 0;
  std::unique_ptr<WeightCache> cache_;
  std::vector<Held> held_;
  uint64_t visits_ = 0;
  int32_t next_ = 0;
  int32_t end_ = 0;
};

TEST(WeightCacheFuzz, RandomOperationsAgreeWithAPlainModel) {
  const TestModel dense(SmallShapes(/*with_experts=*/false));
  const TestModel experts(SmallShapes(/*with_experts=*/true));
  bool takes_experts = false;
  for (int64_t done = 0; done < kOperations && !::testing::Test::HasFailure();
       done += kOperationsPerCache) {
    const std::string seed = fmt::format("seed {}", done + 1);
    const Watchdog watchdog(seed);
    SCOPED_TRACE(seed);
    takes_experts = !takes_experts;
    const TestModel& model = takes_experts ? experts : dense;
    CacheFuzz(model, static_cast<uint32_t>(done + 1)).Run(kOperationsPerCache);
  }
}

}  // namespace
}  // namespace thaw
