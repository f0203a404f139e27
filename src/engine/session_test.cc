#include "engine/session.h"

#include <gmock/gmock.h>

#include "base/utf8.h"
#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr auto kNoProgress = [](uint64_t, uint64_t) { return true; };
constexpr auto kIgnoreText = [](std::string_view) {};

const std::vector<int32_t> kPrompt = {1, 75, 104, 111, 111, 114};

std::unique_ptr<Engine> LoadTiny(const TinyModel& model = {}, EngineOptions options = {}) {
  const TemporaryDirectory directory;
  const std::string path = directory.PathOf("session_test.gguf");
  model.Write(path);
  options.threads = 2;
  auto engine = Engine::Load(path, options, kNoProgress);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

GenerationOptions Greedy(int64_t max_tokens) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = max_tokens;
  return options;
}

// Random bytes rarely spell text; a seed and a temperature make the tiny model vary its tokens.
GenerationOptions Random(int64_t max_tokens) {
  GenerationOptions options;
  options.sampling = {.top_k = 0, .top_p = 1, .min_p = 0, .temperature = 2, .seed = 5};
  options.sampling.logit_bias = {{TinyModel::kEndOfSequence, -INFINITY}};
  options.max_tokens = max_tokens;
  return options;
}

GenerationResult Generate(Session& session, std::span<const int32_t> prompt,
                          const GenerationOptions& options) {
  auto result = session.Generate(prompt, options, kIgnoreText);
  EXPECT_TRUE(result) << result.error().message;
  return *std::move(result);
}

TEST(Session, GeneratesAsManyTokensAsAskedFor) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const GenerationResult result = Generate(*session, kPrompt, Random(9));
  EXPECT_EQ(result.finish, FinishReason::kMaxTokens);
  EXPECT_THAT(result.tokens, SizeIs(9));
  EXPECT_EQ(result.statistics.prompt_tokens, 6);
  EXPECT_EQ(result.statistics.reused_tokens, 0);
  EXPECT_EQ(result.statistics.decode_tokens, 9);
  EXPECT_THAT(result.statistics.step_seconds, SizeIs(8));
  EXPECT_GT(result.statistics.ttft_seconds, 0);
  EXPECT_EQ(result.statistics.decode_bytes_read, 0);
}

TEST(Session, NoTokensAskedForMeansThePromptIsReadAndNothingIsSaid) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const GenerationResult result = Generate(*session, kPrompt, Random(0));
  EXPECT_EQ(result.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(result.text, "");
  EXPECT_THAT(session->tokens(), ElementsAreArray(kPrompt));
}

TEST(Session, TheSameSeedGivesTheSameText) {
  const auto engine = LoadTiny();
  const auto first = *engine->NewSession();
  const auto second = *engine->NewSession();
  GenerationOptions options = Random(20);
  EXPECT_EQ(Generate(*first, kPrompt, options).tokens, Generate(*second, kPrompt, options).tokens);
  options.sampling.seed = 6;
  EXPECT_NE(Generate(*first, kPrompt, options).tokens,
            Generate(*second, kPrompt, Random(20)).tokens);
}

TEST(Session, TextComesInWholeCharactersAndAddsUp) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  std::string streamed;
  const auto result = session->Generate(kPrompt, Random(50), [&](std::string_view piece) {
    EXPECT_TRUE(IsValidUtf8(piece));
    streamed += piece;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->text, streamed);
  EXPECT_FALSE(streamed.empty());
}

TEST(Session, EndsAtAStopStringWithoutShowingIt) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const std::string whole = Generate(*session, kPrompt, Random(40)).text;
  GenerationOptions options = Random(40);
  options.stops = {whole.substr(whole.size() / 2, 2)};
  const GenerationResult stopped = Generate(*session, kPrompt, options);
  EXPECT_EQ(stopped.finish, FinishReason::kStopText);
  EXPECT_EQ(stopped.text, whole.substr(0, whole.find(options.stops[0])));
  EXPECT_THAT(stopped.text, Not(HasSubstr(options.stops[0])));
}

