#include "residency/policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace thaw {
namespace {

using ::testing::HasSubstr;

TEST(Policy, IsFoundByItsNameAndAnUnknownNameListsThem) {
  for (const Policy* policy : AllPolicies()) EXPECT_EQ(*FindPolicy(policy->name()), policy);
  EXPECT_EQ(AllPolicies().front()->name(), "planned");
  const auto unknown = FindPolicy("clock");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("planned, lru, lfu, mru, keep-all, off"));
}

TEST(Policy, PlaceOrdersNameEveryTileOnce) {
  for (const Policy* policy : AllPolicies()) {
    const std::vector<int32_t> order = policy->PlaceOrder(std::vector<TileUse>(57));
    const std::set<int32_t> tiles(order.begin(), order.end());
    EXPECT_EQ(order.size(), 57) << policy->name();
    EXPECT_EQ(tiles.size(), 57) << policy->name();
    EXPECT_EQ(*tiles.rbegin(), 56) << policy->name();
  }
}

TEST(Policy, EveryBeginningOfTheSpreadOrderLiesEvenly) {
  constexpr int32_t kTiles = 500;
  const std::vector<int32_t> order = SpreadOrder(kTiles);
  for (const int32_t taken : {5, 20, 100, 250, 400}) {
    std::vector<int32_t> tiles(order.begin(), order.begin() + taken);
    std::ranges::sort(tiles);
    int32_t widest = kTiles - tiles.back() + tiles.front();
    for (size_t i = 1; i < tiles.size(); ++i) widest = std::max(widest, tiles[i] - tiles[i - 1]);
    // Between multiples of the golden ratio no gap is wider than 2.62 times the mean.
    EXPECT_LE(widest, 2.7 * kTiles / taken + 1) << taken;
  }
}

TEST(Policy, LruLetsTheOldestGoAndMruTheYoungest) {
  const TileUse old_tile = {.last_visit = 3, .window_visits = 9};
  const TileUse young_tile = {.last_visit = 8, .window_visits = 1};
  EXPECT_TRUE(LruPolicy().LeavesBefore(old_tile, young_tile));
  EXPECT_FALSE(LruPolicy().LeavesBefore(young_tile, old_tile));
  EXPECT_TRUE(MruPolicy().LeavesBefore(young_tile, old_tile));
  EXPECT_FALSE(MruPolicy().LeavesBefore(old_tile, young_tile));
}

TEST(Policy, LfuLetsTheRarestGoAndTheOldestAmongEquals) {
  EXPECT_TRUE(LfuPolicy().LeavesBefore({.last_visit = 8, .window_visits = 1},
                                       {.last_visit = 3, .window_visits = 9}));
  EXPECT_TRUE(LfuPolicy().LeavesBefore({.last_visit = 3, .window_visits = 2},
                                       {.last_visit = 8, .window_visits = 2}));
}

TEST(Policy, PlannedGivesPlacesToWhatIsVisitedMost) {
  std::vector<TileUse> uses(10);
  uses[7].window_visits = 3;
  uses[2].window_visits = 5;
  const std::vector<int32_t> order = PlannedPolicy().PlaceOrder(uses);
  EXPECT_EQ(order[0], 2);
  EXPECT_EQ(order[1], 7);
}

}  // namespace
}  // namespace thaw
