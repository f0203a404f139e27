// What models get wrong, what the end of the text cuts off, and limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/json_scanner.h"
#include "chat/reply_parser.h"
#include "chat/test_replies.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

TEST(ReplyParserHostileTest, MarkersInsideOfStringsAreText) {
  const std::string arguments = R"({"a": "</tool_call><tool_call> \" \\"})";
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": " + arguments + "}</tool_call>"),
            Calls({Call("f", arguments)}));
}

TEST(ReplyParserHostileTest, EscapesAndSurrogatesStayAsTheyAre) {
  const std::string arguments = R"({"a": "\ud83c\udf89\u00fc\n"})";
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\\u005f1\", \"arguments\": " + arguments + "}"),
            Calls({Call("f_1", arguments)}));
}

TEST(ReplyParserHostileTest, ControlCharactersInStringsAreEscaped) {
  EXPECT_EQ(
      Parse(Format("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"1\n2\t\"}}"),
      Calls({Call("f", R"({"a": "1\n2\u0009"})")}));
}

TEST(ReplyParserHostileTest, WhatFailsBeforeItsArgumentsIsContent) {
  for (const std::string_view text :
       {"<tool_call>no JSON</tool_call>", "<tool_call>{name: f}</tool_call>",
        "<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>", "a <tool_call>",
        "<tool_call>[]</tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
        "<tool_call>\n{\"name\": \"f\", \"arg", "<tool_call>{}</tool_call>", "\n<tool_call>\n\n",
        "<tool_call>{\"name\": \"f\\ud83c\", \"arguments\": {}}</tool_call>"}) {
    EXPECT_EQ(Parse(Format("hermes"), text), Content(std::string(text)));
  }
  for (const std::string_view text :
       {"<|tool_call_start|>[f(1)]<|tool_call_end|>",
        "<|tool_call_start|>[f(a=b)]<|tool_call_end|>", "<|tool_call_start|>f(a='",
        "<|tool_call_start|>[f(a=[1)]]", "<|tool_call_start|>[]"}) {
    EXPECT_EQ(Parse(Format("lfm2"), text), Content(std::string(text)));
  }
  EXPECT_EQ(Parse(Format("mistral"), "[TOOL_CALLS] I call f"), Content("[TOOL_CALLS] I call f"));
}

TEST(ReplyParserHostileTest, ACallIsFoundBehindOneThatFailed) {
  EXPECT_EQ(Parse(Format("hermes"), "<tool_call><tool_call>{\"name\": \"f\", \"arguments\": {}}"),
            Calls({Call("f", "{}")}, "<tool_call>"));
}

TEST(ReplyParserHostileTest, ArgumentsThatBreakAreKeptUpToTheMarker) {
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}\n"
                  "</tool_call>\nSorry."),
            Calls({BrokenCall("f", "{\"a\": oops}}\n")}, "Sorry."));
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1]\n"
                  "<tool_call>{\"name\": \"g\", \"arguments\": {}}"),
            Calls({BrokenCall("f", "{\"a\": 1]\n"), Call("g", "{}")}));
}

TEST(ReplyParserHostileTest, ACallThatIsCutOffKeepsWhatCame) {
  EXPECT_EQ(Parse(Format("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b"),
            Calls({BrokenCall("f", "{\"a\": \"b")}));
  EXPECT_EQ(Parse(Format("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}"),
            Calls({Call("f", "{\"a\": 1}")}));
  EXPECT_EQ(Parse(Format("glm"),
                  "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>"
                  "<arg_key>b</arg_key><arg_value>cut \"o"),
            Calls({BrokenCall("f", R"({"a": 1, "b": "cut \"o)")}));
}

TEST(ReplyParserHostileTest, ClosingMarkersMayBeMissing) {
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": {}\n<tool_call>"
                  "{\"name\": \"g\", \"arguments\": {}}\nDone"),
            Calls({Call("f", "{}"), Call("g", "{}")}, "Done"));
}

