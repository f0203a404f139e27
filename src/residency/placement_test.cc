#include "residency/placement.h"

#include <gmock/gmock.h>

#include "base/memory_region.h"
#include "residency/cache_test_support.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

std::vector<char> NonePinned(const TileMap& map) {
  return std::vector<char>(static_cast<size_t>(map.tile_count()), 0);
}

Result<PlacementTargets> Choose(const TileMap& map, const Policy& policy, uint64_t capacity,
                                const std::vector<char>& pinned) {
  const std::vector<TileUse> uses(pinned.size());
  return ChoosePlacement(map, policy, uses, pinned, capacity);
}

TEST(Placement, EveryTileCanBeHeldAtEveryCapacityFromTheMinimum) {
  const TestModel model(LayeredShapes(12));
  const TileMap map = model.Map();
  std::vector<char> some(NonePinned(map));
  some[3] = some[8] = 1;
  for (const Policy* policy : AllPolicies()) {
    for (const std::vector<char>& pinned : {NonePinned(map), some}) {
      const uint64_t minimum = MinimumCapacity(map, *policy, pinned);
      const uint64_t full = FullCapacity(map, *policy);
      EXPECT_FALSE(Choose(map, *policy, minimum - 1, pinned));
      for (uint64_t capacity = minimum; capacity <= full + kHugePageBytes;
           capacity += kHugePageBytes) {
        const auto targets = Choose(map, *policy, capacity, pinned);
        ASSERT_TRUE(targets) << policy->name();
        uint64_t placed_span = 0;
        uint64_t placed_bytes = 0;
        bool all_placed = true;
        for (size_t tile = 0; tile < pinned.size(); ++tile) {
          EXPECT_GE(targets->placed[tile], pinned[tile]);
          all_placed &= targets->placed[tile] != 0;
          if (targets->placed[tile] == 0) continue;
          placed_span += map.tile(static_cast<int32_t>(tile)).span_bytes;
          placed_bytes += map.tile(static_cast<int32_t>(tile)).bytes;
        }
        EXPECT_LE(placed_span + targets->slot_bytes, targets->capacity_bytes);
        EXPECT_LE(targets->capacity_bytes, capacity);
        EXPECT_EQ(targets->shares.resident_bytes, placed_bytes);
        EXPECT_EQ(targets->shares.streamed_bytes, map.weight_bytes() - placed_bytes);
        EXPECT_TRUE(all_placed || targets->slots >= 1) << policy->name() << " at " << capacity;
      }
    }
  }
}

TEST(Placement, APolicyWithoutPlacesKeepsSlotsForSmallTilesBesidePinnedLargeOnes) {
  // The unpinned rest is smaller than a slot, which must hold the largest tile.
  const TestModel model({{"big0", 0, WeightGroup::kAttention, 125},
                         {"big1", 0, WeightGroup::kAttention, 125},
                         {"big2", 0, WeightGroup::kAttention, 125},
                         {"big3", 0, WeightGroup::kAttention, 125},
                         {"small", 1, WeightGroup::kOutput, 8}});
  const TileMap map = model.Map();
  const std::vector<char> pinned = {1, 1, 1, 1, 0};
  for (const Policy* policy : {&LruPolicy(), &OffPolicy()}) {
    const auto targets = Choose(map, *policy, MinimumCapacity(map, *policy, pinned), pinned);
    ASSERT_TRUE(targets);
    EXPECT_TRUE(targets->placed[4] != 0 || targets->slots >= 1) << policy->name();
  }
}

TEST(Placement, TooSmallACapacityIsRefusedWithTheOneThatWouldDo) {
  const TestModel model(LayeredShapes(12));
  const TileMap map = model.Map();
  const auto planned = Choose(map, PlannedPolicy(), 1 << 20, NonePinned(map));
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(planned.error().message, HasSubstr("policy 'planned' needs 2.0 MiB"));
  const auto keep_all = Choose(map, KeepAllPolicy(), 4 << 20, NonePinned(map));
  ASSERT_FALSE(keep_all);
  EXPECT_THAT(keep_all.error().message, HasSubstr("policy 'keep-all' needs 16.0 MiB"));
  const std::vector<char> everything(NonePinned(map).size(), 1);
  const auto pinned = Choose(map, PlannedPolicy(), 4 << 20, everything);
  ASSERT_FALSE(pinned);
  EXPECT_THAT(pinned.error().message, HasSubstr("with what is pinned"));
}

TEST(Placement, PlannedPlacesAsManyBytesAsFitBesideTheRing) {
  const TestModel model(EqualShapes(40, 256 << 10));
  const TileMap map = model.Map();
  for (const uint64_t mebibytes : {2, 4, 6, 8}) {
    const auto targets = Choose(map, PlannedPolicy(), mebibytes << 20, NonePinned(map));
    ASSERT_TRUE(targets);
    const uint64_t room = targets->capacity_bytes - targets->slot_bytes;
    EXPECT_GT(targets->shares.resident_bytes + 2 * map.largest_span_bytes(), room);
  }
}

