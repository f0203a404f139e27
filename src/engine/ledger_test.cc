#include "engine/ledger.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace thaw {
namespace {

using ::testing::HasSubstr;

TEST(Ledger, GivesNoMoreThanItsLimit) {
  Ledger ledger(100);
  const auto first = ledger.Reserve("weights", 70);
  ASSERT_TRUE(first);
  const auto second = ledger.Reserve("KV cache", 31);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(second.error().message, HasSubstr("31 B for KV cache"));
  EXPECT_THAT(second.error().message, HasSubstr("30 B are left"));
  EXPECT_TRUE(ledger.Reserve("KV cache", 30));
}

TEST(Ledger, TakesBackWhatGoes) {
  Ledger ledger(100);
  {
    auto held = *ledger.Reserve("a", 60);
    const Reservation moved = std::move(held);
    EXPECT_EQ(ledger.claimed(), 60);
    EXPECT_EQ(ledger.claimed("a"), 60);
    EXPECT_EQ(ledger.claimed("b"), 0);
  }
  EXPECT_EQ(ledger.claimed(), 0);
  EXPECT_EQ(ledger.free(), 100);
}

TEST(Ledger, AResizeIsAllOrNothing) {
  Ledger ledger(100);
  auto a = *ledger.Reserve("a", 40);
  const auto b = *ledger.Reserve("b", 40);
  EXPECT_FALSE(a.Resize(61));
  EXPECT_EQ(a.bytes(), 40);
  EXPECT_TRUE(a.Resize(60));
  EXPECT_EQ(ledger.free(), 0);
  EXPECT_TRUE(a.Resize(10));
  EXPECT_EQ(ledger.free(), 50);
}

TEST(Ledger, ALowerLimitIsReachedByGivingBack) {
  Ledger ledger(100);
  auto a = *ledger.Reserve("a", 80);
  ledger.SetLimit(50);
  EXPECT_EQ(ledger.free(), 0);
  EXPECT_FALSE(ledger.Reserve("b", 1));
  EXPECT_TRUE(a.Resize(49));
  EXPECT_TRUE(ledger.Reserve("b", 1));
}

TEST(Ledger, HoldsItsLimitAmongThreads) {
  Ledger ledger(1000);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        const auto held = ledger.Reserve("x", 300);
        if (ledger.claimed() > 1000) exceeded = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(ledger.claimed(), 0);
}

}  // namespace
}  // namespace thaw
