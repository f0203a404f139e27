#include "chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/paths.h"
#include "support/read_file.h"

namespace thaw {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::chrono::local_seconds Date(int year, unsigned month, unsigned day) {
  return std::chrono::local_days(std::chrono::year(year) / month / day);
}

Result<std::string> Render(std::string_view source,
                           const ordered_json& context = ordered_json::object(),
                           const RenderOptions& options = {}) {
  auto parsed = ChatTemplate::Parse(source, "t");
  if (!parsed) return Fail(std::move(parsed).error());
  return parsed->Render(context, options);
}

std::string ErrorOf(std::string_view source, const ordered_json& context = ordered_json::object()) {
  const auto rendered = Render(source, context);
  return rendered ? "rendered: " + *rendered : rendered.error().message;
}

// Where `expected` has no text, rendering must fail.
void ExpectAgrees(const Result<std::string>& rendered, const ordered_json& expected) {
  if (!expected.contains("rendered")) {
    EXPECT_FALSE(rendered) << "rendered: " << *rendered;
    return;
  }
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, expected["rendered"].get<std::string>());
}

void ExpectFolderAgrees(const std::filesystem::path& folder) {
  int case_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem();
    const auto parsed = ChatTemplate::Parse(ReadFile(entry.path()), name);
    ASSERT_TRUE(parsed) << parsed.error().message;
    for (const auto& expected : ordered_json::parse(ReadFile(folder / (name + ".json")))) {
      SCOPED_TRACE(name + " " + expected["case"].get<std::string>());
      const RenderOptions options{.now = Date(2026, 11, 21), .limits = {}};
      ExpectAgrees(parsed->Render(expected["context"], options), expected);
      ++case_count;
    }
  }
  EXPECT_GE(case_count, 60);
}

TEST(ChatTemplate, RendersShippedTemplatesAsJinja2Does) {
  ExpectFolderAgrees(GoldenDir() / "chat");
}

TEST(ChatTemplate, RendersTheConformanceFolderAsJinja2Does) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "the conformance folder is absent";
  ExpectFolderAgrees(ConformanceDir() / "chat");
}

TEST(ChatTemplate, AgreesWithJinja2OnEveryExpressionAndStatement) {
  const ordered_json golden =
      ordered_json::parse(ReadFile(GoldenDir() / "chat" / "expressions.json"));
  const RenderOptions options{.now = Date(2026, 11, 21) + std::chrono::hours(14) +
                                     std::chrono::minutes(5) + std::chrono::seconds(9),
                              .limits = {}};
  EXPECT_GE(golden["cases"].size(), 1000u);
  for (const auto& expected : golden["cases"]) {
    const auto source = expected["template"].get<std::string>();
    SCOPED_TRACE(source);
    ExpectAgrees(Render(source, golden["context"], options), expected);
  }
}

TEST(ChatTemplate, NamesTheLineAndColumnOfAnError) {
  EXPECT_EQ(ErrorOf("a\n  {{ 1 + none }}"),
            "t:2:6: unsupported operands for +: 'int' and 'NoneType'");
  EXPECT_EQ(ErrorOf("{{ x.y }}"), "t:1:5: 'x' is undefined");
  EXPECT_THAT(ErrorOf("{% if %}"), StartsWith("t:1:7: "));
  EXPECT_THAT(ErrorOf("\n\n{{ 'a }}"), StartsWith("t:3:4: "));
  EXPECT_THAT(ErrorOf("{% for x in [1] %}"), HasSubstr("endfor"));
}

TEST(ChatTemplate, NamesTheInnermostPlaceOfAnErrorInsideOfAMacro) {
  EXPECT_EQ(ErrorOf("{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ m() }}"),
            "t:2:4: division by zero");
}

TEST(ChatTemplate, KeepsTheMessageOfRaiseException) {
  EXPECT_THAT(ErrorOf("{{ raise_exception('roles must alternate') }}"),
              HasSubstr("roles must alternate"));
}

TEST(ChatTemplate, RejectsASourceThatIsNotUtf8) {
  EXPECT_THAT(ErrorOf("a\xff"), HasSubstr("not valid UTF-8"));
}

TEST(ChatTemplate, ReplacesInvalidUtf8OfTheContext) {
  const auto rendered = Render("{{ a }}", {{"a", "x\xffy"}});
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, "x\xef\xbf\xbdy");
}

TEST(ChatTemplate, RejectsAContextThatIsNoObject) {
  EXPECT_THAT(ErrorOf("x", ordered_json::array()), HasSubstr("must be a JSON object"));
}

TEST(ChatTemplate, CanBeRenderedAgainAndAgain) {
  const auto parsed =
      ChatTemplate::Parse("{% set ns = namespace(i=0) %}{% set ns.i = ns.i + n %}{{ ns.i }}", "t");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 3; ++i) {
    const auto rendered = parsed->Render({{"n", i}});
    ASSERT_TRUE(rendered) << rendered.error().message;
    EXPECT_EQ(*rendered, std::to_string(i));
  }
}

TEST(RenderMessages, GivesTheTemplateItsUsualVariables) {
  const auto parsed = ChatTemplate::Parse(
      "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endfor "
      "%}"
      "{% if add_generation_prompt %}>{% endif %}",
      "t");
  ASSERT_TRUE(parsed);
  RenderMessagesOptions options{
      .bos_token = "<s>", .eos_token = "</s>", .add_generation_prompt = true, .render = {}};
  const ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  auto rendered = RenderMessages(*parsed, messages, options);
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, "<s>user:hi</s>>");
  options.add_generation_prompt = false;
  rendered = RenderMessages(*parsed, messages, options);
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(*rendered, "<s>user:hi</s>");
}

TEST(ChatTemplate, BoundsTheDepthOfItsContext) {
  const auto parsed = ChatTemplate::Parse("{{ a }}", "t");
  ordered_json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = ordered_json::array({std::move(deep)});
  const auto rendered = parsed->Render(ordered_json{{"a", std::move(deep)}});
  ASSERT_FALSE(rendered);
  EXPECT_THAT(rendered.error().message, HasSubstr("nested more than"));
}

TEST(LocalTime, IsWhatTheClockOfThisMachineShows) {
  const std::time_t time = 1'800'000'000;
  std::tm local{};
  localtime_r(&time, &local);
  const auto seconds_of_day = LocalTime(time).time_since_epoch().count() % 86'400;
  EXPECT_EQ(seconds_of_day, local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec);
}

}  // namespace
}  // namespace thaw