TEST(Placement, PinnedTilesComeFirst) {
  const TestModel model(EqualShapes(20));
  const TileMap map = model.Map();
  std::vector<char> pinned = NonePinned(map);
  pinned[17] = pinned[4] = 1;
  const auto targets = Choose(map, PlannedPolicy(), 4 << 20, pinned);
  ASSERT_TRUE(targets);
  EXPECT_THAT(std::span(targets->order).first(2), ::testing::UnorderedElementsAre(17, 4));
}

TEST(Placement, AStarStandsForAnyCharacters) {
  EXPECT_TRUE(MatchesPattern("blk.3.attn_q.weight", "blk.*.attn_*"));
  EXPECT_TRUE(MatchesPattern("blk.3.attn_q.weight", "*"));
  EXPECT_TRUE(MatchesPattern("aab", "*ab"));
  EXPECT_TRUE(MatchesPattern("ab", "a*b*"));
  EXPECT_TRUE(MatchesPattern("", "**"));
  EXPECT_FALSE(MatchesPattern("blk.3.attn_q.weight", "blk.*.ffn*"));
  EXPECT_FALSE(MatchesPattern("abc", "ab"));
  EXPECT_FALSE(MatchesPattern("ab", "abc"));
  EXPECT_FALSE(MatchesPattern("", "a*"));
}

TEST(Placement, APatternThatMatchesNothingIsNamed) {
  const TestModel model(LayeredShapes(2));
  const TileMap map = model.Map();
  const std::vector<std::string> patterns = {"blk.0.*", "blk.7.*"};
  const auto matched = MatchTiles(map, patterns);
  ASSERT_FALSE(matched);
  EXPECT_EQ(matched.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(matched.error().message, HasSubstr("'blk.7.*'"));
}

TEST(Placement, PatternsTogetherMatchWhatEachMatches) {
  const TestModel model(LayeredShapes(2));
  const std::vector<std::string> patterns = {"output", "blk.1.ffn"};
  const auto matched = MatchTiles(model.Map(), patterns);
  ASSERT_TRUE(matched);
  EXPECT_THAT(*matched, ::testing::ElementsAre(0, 0, 0, 0, 1, 1, 1));
}

TEST(Placement, ExpertsGetTheMemoryThatTheOthersLeave) {
  const TestModel model(ExpertShapes(6));
  const TileMap map = model.Map();
  const std::vector<char> none = NonePinned(map);
  uint64_t others = 0;  // spans of what every pass visits
  uint64_t expert = 0;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    if (map.is_chosen(tile)) {
      expert = std::max(expert, map.tile(tile).span_bytes);
    } else {
      others += map.tile(tile).span_bytes;
    }
  }
  const uint64_t minimum = MinimumCapacity(map, PlannedPolicy(), none);
  double least_read = 1e18;
  for (uint64_t capacity = minimum; capacity < map.span_bytes(); capacity += kHugePageBytes) {
    const auto targets = Choose(map, PlannedPolicy(), capacity, none);
    ASSERT_TRUE(targets) << targets.error().message;
    const bool fit = others + 3 * expert <= targets->capacity_bytes;
    EXPECT_EQ(targets->shares.streamed_bytes == 0, fit) << capacity;
    for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
      if (fit || map.is_chosen(tile)) {
        EXPECT_EQ(targets->placed[static_cast<size_t>(tile)] != 0, !map.is_chosen(tile));
      }
    }
    if (fit) {
      EXPECT_EQ(targets->slot_span_bytes, expert) << "no larger tile needs a slot";
      EXPECT_GT((targets->slots + 1) * expert + others, targets->capacity_bytes);
    }
    EXPECT_LE(targets->shares.read_bytes_per_token, least_read);
    least_read = targets->shares.read_bytes_per_token;
    EXPECT_EQ(targets->shares.resident_bytes + targets->shares.streamed_bytes +
                  targets->shares.expert_bytes,
              map.weight_bytes());
  }
  const auto all = Choose(map, PlannedPolicy(), FullCapacity(map, PlannedPolicy()), none);
  EXPECT_TRUE(all->shares.HoldsAll());
  EXPECT_EQ(all->slots, 0);
  EXPECT_EQ(all->shares.HitRateBytes(), 1);
}

TEST(Placement, ExpectsOfExpertsWhatUniformUseGives) {
  const TestModel model(ExpertShapes(6));
  const TileMap map = model.Map();
  const auto targets = Choose(map, PlannedPolicy(), 10 << 20, NonePinned(map));
  ASSERT_TRUE(targets);
  const double kept = static_cast<double>(targets->slots) / 48;
  ASSERT_LT(kept, 1);
  // Of 8 experts in each of 6 layers a token uses 2, of 256 KiB each.
  EXPECT_DOUBLE_EQ(targets->shares.read_bytes_per_token, (1 - kept) * 12 * (256 << 10));
}

}  // namespace
}  // namespace thaw