TEST(Session, EndsWhenTheModelEndsItsAnswer) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  GenerationOptions options = Greedy(30);
  options.sampling.logit_bias = {{TinyModel::kEndOfSequence, 1e6F}};
  const GenerationResult result = Generate(*session, kPrompt, options);
  EXPECT_EQ(result.finish, FinishReason::kEndOfGeneration);
  EXPECT_THAT(result.tokens, ElementsAreArray({TinyModel::kEndOfSequence}));
  EXPECT_EQ(result.text, "");
}

TEST(Session, EndsWhenTheContextIsFull) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const GenerationResult result = Generate(*session, kPrompt, Random(-1));
  EXPECT_EQ(result.finish, FinishReason::kContextFull);
  // The last token needs no position of its own.
  EXPECT_EQ(result.tokens.size() + kPrompt.size(), 64 + 1);
  EXPECT_EQ(session->capacity(), 64);
}

TEST(Session, ReusesWhatItHoldsOfAPrompt) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const GenerationResult first = Generate(*session, kPrompt, Random(8));
  std::vector<int32_t> longer = kPrompt;
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  longer.insert(longer.end(), {80, 81, 82});
  const GenerationResult second = Generate(*session, longer, Random(8));
  // The last token of the first answer was never put through the model.
  EXPECT_EQ(second.statistics.reused_tokens, 6 + 7);
  const auto fresh = *engine->NewSession();
  EXPECT_EQ(second.tokens, Generate(*fresh, longer, Random(8)).tokens);
}

TEST(Session, GoesBackWhereAPromptDiffers) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  Generate(*session, kPrompt, Random(8));
  const std::vector<int32_t> other = {1, 75, 104, 200, 201};
  const GenerationResult result = Generate(*session, other, Random(8));
  EXPECT_EQ(result.statistics.reused_tokens, 3);
  const auto fresh = *engine->NewSession();
  EXPECT_EQ(result.tokens, Generate(*fresh, other, Random(8)).tokens);
}

// A family in whose layers every second one has a window, here of 16 positions.
TinyModel WindowedModel() {
  TinyModel model;
  model.architecture = "gemma2";
  model.context = 400;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("gemma2.attention.sliding_window", 16));
  };
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    for (const char* name : {"post_attention_norm", "post_ffw_norm"}) {
      for (const char* layer : {"blk.0.", "blk.1."}) {
        tensors.push_back({layer + std::string(name) + ".weight", {32}});
      }
    }
  };
  return model;
}

TEST(Session, GoesBackInLayersWithWindowsOrBeginsAnew) {
  const auto engine = LoadTiny(WindowedModel(), {.context = 400, .prefill_chunk = 8});
  std::vector<int32_t> before(300);
  for (size_t i = 0; i < before.size(); ++i) before[i] = 3 + static_cast<int32_t>(i * 37 % 256);
  // Of 300 tokens, 8 in flight: a ring of 64 positions holds what a token at 259 sees.
  for (const auto& [kept, reused] : {std::pair(290, 290), {260, 260}, {200, 0}}) {
    std::vector<int32_t> prompt(before.begin(), before.begin() + kept);
    prompt.insert(prompt.end(), {10, 11, 12});
    const auto session = *engine->NewSession();
    Generate(*session, before, Random(0));
    const GenerationResult result = Generate(*session, prompt, Random(20));
    EXPECT_EQ(result.statistics.reused_tokens, reused) << kept;
    const auto fresh = *engine->NewSession();
    EXPECT_EQ(Generate(*fresh, prompt, Random(20)).tokens, result.tokens) << kept;
  }
}

TEST(Session, ComputesTheLastTokenOfAPromptItHoldsWhole) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const GenerationResult first = Generate(*session, kPrompt, Random(4));
  const GenerationResult again = Generate(*session, kPrompt, Random(4));
  EXPECT_EQ(again.statistics.reused_tokens, 5);
  EXPECT_EQ(again.tokens, first.tokens);
}

TEST(Session, ResetForgetsEverything) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  Generate(*session, kPrompt, Random(4));
  session->Reset();
  EXPECT_THAT(session->tokens(), SizeIs(0));
  EXPECT_EQ(Generate(*session, kPrompt, Random(4)).statistics.reused_tokens, 0);
}

