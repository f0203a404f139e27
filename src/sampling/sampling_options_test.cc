#include "sampling/sampling_options.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kVocabulary = 100;

// The message that `change` of the defaults causes; empty where it is accepted.
std::string Refusal(const std::function<void(SamplingOptions&)>& change) {
  SamplingOptions options;
  change(options);
  const Result<void> result = Validate(options, kVocabulary);
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  return result.error().message;
}

TEST(SamplingOptions, DefaultsAreValid) {
  EXPECT_EQ(Refusal([](SamplingOptions&) {}), "");
}

TEST(SamplingOptions, TheEdgesOfEveryRangeAreValid) {
  EXPECT_EQ(Refusal([](auto& o) { o.temperature = 0; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.top_k = 0; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.top_p = 0; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.top_p = 1; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.min_p = 0; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.min_p = 1; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.repeat_window = 0; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.presence_penalty = -2; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.frequency_penalty = -2; }), "");
  EXPECT_EQ(Refusal([](auto& o) { o.logit_bias = {{0, -INFINITY}, {99, 100.0F}}; }), "");
}

TEST(SamplingOptions, NegativeValuesAreRefusedByName) {
  EXPECT_EQ(Refusal([](auto& o) { o.temperature = -0.5F; }),
            "sampling: temperature must be at least 0, not -0.5");
  EXPECT_THAT(Refusal([](auto& o) { o.top_k = -1; }), HasSubstr("top-k"));
  EXPECT_THAT(Refusal([](auto& o) { o.top_p = -0.1F; }), HasSubstr("top-p"));
  EXPECT_THAT(Refusal([](auto& o) { o.min_p = -0.1F; }), HasSubstr("min-p"));
  EXPECT_THAT(Refusal([](auto& o) { o.repeat_penalty = 0; }), HasSubstr("repeat penalty"));
  EXPECT_THAT(Refusal([](auto& o) { o.repeat_window = -1; }), HasSubstr("repeat window"));
}

TEST(SamplingOptions, SharesAboveOneAreRefused) {
  EXPECT_EQ(Refusal([](auto& o) { o.top_p = 1.5F; }),
            "sampling: top-p must be between 0 and 1, not 1.5");
  EXPECT_THAT(Refusal([](auto& o) { o.min_p = 1.5F; }), HasSubstr("min-p"));
}

TEST(SamplingOptions, NotANumberIsRefusedEverywhere) {
  EXPECT_THAT(Refusal([](auto& o) { o.temperature = NAN; }), HasSubstr("temperature"));
  EXPECT_THAT(Refusal([](auto& o) { o.temperature = INFINITY; }), HasSubstr("temperature"));
  EXPECT_THAT(Refusal([](auto& o) { o.top_p = NAN; }), HasSubstr("top-p"));
  EXPECT_THAT(Refusal([](auto& o) { o.min_p = NAN; }), HasSubstr("min-p"));
  EXPECT_THAT(Refusal([](auto& o) { o.repeat_penalty = NAN; }), HasSubstr("repeat penalty"));
  EXPECT_THAT(Refusal([](auto& o) { o.presence_penalty = NAN; }), HasSubstr("presence penalty"));
  EXPECT_THAT(Refusal([](auto& o) { o.frequency_penalty = NAN; }), HasSubstr("frequency penalty"));
}

TEST(SamplingOptions, BiasOfATokenOutsideTheVocabularyIsRefused) {
  EXPECT_EQ(Refusal([](auto& o) {
              o.logit_bias = {{100, 1.0F}};
            }),
            "sampling: logit bias names token 100, but the vocabulary has 100 tokens");
  EXPECT_THAT(Refusal([](auto& o) { o.logit_bias = {{-1, 1.0F}}; }), HasSubstr("token -1"));
  EXPECT_THAT(Refusal([](auto& o) { o.logit_bias = {{7, NAN}}; }), HasSubstr("token 7"));
  EXPECT_THAT(Refusal([](auto& o) { o.logit_bias = {{7, INFINITY}}; }), HasSubstr("token 7"));
}

}  // namespace
}  // namespace thaw
