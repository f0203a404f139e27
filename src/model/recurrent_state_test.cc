#include "model/recurrent_state.h"

#include <gmock/gmock.h>

#include <span>

namespace thaw {
namespace {

using ::testing::Each;

// Two layers that recur, of 3 x 4 remembered inputs and 2 heads of 5 x 6, around one that does not.
ModelConfig Config() {
  ModelConfig config;
  config.layers = {{.recurs = true}, {}, {.recurs = true}};
  config.recurrence = {.taps = 4, .inner = 12, .heads = 2, .groups = 1, .keys = 5, .convolved = 4};
  return config;
}

constexpr size_t kFloats = 3 * 4 + 2 * 5 * 6;

std::span<const float> Before(const RecurrentState& state, int64_t layer) {
  return {state.Before(layer), kFloats};
}

// A pass that writes the position it ends at to every number.
void Pass(RecurrentState& state, int64_t begin, int64_t end) {
  for (const int64_t layer : {0, 2}) {
    std::fill_n(state.After(layer), kFloats, static_cast<float>(end + layer));
  }
  state.Extend(begin, end);
}

void ExpectAt(const RecurrentState& state, float position) {
  EXPECT_THAT(Before(state, 0), Each(position));
  EXPECT_THAT(Before(state, 2), Each(position == 0 ? 0 : position + 2));
}

TEST(RecurrentState, HoldsThreeStatesOfTheLayersThatRecur) {
  // 72 floats, in whole cache lines.
  EXPECT_EQ(RecurrentState::BytesOfOne(Config()), 2 * 80 * sizeof(float));
  EXPECT_EQ(RecurrentState::Bytes(Config()), 3 * 2 * 80 * sizeof(float));
  ModelConfig none = Config();
  for (LayerConfig& layer : none.layers) layer.recurs = false;
  EXPECT_EQ(RecurrentState::Bytes(none), 0);
  auto state = RecurrentState::Create(none);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->GoBack(10, 7), 7) << "nothing to hold back";
}

TEST(RecurrentState, BeginsWithZeros) {
  auto state = RecurrentState::Create(Config());
  ASSERT_TRUE(state);
  ExpectAt(*state, 0);
}

TEST(RecurrentState, APassCountsWhenItIsDone) {
  auto state = RecurrentState::Create(Config());
  ASSERT_TRUE(state);
  Pass(*state, 0, 4);
  std::fill_n(state->After(0), kFloats, -1.0F);  // one that breaks off
  ExpectAt(*state, 4);
  Pass(*state, 4, 5);
  ExpectAt(*state, 5);
  EXPECT_EQ(state->GoBack(5, 5), 5);
  ExpectAt(*state, 5);
}

TEST(RecurrentState, GoesBackToWhereTheLastPassOfSeveralTokensBegan) {
  auto state = RecurrentState::Create(Config());
  ASSERT_TRUE(state);
  Pass(*state, 0, 8);
  Pass(*state, 8, 16);
  Pass(*state, 16, 17);
  Pass(*state, 17, 18);
  EXPECT_EQ(state->GoBack(18, 12), 8);
  ExpectAt(*state, 8);
  // From there on again, and back once more.
  Pass(*state, 8, 9);
  ExpectAt(*state, 9);
  EXPECT_EQ(state->GoBack(9, 8), 0) << "it is held no longer";
  ExpectAt(*state, 0);
}

TEST(RecurrentState, GoesBackToNothingBeforeTheKeptState) {
  auto state = RecurrentState::Create(Config());
  ASSERT_TRUE(state);
  Pass(*state, 0, 8);
  Pass(*state, 8, 16);
  EXPECT_EQ(state->GoBack(16, 7), 0);
  ExpectAt(*state, 0);
  Pass(*state, 0, 6);
  EXPECT_EQ(state->GoBack(6, 5), 0) << "what was kept before is of another sequence";
  ExpectAt(*state, 0);
}

}  // namespace
}  // namespace thaw
