#include "residency/extent_allocator.h"

#include <gmock/gmock.h>

#include <random>
#include <utility>
#include <vector>

namespace thaw {
namespace {

TEST(ExtentAllocator, GivesTheLowestHoleThatIsLargeEnough) {
  ExtentAllocator extents(100);
  EXPECT_EQ(extents.Allocate(30), 0);
  EXPECT_EQ(extents.Allocate(20), 30);
  EXPECT_EQ(extents.Allocate(30), 50);
  extents.Free(30);
  EXPECT_EQ(extents.Allocate(21), std::nullopt);
  EXPECT_EQ(extents.Allocate(20), 30);
  EXPECT_EQ(extents.Allocate(20), 80);
  EXPECT_EQ(extents.Allocate(1), std::nullopt);
  EXPECT_EQ(extents.used_bytes(), 100);
}

TEST(ExtentAllocator, AllocatesNothingAboveALoweredLimit) {
  ExtentAllocator extents(100);
  ASSERT_EQ(extents.Allocate(40), 0);
  ASSERT_EQ(extents.Allocate(40), 40);
  extents.SetLimit(50);
  EXPECT_EQ(extents.end(), 80);
  EXPECT_EQ(extents.Allocate(1), std::nullopt);
  extents.Free(40);
  EXPECT_EQ(extents.end(), 40);
  EXPECT_EQ(extents.Allocate(11), std::nullopt);
  EXPECT_EQ(extents.Allocate(10), 40);
}

TEST(ExtentAllocator, AgreesWithAMapOfBytesOverManyRandomSteps) {
  constexpr uint64_t kLimit = 200;
  ExtentAllocator extents(kLimit);
  std::vector<int> owner(kLimit, 0);
  struct Held {
    uint64_t offset;
    uint64_t bytes;
    int id;
  };
  std::vector<Held> held;
  std::minstd_rand random(3);
  for (int id = 1; id < 20000; ++id) {
    if (random() % 2 == 0 && !held.empty()) {
      const size_t i = random() % held.size();
      for (uint64_t b = 0; b < held[i].bytes; ++b) {
        ASSERT_EQ(owner[held[i].offset + b], held[i].id);
        owner[held[i].offset + b] = 0;
      }
      extents.Free(held[i].offset);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const uint64_t bytes = 1 + random() % 40;
    uint64_t run = 0;
    uint64_t lowest = kLimit;
    for (uint64_t b = 0; b < kLimit && lowest == kLimit; ++b) {
      run = owner[b] == 0 ? run + 1 : 0;
      if (run == bytes) lowest = b + 1 - bytes;
    }
    const auto offset = extents.Allocate(bytes);
    ASSERT_EQ(offset.value_or(kLimit), lowest);
    if (!offset) continue;
    std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(*offset), bytes, id);
    held.push_back({*offset, bytes, id});
  }
}

TEST(ExtentAllocator, FreeRunsAreWhatExtentsLeave) {
  ExtentAllocator extents(100);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(extents.Allocate(10));
  extents.Free(10);
  extents.Free(30);
  const auto runs = [&](uint64_t begin, uint64_t end) {
    std::vector<std::pair<uint64_t, uint64_t>> pairs;
    for (const auto& run : extents.FreeRuns(begin, end)) pairs.emplace_back(run.begin, run.end);
    return pairs;
  };
  using ::testing::ElementsAre;
  using ::testing::Pair;
  EXPECT_THAT(runs(0, 80), ElementsAre(Pair(10, 20), Pair(30, 40), Pair(50, 80)));
  EXPECT_THAT(runs(15, 35), ElementsAre(Pair(15, 20), Pair(30, 35)));
  EXPECT_THAT(runs(20, 30), ElementsAre());
}

}  // namespace
}  // namespace thaw