TEST(ReplyParserHostileTest, BracketsTooManyBehindACallAreDropped) {
  const ToolCall call = Call("f", R"({"a": 1})");
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}}\n"
                  "</tool_call>Done}"),
            Calls({call}, "Done}"));
  EXPECT_EQ(Parse(Format("hermes"),
                  "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1},}]"
                  "</tool_call>"),
            Calls({call}));
}

TEST(ReplyParserHostileTest, WithoutToolsCallsAreContent) {
  const ReplyParserOptions none = {.reads_calls = false};
  const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(Parse(Format("hermes", "think"), "<think>Hm</think>" + text, none),
            Calls({}, text, "Hm"));
  EXPECT_EQ(Parse(Format("llama3"), "{\"name\": \"f\", \"parameters\": {}}", none),
            Content("{\"name\": \"f\", \"parameters\": {}}"));
  EXPECT_EQ(
      Parse(Format("harmony"), "<|channel|>commentary to=functions.f<|message|>{}<|call|>", none),
      Content("{}"));
}

TEST(ReplyParserHostileTest, NestingIsBounded) {
  const auto nested = [](int levels) {
    return "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + std::string(levels, '[') +
           std::string(levels, ']') + "}}</tool_call>";
  };
  EXPECT_TRUE(ParseReply(Format("hermes"), nested(kMaxJsonDepth - 1)).tool_calls.at(0).complete);
  EXPECT_FALSE(ParseReply(Format("hermes"), nested(kMaxJsonDepth)).tool_calls.at(0).complete);
  const std::string python = "[f(a=" + std::string(100'000, '[');
  EXPECT_EQ(ParseReply(Format("llama3"), python), Content(python));
  EXPECT_EQ(ParseReply(Format("llama3"), python + std::string(100'000, ']') + ")]"),
            Content(python + std::string(100'000, ']') + ")]"));
}

TEST(ReplyParserHostileTest, WhatIsHeldIsBounded) {
  ReplyParser parser(Format("lfm2"));
  EXPECT_TRUE(parser.Push("<|tool_call_start|>[f(a='").empty());
  EXPECT_TRUE(parser.Push(std::string(kMaxHeldBytes / 2, 'x')).empty());
  EXPECT_EQ(parser.Push(std::string(kMaxHeldBytes / 2, 'x')).size(), 1);

  const std::string value(kMaxHeldBytes + 1, 'x');
  const Reply glm = ParseReply(
      Format("glm"), "<tool_call>f<arg_key>a</arg_key><arg_value>" + value + "</arg_value>Done");
  ASSERT_EQ(glm.tool_calls.size(), 1);
  EXPECT_FALSE(glm.tool_calls[0].complete);
  EXPECT_THAT(glm.tool_calls[0].arguments, HasSubstr(value));

  const std::string blanks(2 * kMaxHeldBlanks, ' ');
  EXPECT_EQ(ParseReply(Format("hermes"), "a" + blanks + "b"), Content("a" + blanks + "b"));
}

TEST(ReplyParserHostileTest, LongTextsTakeLinearTime) {
  // Each would take minutes if a byte cost more the more text stands before it.
  for (const std::string_view piece :
       {"<", "<tool_call>", "<tool_call>{\"name\": \"f\", ", "[", "\n"}) {
    std::string text;
    while (text.size() < 4'000'000) text += piece;
    EXPECT_EQ(ParseReply(Format("hermes"), text).content, text);
  }
  std::string calls;
  for (int i = 0; i < 50'000; ++i) calls += "<tool_call>{\"name\": \"f\", \"arguments\": {}}";
  EXPECT_EQ(ParseReply(Format("hermes"), calls).tool_calls.size(), 50'000);
}

TEST(ReplyParserHostileTest, BytesThatAreNoTextBecomeReplacementCharacters) {
  EXPECT_EQ(Parse(Format("hermes"),
                  "a\xff<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\xe6\"}}"),
            Calls({Call("f", "{\"a\": \"\xef\xbf\xbd\"}")}, "a\xef\xbf\xbd"));
}

}  // namespace
}  // namespace thaw
