#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace thaw {
namespace {

// The text shown when `text` comes byte by byte.
std::string ShowByteByByte(StopMatcher& matcher, std::string_view text) {
  std::string shown;
  for (const char c : text) shown += matcher.Push(std::string_view(&c, 1));
  return shown + matcher.Finish();
}

TEST(StopMatcher, PassesTextThroughWithoutStops) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("anything"), "anything");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, CutsAtTheEarliestStopWhicheverComesFirstInTheList) {
  StopMatcher matcher({"END", "\n\n"});
  EXPECT_EQ(matcher.Push("one\n\ntwo END"), "one");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"</s>"});
  EXPECT_EQ(matcher.Push("a < b </"), "a < b ");
  EXPECT_EQ(matcher.Push("x"), "</x");
  EXPECT_EQ(matcher.Push("<"), "");
  EXPECT_EQ(matcher.Finish(), "<");
}

TEST(StopMatcher, FindsAStopSpreadOverManyPieces) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(ShowByteByByte(matcher, "xaaabz"), "xa");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, TakesTheShorterOfTwoStopsThatShareAPrefix) {
  StopMatcher matcher({"stop!", "stop"});
  EXPECT_EQ(ShowByteByByte(matcher, "do not stop!"), "do not ");
}

TEST(StopMatcher, IgnoresEmptyStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(ShowByteByByte(matcher, "text"), "text");
  EXPECT_FALSE(matcher.stopped());
}

}  // namespace
}  // namespace thaw
