#include "sampling/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every token may come, with its own probability.
SamplingOptions Plain() {
  SamplingOptions options;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  options.temperature = 1;
  return options;
}

SamplingOptions Greedy() {
  SamplingOptions options = Plain();
  options.temperature = 0;
  return options;
}

Sampler Make(const SamplingOptions& options, size_t n_vocab) {
  Result<Sampler> sampler = Sampler::Create(options, static_cast<int32_t>(n_vocab));
  EXPECT_TRUE(sampler) << sampler.error().message;
  return *std::move(sampler);
}

using Probabilities = std::map<int32_t, double>;

Probabilities DistributionOf(Sampler& sampler, const std::vector<float>& logits) {
  Probabilities probabilities;
  const auto candidates = sampler.Distribution(logits);
  EXPECT_TRUE(candidates) << candidates.error().message;
  for (const Sampler::Candidate& c : *candidates) probabilities[c.token] = c.probability;
  EXPECT_EQ(probabilities.size(), candidates->size());
  return probabilities;
}

Probabilities DistributionOf(const SamplingOptions& options, const std::vector<float>& logits) {
  Sampler sampler = Make(options, logits.size());
  return DistributionOf(sampler, logits);
}

std::vector<int32_t> TokensOf(const SamplingOptions& options, const std::vector<float>& logits) {
  std::vector<int32_t> tokens;
  for (const auto& [token, probability] : DistributionOf(options, logits)) tokens.push_back(token);
  return tokens;
}

std::vector<int32_t> Draw(Sampler& sampler, const std::vector<float>& logits, int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(sampler.Sample(logits).value());
  return tokens;
}

std::vector<float> LogitsOf(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Roughly bell-shaped, as logits are; `levels` > 0 rounds them so that ties occur.
std::vector<float> RandomLogits(SplitMix64& random, size_t n_vocab, int levels) {
  std::vector<float> logits(n_vocab);
  for (float& logit : logits) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += random.NextUnit();
    const double value = (sum - 2) * 10;
    logit = static_cast<float>(levels > 0 ? std::round(value * levels) / levels : value);
  }
  return logits;
}

// The definition, step by step on the whole vocabulary.
Probabilities ReferenceDistribution(const SamplingOptions& options,
                                    const std::vector<int32_t>& accepted,
                                    std::vector<float> logits) {
  for (const auto& [token, bias] : options.logit_bias) logits[token] += bias;
  const auto window = std::min(accepted.size(), static_cast<size_t>(options.repeat_window));
  for (size_t token = 0; token < logits.size(); ++token) {
    const auto count = std::count(accepted.end() - static_cast<ptrdiff_t>(window), accepted.end(),
                                  static_cast<int32_t>(token));
    if (count == 0) continue;
    float& logit = logits[token];
    logit = logit > 0 ? logit / options.repeat_penalty : logit * options.repeat_penalty;
    logit -= static_cast<float>(count) * options.frequency_penalty + options.presence_penalty;
  }
  std::vector<size_t> order;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] != -INFINITY) order.push_back(token);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) return {{static_cast<int32_t>(order[0]), 1.0}};
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));

  const float best = logits[order[0]];
  double total = 0;
  for (const size_t token : order) total += std::exp(double{logits[token]} - best);
  size_t kept = 0;
  double held = 0;
  while (kept < order.size()) {
    const double likelihood = std::exp(double{logits[order[kept]]} - best);
    if (likelihood < options.min_p) break;
    ++kept;
    held += likelihood;
    if (options.top_p < 1 && held >= options.top_p * total) break;
  }
  order.resize(kept);

  double sum = 0;
  const auto weight = [&](size_t token) {
    return std::exp((double{logits[token]} - best) / options.temperature);
  };
  for (const size_t token : order) sum += weight(token);
  Probabilities probabilities;
  for (const size_t token : order) probabilities[static_cast<int32_t>(token)] = weight(token) / sum;
  return probabilities;
}