TEST(Session, CancellingIsACleanFinishAndTheSessionGoesOn) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  std::atomic<bool> cancel{true};
  GenerationOptions options = Random(20);
  options.cancel = &cancel;
  EXPECT_EQ(Generate(*session, kPrompt, options).finish, FinishReason::kCancelled);

  cancel = false;
  const auto result = session->Generate(kPrompt, options, [&](std::string_view) { cancel = true; });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::kCancelled);
  EXPECT_FALSE(result->text.empty());

  cancel = false;
  EXPECT_EQ(Generate(*session, kPrompt, options).tokens,
            Generate(**engine->NewSession(), kPrompt, Random(20)).tokens);
}

TEST(Session, RefusesPromptsItCannotTake) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  const auto error_of = [&](const std::vector<int32_t>& prompt) {
    return session->Generate(prompt, Random(1), kIgnoreText).error().message;
  };
  EXPECT_EQ(error_of({}), "the prompt is empty");
  EXPECT_THAT(error_of(std::vector<int32_t>(65, 5)),
              HasSubstr("65 tokens, but the context holds only 64"));
  EXPECT_THAT(error_of({1, 9999}), HasSubstr("9999"));
}

TEST(Session, RefusesSamplingOptionsThatMakeNoSense) {
  const auto engine = LoadTiny();
  const auto session = *engine->NewSession();
  GenerationOptions options = Random(1);
  options.sampling.top_p = 7;
  EXPECT_FALSE(session->Generate(kPrompt, options, kIgnoreText));
}

TEST(Engine, FindsTheChatTemplateOfAFile) {
  TinyModel model;
  model.chat_template = "{{ messages[0].content }}!";
  const auto engine = LoadTiny(model);
  const auto chat_template = engine->chat_template();
  ASSERT_TRUE(chat_template);
  EXPECT_NE(*chat_template, nullptr);
  EXPECT_EQ(*LoadTiny()->chat_template(), nullptr);
}

TEST(Engine, ATemplateThatCannotBeParsedIsAnErrorWhenItIsAskedFor) {
  TinyModel model;
  model.chat_template = "{% if %}";
  const auto engine = LoadTiny(model);
  const auto chat_template = engine->chat_template();
  ASSERT_FALSE(chat_template);
  EXPECT_THAT(chat_template.error().message, HasSubstr("tokenizer.chat_template"));
}

TEST(Session, FeedGivesTheLogitsOfTheLastToken) {
  const auto engine = LoadTiny();
  std::vector<float> rows;
  ASSERT_TRUE(engine->ComputeLogits(kPrompt, [&](std::span<const float> some) -> Result<void> {
    rows.insert(rows.end(), some.begin(), some.end());
    return {};
  }));
  const auto n_vocab = static_cast<size_t>(engine->config().n_vocab);
  const auto last_row = std::span(rows).last(n_vocab);

  const auto session = *engine->NewSession();
  const auto at_once = session->Feed(kPrompt);
  ASSERT_TRUE(at_once) << at_once.error().message;
  EXPECT_THAT(*at_once, ElementsAreArray(last_row));
  EXPECT_THAT(session->tokens(), ElementsAreArray(kPrompt));

  session->Reset();
  for (const int32_t token : kPrompt) {
    const auto logits = session->Feed({&token, 1});
    ASSERT_TRUE(logits) << logits.error().message;
    if (session->tokens().size() == kPrompt.size()) {
      EXPECT_THAT(*logits, ElementsAreArray(last_row));
    }
  }
}

TEST(Session, FeedRefusesWhatHasNoPlaceOrNoMeaning) {
  const auto engine = LoadTiny({}, {.context = 8});
  const auto session = *engine->NewSession();
  ASSERT_TRUE(session->Feed(kPrompt));
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{}, {-1}, {1, 1, 1}}) {
    const auto logits = session->Feed(tokens);
    ASSERT_FALSE(logits);
    EXPECT_EQ(logits.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_THAT(session->Feed(std::vector<int32_t>{1, 1, 1}).error().message,
              HasSubstr("2 of the context's 8 positions are left"));
  EXPECT_THAT(session->tokens(), ElementsAreArray(kPrompt));
  EXPECT_TRUE(session->Feed(std::vector<int32_t>{1, 1}));
}

}  // namespace
}  // namespace thaw
