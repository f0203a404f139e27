#include "residency/visit_schedule.h"

#include <gmock/gmock.h>

namespace thaw {
namespace {

TEST(VisitSchedule, DistanceCountsVisitsUntilATileComesAgain) {
  VisitSchedule schedule(10);
  schedule.BeginPass(10);
  schedule.Visit(3);
  EXPECT_EQ(schedule.Distance(4), 0);
  EXPECT_EQ(schedule.Distance(9), 5);
  EXPECT_EQ(schedule.Distance(0), 6);
  EXPECT_EQ(schedule.Distance(3), 9);
}

TEST(VisitSchedule, WhatAnEarlyEndedPassLeavesOutIsACycleFartherAway) {
  VisitSchedule schedule(10);
  schedule.BeginPass(6);
  EXPECT_TRUE(schedule.IsVisited(5));
  EXPECT_FALSE(schedule.IsVisited(6));
  EXPECT_EQ(schedule.Distance(5), 5);
  EXPECT_EQ(schedule.Distance(6), 16);
}

TEST(VisitSchedule, VisitsOutOfOrderDoNotTurnTimeBack) {
  VisitSchedule schedule(10);
  schedule.BeginPass(10);
  schedule.Visit(5);
  schedule.Visit(2);
  EXPECT_EQ(schedule.now(), 6);
}

TEST(VisitSchedule, TheCursorIsNeverBehindNowAndTheHorizonOneCycleAhead) {
  VisitSchedule schedule(4);
  schedule.BeginPass(4);
  for (int i = 0; i < 3; ++i) schedule.AdvanceCursor();
  EXPECT_EQ(schedule.cursor(), 3);
  schedule.Visit(3);
  EXPECT_EQ(schedule.cursor(), 4);
  EXPECT_EQ(schedule.TileAt(schedule.cursor()), 0);
  EXPECT_EQ(schedule.horizon(), 8);
}

TEST(VisitSchedule, APassThatBreaksOffGivesWayToOneFromTheBeginning) {
  VisitSchedule schedule(10);
  schedule.BeginPass(10);
  schedule.Visit(4);
  schedule.BeginPass(10);
  EXPECT_EQ(schedule.TileAt(schedule.now()), 0);
  EXPECT_EQ(schedule.Distance(0), 0);
  EXPECT_EQ(schedule.Distance(4), 4);
}

TEST(VisitSchedule, APassOverNothingLooksAtNothing) {
  VisitSchedule empty(0);
  empty.BeginPass(0);
  EXPECT_EQ(empty.cursor(), empty.horizon());
  VisitSchedule schedule(5);
  schedule.BeginPass(0);
  EXPECT_EQ(schedule.cursor(), schedule.horizon());
}

}  // namespace
}  // namespace thaw