SamplingOptions RandomOptions(SplitMix64& random, size_t n_vocab) {
  const auto pick = [&](auto... values) {
    const double choices[] = {static_cast<double>(values)...};
    return choices[random.Next() % sizeof...(values)];
  };
  SamplingOptions options;
  options.temperature = static_cast<float>(pick(0, 0.1, 0.8, 1, 3));
  options.top_k = static_cast<int>(pick(0, 1, 2, 40, 300, 1'000'000));
  options.top_p = static_cast<float>(pick(0, 0.3, 0.9, 0.999, 1));
  options.min_p = static_cast<float>(pick(0, 0.001, 0.05, 0.5, 1));
  options.repeat_penalty = static_cast<float>(pick(0.5, 1, 1.3));
  options.repeat_window = static_cast<int>(pick(0, 1, 7, 1000));
  options.presence_penalty = static_cast<float>(pick(-0.5, 0, 1.5));
  options.frequency_penalty = static_cast<float>(pick(-0.25, 0, 0.5));
  for (uint64_t i = random.Next() % 3; i > 0; --i) {
    options.logit_bias.emplace_back(static_cast<int32_t>(random.Next() % n_vocab),
                                    static_cast<float>(pick(-INFINITY, -3, 2, 20)));
  }
  return options;
}

TEST(Sampler, AgreesWithTheDefinitionOverRandomOptionsAndLogits) {
  SplitMix64 random(2026);
  for (int round = 0; round < 3000; ++round) {
    const size_t n_vocab = 3 + random.Next() % 700;
    const SamplingOptions options = RandomOptions(random, n_vocab);
    const std::vector<float> logits = RandomLogits(random, n_vocab, round % 3 == 0 ? 2 : 0);
    Sampler sampler = Make(options, n_vocab);
    std::vector<int32_t> accepted(random.Next() % 40);
    for (int32_t& token : accepted) {
      token = static_cast<int32_t>(random.Next() % n_vocab);
      sampler.Accept(token);
    }
    const Probabilities expected = ReferenceDistribution(options, accepted, logits);
    const Probabilities found = DistributionOf(sampler, logits);
    ASSERT_EQ(found.size(), expected.size()) << "round " << round;
    for (const auto& [token, probability] : expected) {
      ASSERT_TRUE(found.contains(token)) << "round " << round << ", token " << token;
      ASSERT_NEAR(found.at(token), probability, 1e-12) << "round " << round;
    }
  }
}

TEST(Sampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  const std::vector<float> logits = LogitsOf({0.5, 0.3, 0.15, 0.05});
  Sampler sampler = Make(Plain(), logits.size());
  constexpr int kDraws = 40'000;
  std::map<int32_t, int> counts;
  for (const int32_t token : Draw(sampler, logits, kDraws)) ++counts[token];
  // The seed is fixed; the tolerance is five standard errors of the most variable count.
  const double tolerance = 5 * std::sqrt(0.25 / kDraws);
  EXPECT_NEAR(counts[0] / double{kDraws}, 0.5, tolerance);
  EXPECT_NEAR(counts[1] / double{kDraws}, 0.3, tolerance);
  EXPECT_NEAR(counts[2] / double{kDraws}, 0.15, tolerance);
  EXPECT_NEAR(counts[3] / double{kDraws}, 0.05, tolerance);
}

TEST(Sampler, EqualSeedsGiveEqualTokensAndOthersDoNot) {
  const std::vector<float> logits(1000, 0.0F);
  SamplingOptions options = Plain();
  options.seed = 42;
  Sampler a = Make(options, logits.size());
  Sampler b = Make(options, logits.size());
  options.seed = 43;
  Sampler c = Make(options, logits.size());
  const std::vector<int32_t> tokens = Draw(a, logits, 50);
  EXPECT_EQ(Draw(b, logits, 50), tokens);
  EXPECT_NE(Draw(c, logits, 50), tokens);
}

