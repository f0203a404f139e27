#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace thaw {
namespace {

TEST(Interrupt, TheFirstSignalSetsTheFlagInsteadOfEndingTheProcess) {
  CatchInterrupts();
  EXPECT_FALSE(StopFlag());
  ASSERT_EQ(raise(SIGINT), 0);
  EXPECT_TRUE(StopFlag());
  EXPECT_TRUE(Interrupted());
  EXPECT_FALSE(TerminationRequested());
}

TEST(Interrupt, TellsTerminationFromCtrlC) {
  CatchInterrupts();
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_TRUE(Interrupted());
  EXPECT_TRUE(TerminationRequested());
}

TEST(Interrupt, CatchingAgainForgetsTheSignal) {
  CatchInterrupts();
  ASSERT_EQ(raise(SIGTERM), 0);
  CatchInterrupts();
  EXPECT_FALSE(StopFlag());
  EXPECT_FALSE(Interrupted());
  EXPECT_FALSE(TerminationRequested());
}

TEST(Interrupt, AProgramThatStopsItselfIsNotInterrupted) {
  CatchInterrupts();
  StopFlag() = true;
  EXPECT_FALSE(Interrupted());
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  const auto raise_twice = [] {
    CatchInterrupts();
    raise(SIGINT);
    raise(SIGTERM);
  };
  EXPECT_EXIT(raise_twice(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace thaw