TEST(Sampler, GivesTheseTokensForThisSeedOnEveryMachine) {
  SplitMix64 random(5);
  const std::vector<float> logits = RandomLogits(random, 500, 0);
  SamplingOptions options;
  options.seed = 1;
  options.temperature = 1.5F;
  Sampler sampler = Make(options, logits.size());
  EXPECT_THAT(Draw(sampler, logits, 8), ElementsAre(145, 3, 325, 425, 425, 137, 45, 145));
}

TEST(Sampler, ResetStartsTheSameSequenceAgain) {
  const std::vector<float> logits(100, 0.0F);
  SamplingOptions options = Plain();
  options.presence_penalty = 100;
  Sampler sampler = Make(options, logits.size());
  const auto generate = [&] {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20; ++i) {
      tokens.push_back(sampler.Sample(logits).value());
      sampler.Accept(tokens.back());
    }
    return tokens;
  };
  const std::vector<int32_t> first = generate();
  EXPECT_NE(generate(), first);
  sampler.Reset();
  EXPECT_EQ(generate(), first);
}

TEST(Sampler, ACopyGoesOnFromTheSameState) {
  const std::vector<float> logits(100, 0.0F);
  Sampler sampler = Make(Plain(), logits.size());
  Draw(sampler, logits, 3);
  Sampler copy = sampler;
  EXPECT_EQ(Draw(copy, logits, 10), Draw(sampler, logits, 10));
}

TEST(Sampler, TemperatureZeroTakesTheLikeliestAndTheLowestIdOnATie) {
  Sampler sampler = Make(Greedy(), 5);
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 3, 2, 3, 0}).value(), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-9, -9, -9, -9, -8}).value(), 4);
}

TEST(Sampler, TemperatureFlattensAndSharpens) {
  const std::vector<float> logits = LogitsOf({0.6, 0.3, 0.1});
  SamplingOptions options = Plain();
  EXPECT_NEAR(DistributionOf(options, logits)[0], 0.6, 1e-6);
  options.temperature = 0.5F;
  EXPECT_NEAR(DistributionOf(options, logits)[0], 0.36 / 0.46, 1e-6);
  options.temperature = 1e6F;
  EXPECT_NEAR(DistributionOf(options, logits)[2], 1.0 / 3, 1e-5);
  options.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(DistributionOf(options, logits)[0], 1.0);
}

TEST(Sampler, TopKKeepsTheKLikeliestAndTheLowestIdsOnATie) {
  SamplingOptions options = Plain();
  options.top_k = 3;
  EXPECT_THAT(TokensOf(options, {0, 5, 1, 4, 3, 2}), ElementsAre(1, 3, 4));
  EXPECT_THAT(TokensOf(options, {7, 7, 7, 7, 7, 7, 7, 7}), ElementsAre(0, 1, 2));
  options.top_k = 100;
  EXPECT_THAT(TokensOf(options, {0, 1}), ElementsAre(0, 1));
}

TEST(Sampler, TopPKeepsTheFewestThatHoldTheShare) {
  const std::vector<float> logits = LogitsOf({0.1, 0.5, 0.15, 0.25});
  SamplingOptions options = Plain();
  options.top_p = 0.7F;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1, 3));
  options.top_p = 0.8F;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1, 2, 3));
  options.top_p = 0;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1));
}

TEST(Sampler, TopPMayKeepAlmostTheWholeVocabulary) {
  const std::vector<float> logits(10'000, 1.0F);
  SamplingOptions options = Plain();
  options.top_p = 0.5F;
  const std::vector<int32_t> tokens = TokensOf(options, logits);
  EXPECT_EQ(tokens.size(), 5000U);
  EXPECT_EQ(tokens.back(), 4999);
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheLikeliest) {
  const std::vector<float> logits = LogitsOf({0.02, 0.6, 0.08, 0.3});
  SamplingOptions options = Plain();
  options.min_p = 0.1F;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1, 2, 3));
  options.min_p = 1;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1));
}

TEST(Sampler, CutsAreDecidedBeforeTheTemperature) {
  const std::vector<float> logits = LogitsOf({0.7, 0.2, 0.1});
  SamplingOptions options = Plain();
  options.min_p = 0.25F;
  options.temperature = 100;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(0, 1));
}

TEST(Sampler, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplingOptions options = Plain();
  options.repeat_penalty = 2;
  Sampler sampler = Make(options, 3);
  sampler.Accept(0);
  sampler.Accept(0);
  sampler.Accept(1);
  const auto candidates = sampler.Distribution(std::vector<float>{4, -4, 1}).value();
  ASSERT_EQ(candidates.size(), 3U);
  EXPECT_EQ(candidates[0].logit, 2);
  EXPECT_EQ(candidates[1].logit, -8);
  EXPECT_EQ(candidates[2].logit, 1);
}

TEST(Sampler, FrequencyCountsOccurrencesAndPresenceDoesNot) {
  SamplingOptions options = Plain();
  options.frequency_penalty = 0.5F;
  options.presence_penalty = 10;
  Sampler sampler = Make(options, 3);
  for (const int32_t token : {0, 0, 0, 1}) sampler.Accept(token);
  const auto candidates = sampler.Distribution(std::vector<float>{20, 20, 20}).value();
  ASSERT_EQ(candidates.size(), 3U);
  EXPECT_EQ(candidates[0].logit, 8.5F);
  EXPECT_EQ(candidates[1].logit, 9.5F);
  EXPECT_EQ(candidates[2].logit, 20);
}

TEST(Sampler, PenaltiesForgetWhatLeftTheWindow) {
  SamplingOptions options = Greedy();
  options.presence_penalty = 10;
  options.repeat_window = 2;
  const std::vector<float> logits = {3, 2, 1};
  Sampler sampler = Make(options, logits.size());
  std::vector<int32_t> tokens;
  for (int i = 0; i < 6; ++i) {
    tokens.push_back(sampler.Sample(logits).value());
    sampler.Accept(tokens.back());
  }
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Sampler, LogitBiasLiftsAndBansTokens) {
  SamplingOptions options = Greedy();
  const std::vector<float> logits = {3, 2, 1};
  options.logit_bias = {{2, 5.0F}};
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(2));
  options.logit_bias = {{0, -INFINITY}};
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1));
  options.temperature = 1;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1, 2));
}

TEST(Sampler, LogitsThatAreNotNumbersAreNeverDrawn) {
  const std::vector<float> logits = {NAN, 1, -INFINITY, 2, -NAN};
  EXPECT_THAT(TokensOf(Plain(), logits), ElementsAre(1, 3));
  EXPECT_THAT(TokensOf(Greedy(), logits), ElementsAre(3));
  SamplingOptions options;
  options.min_p = 0;
  EXPECT_THAT(TokensOf(options, logits), ElementsAre(1, 3));
}

TEST(Sampler, InfiniteLogitsShareTheDrawEvenly) {
  const std::vector<float> logits = {0, INFINITY, 5, INFINITY};
  const Probabilities probabilities = DistributionOf(Plain(), logits);
  EXPECT_EQ(probabilities.at(1), 0.5);
  EXPECT_EQ(probabilities.at(3), 0.5);
  EXPECT_EQ(probabilities.at(0), 0);
}

TEST(Sampler, NothingLeftToDrawIsAnError) {
  for (const float nothing : {-INFINITY, NAN}) {
    const std::vector<float> logits(10, nothing);
    for (const SamplingOptions& options : {Greedy(), Plain(), SamplingOptions()}) {
      Sampler sampler = Make(options, logits.size());
      const Result<int32_t> token = sampler.Sample(logits);
      ASSERT_FALSE(token);
      EXPECT_EQ(token.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(token.error().message, HasSubstr("all 10 logits"));
    }
  }
}

TEST(Sampler, CreateRefusesWhatValidateRefuses) {
  SamplingOptions options;
  options.top_p = 2;
  const Result<Sampler> sampler = Sampler::Create(options, 10);
  ASSERT_FALSE(sampler);
  EXPECT_THAT(sampler.error().message, HasSubstr("top-p"));
}

}  // namespace
}  // namespace thaw
