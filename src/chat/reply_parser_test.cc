#include "chat/reply_parser.h"

#include <gtest/gtest.h>

#include "chat/test_replies.h"

namespace thaw {
namespace {

TEST(ReplyParserTest, WithoutAFormatEveryTextIsContentAsItIs) {
  for (const std::string_view text :
       {"", " Hi\n\n", "<think>a</think>b", "{\"name\": 1}", "Grüße, 日本 🎉\n"}) {
    EXPECT_EQ(Parse({}, text), Content(std::string(text)));
  }
}

TEST(ReplyParserTest, ReasoningIsSplitFromContentWithoutTheBlanksBetween) {
  EXPECT_EQ(Parse(Format("hermes", "think"), "<think>\nHm, 日本.\n</think>\n\nYes.\n"),
            Calls({}, "Yes.\n", "Hm, 日本."));
  EXPECT_EQ(Parse(Format("mistral", "mistral"), "[THINK]Hm[/THINK]Yes"), Calls({}, "Yes", "Hm"));
  EXPECT_EQ(Parse(Format("seed", "seed"), "<seed:think>Hm</seed:think>Yes"),
            Calls({}, "Yes", "Hm"));
  EXPECT_EQ(Parse(Format("gemma4", "gemma4"), "<|channel>thought\nHm<channel|>Yes"),
            Calls({}, "Yes", "Hm"));
  EXPECT_EQ(Parse(Format("granite", "think-response"), "<think>Hm</think><response>Yes</response>"),
            Calls({}, "Yes", "Hm"));
}

TEST(ReplyParserTest, EmptyReasoningIsNone) {
  EXPECT_EQ(Parse(Format("hermes", "think"), "<think>\n\n</think>\n\nYes"), Content("Yes"));
}

TEST(ReplyParserTest, AReplyBeginsInReasoningWhereThePromptOpenedIt) {
  const ReplyParserOptions open = {.starts_in_reasoning = true};
  EXPECT_EQ(Parse(Format("", "think"), "Hm\n</think>\nYes", open), Calls({}, "Yes", "Hm"));
  // Models that open it once more.
  EXPECT_EQ(Parse(Format("", "think"), "<think>\nHm</think>Yes", open), Calls({}, "Yes", "Hm"));
  EXPECT_EQ(Parse(Format("", "think"), "Hm", open), Calls({}, "", "Hm"));
}

TEST(ReplyParserTest, ReasoningOpensOnlyWhereAPieceOfContentBegins) {
  const std::string text = "The tag <think> opens, </think> closes.";
  EXPECT_EQ(Parse(Format("", "think"), text), Content(text));
}

TEST(ReplyParserTest, AMarkerThatDoesNotBecomeWholeIsContent) {
  const std::string text = "<tool_cal> <<tool_call <|im <thin";
  EXPECT_EQ(Parse(Format("hermes", "think"), text), Content(text));
}

TEST(ReplyParserTest, TextComesOutAsSoonAsItIsNoMarker) {
  ReplyParser parser(Format("hermes"));
  const auto text = [&](std::string_view piece) {
    std::string out;
    for (const ReplyDelta& delta : parser.Push(piece)) out += delta.text;
    return out;
  };
  EXPECT_EQ(text("One <tool"), "One");
  EXPECT_EQ(text("s>"), " <tools>");
  EXPECT_EQ(text("\xe6\x97"), "");
  EXPECT_EQ(text("\xa5"), "日");
  EXPECT_EQ(text("\xe6"), "");
  ASSERT_EQ(parser.Finish().size(), 1);
}

TEST(ReplyParserTest, ReadsHermes) {
  const ReplyFormat format = Format("hermes", "think");
  EXPECT_EQ(Parse(format,
                  "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                  "\"Oslo\"}}\n</tool_call>"),
            Calls({Oslo()}));
  EXPECT_EQ(Parse(format,
                  "<think>Hm</think>\n\nI look.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
                  "{\"a\": [1, {\"b\": \"}\"}], \"c\": null}}\n</tool_call>\n<tool_call>\n"
                  "{\"arguments\": {}, \"name\": \"g\"}\n</tool_call>\nDone.\n"),
            Calls({Call("f", R"({"a": [1, {"b": "}"}], "c": null})"), Call("g", "{}")},
                  "I look.\nDone.\n", "Hm"));
}

TEST(ReplyParserTest, JsonCallsAreReadInAllTheShapesThatModelsWrite) {
  const ReplyFormat format = Format("hermes");
  const auto call = [&](std::string_view json) {
    return Parse(format, "<tool_call>" + std::string(json) + "</tool_call>");
  };
  EXPECT_EQ(call(R"({"name": "f", "parameters": {"a": 1}})"), Calls({Call("f", R"({"a": 1})")}));
  EXPECT_EQ(call(R"({"id": "c7", "type": "function", "function": {"name": "f", "arguments": {}}})"),
            Calls({Call("f", "{}", "c7")}));
  EXPECT_EQ(call(R"({"function": "f", "arguments": {"a": -1.5e3}})"),
            Calls({Call("f", R"({"a": -1.5e3})")}));
  EXPECT_EQ(call(R"([{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])"),
            Calls({Call("f", "{}"), Call("g", "{}")}));
  EXPECT_EQ(call(R"({"name": "f", "arguments": "{\"a\": \"\\u00fc\"}"})"),
            Calls({Call("f", R"({"a": "\u00fc"})")}));
  EXPECT_EQ(call(R"({"name": "f", "arguments": null})"), Calls({Call("f", "{}")}));
  EXPECT_EQ(call(R"({"name": "f"})"), Calls({Call("f", "{}")}));
  EXPECT_EQ(call(R"({"thought": {"name": 7}, "name": "f", "n": 12, "arguments": {}, "x": [1]})"),
            Calls({Call("f", "{}")}));
}

TEST(ReplyParserTest, ReadsLlama3) {
  const ReplyFormat format = Format("llama3");
  EXPECT_EQ(Parse(format, R"({"name": "get_weather", "parameters": {"city": "Oslo"}})"),
            Calls({Oslo()}));
  EXPECT_EQ(
      Parse(format, R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}})"),
      Calls({Oslo()}));
  EXPECT_EQ(Parse(format, "<|python_tag|>brave_search.call(query=\"Oslo weather\")"),
            Calls({Call("brave_search", R"({"query": "Oslo weather"})")}));
  EXPECT_EQ(Parse(format, R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": {}})"),
            Calls({Call("f", "{}"), Call("g", "{}")}));
  EXPECT_EQ(Parse(format, R"([get_weather(city='Oslo'), f(a=1, b=[True, None], c={"k": 5e1})])"),
            Calls({Oslo(), Call("f", R"({"a": 1, "b": [true, null], "c": {"k": 5e1}})")}));
  // The second is no call; the first has been one already.
  EXPECT_EQ(Parse(format, "[get_weather(city='Oslo'), f(1)]"), Calls({Oslo()}, ", f(1)]"));
}

TEST(ReplyParserTest, JsonThatIsNoCallIsContent) {
  for (const std::string_view text :
       {R"({"name": "Ada", "age": 36})", R"({"name": "Ada"})", R"([{"name": "Ada"}, 3])",
        R"([1, 2])", "[a link](https://example.org)", "[f(x)](https://example.org)", "{", "[",
        R"({"answer": {"name": "f", "arguments": {}}})", R"({"name": "f", "parameters": 3})",
        R"(Call {"name": "f", "parameters": {}} now)", "{\"name\": \"f\", \"par"}) {
    EXPECT_EQ(Parse(Format("llama3"), text), Content(std::string(text)));
    EXPECT_EQ(Parse(Format("gemma"), text), Content(std::string(text)));
  }
}

TEST(ReplyParserTest, ReadsMistral) {
  const ReplyFormat format = Format("mistral", "mistral");
  EXPECT_EQ(Parse(format,
                  "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                  "\"Oslo\"}, \"id\": \"D681PevKs\"}]"),
            Calls({Oslo()}));
  EXPECT_EQ(Parse(format,
                  "I look.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}"
                  "[TOOL_CALLS]f[CALL_ID]D681PevKs[ARGS]{}"),
            Calls({Oslo(), Call("f", "{}", "D681PevKs")}, "I look."));
  EXPECT_EQ(Parse(format, "[THINK]Hm[TOOL_CALLS]f{}"), Calls({Call("f", "{}")}, "", "Hm"));
}

TEST(ReplyParserTest, ReadsHarmony) {
  const ReplyFormat format = Format("harmony");
  EXPECT_EQ(Parse(format,
                  "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
                  "final<|message|>Yes.\n<|return|>"),
            Calls({}, "Yes.", "Hm."));
  EXPECT_EQ(Parse(format,
                  "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
                  "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
                  "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}"),
            Calls({Oslo()}, "I look.", "Hm."));
  EXPECT_EQ(Parse(format,
                  "<|channel|>analysis<|message|>A<|end|><|start|>assistant "
                  "to=functions.f<|channel|>commentary json<|message|>{\"s\": \"<|end|>\"}"
                  "<|call|><|start|>assistant<|channel|>analysis<|message|>B"),
            Calls({Call("f", R"({"s": "<|end|>"})")}, "", "A\nB"));
  EXPECT_EQ(Parse(format, " to=functions.f<|channel|>commentary<|message|>{}"),
            Calls({Call("f", "{}")}));
  EXPECT_EQ(Parse(format, "<|channel|>analysis to=python code<|message|>print(1)<|call|>"),
            Calls({BrokenCall("python", "print(1)")}));
  EXPECT_EQ(Parse(format, "Plain, to=you"), Content("Plain, to=you"));
  EXPECT_EQ(Parse(format, "<|channel|>anal"), Content(""));
}

TEST(ReplyParserTest, ReadsDeepSeek) {
  const ReplyFormat format = Format("deepseek", "think");
  EXPECT_EQ(
      Parse(format,
            "Hm</think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
            "get_weather\n```json\n{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜>\n"
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
            "<｜tool▁calls▁end｜>",
            {.starts_in_reasoning = true}),
      Calls({Oslo(), Call("f", "{}")}, "I look.", "Hm"));
  EXPECT_EQ(Parse(format,
                  "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
                  "{\"city\": \"Oslo\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            Calls({Oslo()}));
}

TEST(ReplyParserTest, ReadsDeepSeekMarkup) {
  EXPECT_EQ(Parse(Format("deepseek-dsml", "think"),
                  "I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n"
                  "<｜DSML｜parameter name=\"s\" string=\"true\">12</｜DSML｜parameter>\n"
                  "<｜DSML｜parameter name=\"n\" string=\"false\">12</｜DSML｜parameter>\n"
                  "</｜DSML｜invoke>\n</｜DSML｜function_calls>"),
            Calls({Call("f", R"({"s": "12", "n": 12})")}, "I look."));
}

TEST(ReplyParserTest, ReadsGlm) {
  const ReplyFormat format = Format("glm", "think");
  EXPECT_EQ(Parse(format,
                  "\n<think>Hm</think>\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
                  "<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
                  "<arg_key>more</arg_key>\n<arg_value>{\"a\": [true]}</arg_value>\n</tool_call>"),
            Calls({Call("get_weather", R"({"city": "Oslo", "days": 3, "more": {"a": [true]}})")},
                  "I look.", "Hm"));
  EXPECT_EQ(Parse(format,
                  "<tool_call>f</tool_call><tool_call>g<arg_key>a</arg_key><arg_value>"
                  "</arg_value></tool_call>"),
            Calls({Call("f", "{}"), Call("g", R"({"a": ""})")}));
}

TEST(ReplyParserTest, ReadsQwen3Coder) {
  const ReplyFormat format = Format("qwen3-coder");
  EXPECT_EQ(
      Parse(format,
            "I look.\n<tool_call>\n<function=write>\n<parameter=path>\n/a/b\n</parameter>\n"
            "<parameter=text>\nif a < b:\n    \"c\"\n\n</parameter>\n<parameter=all>\nTrue\n"
            "</parameter>\n</function>\n</tool_call>"),
      Calls({Call("write", R"({"path": "/a/b", "text": "if a < b:\n    \"c\"\n", "all": true})")},
            "I look."));
  // Models forget the outer tag, and the tags at the end.
  EXPECT_EQ(Parse(format,
                  "<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n"
                  "<parameter=a>1</parameter>\n</tool_call>Done"),
            Calls({Call("f", "{}"), Call("g", R"({"a": 1})")}, "Done"));
  EXPECT_EQ(Parse(format, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
            Calls({Call("f", "{}")}));
  EXPECT_EQ(Parse(Format("seed"),
                  "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n"
                  "</function>\n</seed:tool_call>"),
            Calls({Call("f", R"({"a": "x"})")}));
}

TEST(ReplyParserTest, ReadsMiniMax) {
  EXPECT_EQ(Parse(Format("minimax", "think"),
                  "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n"
                  "<parameter name=\"b\">[1]</parameter>\n</invoke>\n<invoke name=\"g\">\n"
                  "</invoke>\n</minimax:tool_call>"),
            Calls({Call("f", R"({"a": "x", "b": [1]})"), Call("g", "{}")}));
}

TEST(ReplyParserTest, ReadsKimi) {
  EXPECT_EQ(Parse(Format("kimi", "think"),
                  "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
                  "<|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|>"
                  "<|tool_calls_section_end|>"),
            Calls({Call("get_weather", std::string(kOslo), "functions.get_weather:0")}, "I look."));
}

TEST(ReplyParserTest, ReadsGemma) {
  const ReplyFormat gemma = Format("gemma");
  EXPECT_EQ(Parse(gemma, "I look.\n```tool_code\nprint(get_weather(city=\"Oslo\"))\n```\n"),
            Calls({Oslo()}, "I look."));
  EXPECT_EQ(Parse(gemma, "[get_weather(city=\"Oslo\")]"), Calls({Oslo()}));
  EXPECT_EQ(Parse(gemma,
                  "```json\n{\"name\": \"get_weather\", \"parameters\": {\"city\": "
                  "\"Oslo\"}}\n```"),
            Calls({Oslo()}));
  const std::string code = "```json\n{\"name\": \"Ada\", \"age\": 36}\n```\n";
  EXPECT_EQ(Parse(gemma, code), Content(code));
  EXPECT_EQ(Parse(Format("gemma4", "gemma4"),
                  "<|channel>thought\nHm<channel|><|tool_call>call:f{s:<|\"|>a \"b\", {c}<|\"|>,n:1"
                  ",l:[true,{k:<|\"|>v<|\"|>}]}<tool_call|><|tool_call>call:g{}<tool_call|>"),
            Calls({Call("f", R"({"s": "a \"b\", {c}", "n": 1, "l": [true, {"k": "v"}]})"),
                   Call("g", "{}")},
                  "", "Hm"));
  EXPECT_EQ(Parse(Format("functiongemma"),
                  "<start_function_call>call:get_weather{city:<escape>Oslo"
                  "<escape>}<end_function_call>"),
            Calls({Oslo()}));
}

TEST(ReplyParserTest, ReadsPythonLists) {
  EXPECT_EQ(Parse(Format("lfm2"),
                  "<|tool_call_start|>[get_weather(city='Oslo'), f()]"
                  "<|tool_call_end|>I look."),
            Calls({Oslo(), Call("f", "{}")}, "I look."));
  EXPECT_EQ(Parse(Format("olmo3"),
                  "<function_calls>\nget_weather(city=\"Oslo\")\nf(a=-1)\n"
                  "</function_calls>"),
            Calls({Oslo(), Call("f", R"({"a": -1})")}));
  EXPECT_EQ(Parse(Format("llama4"), "<|python_start|>[f(a=')', b=\"it's\")]<|python_end|>"),
            Calls({Call("f", "{\"a\": \")\", \"b\": \"it's\"}")}));
}

TEST(ReplyParserTest, ReadsJsonBetweenMarkers) {
  struct Row {
    std::string_view format, open, close;
  };
  for (const Row& row :
       {Row{"granite", "<|tool_call|>", ""}, Row{"granite", "<|tool_call|>", "<|/tool_call|>"},
        Row{"nemotron", "<TOOLCALL>", "</TOOLCALL>"},
        Row{"tool-calls", "<tool_calls>", "</tool_calls>"},
        Row{"command", "<|START_ACTION|>", "<|END_ACTION|>"},
        Row{"internlm", "<|action_start|><|plugin|>\n", "<|action_end|>"},
        Row{"functools", "functools", ""}, Row{"json", "", ""}}) {
    const std::string text =
        std::string(row.open) +
        "[\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}\n]" +
        std::string(row.close);
    EXPECT_EQ(Parse(Format(row.format), text), Calls({Oslo()})) << row.format;
  }
  EXPECT_EQ(Parse(Format("command", "command"),
                  "<|START_THINKING|>Hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": "
                  "\"0\", \"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|>"),
            Calls({Call("f", "{}", "0")}, "", "Hm"));
  EXPECT_EQ(Parse(Format("command", "command"), "<|START_RESPONSE|>Yes<|END_RESPONSE|>"),
            Content("Yes"));
  EXPECT_EQ(Parse(Format("functionary"), "<function=get_weather>{\"city\": \"Oslo\"}</function>"),
            Calls({Oslo()}));
}

TEST(ReplyParserTest, JsonArgumentsComeOutAsTheyArrive) {
  ReplyParser parser(Format("hermes"));
  EXPECT_TRUE(parser.Push("<tool_call>{\"name\": \"f\", \"arguments\": ").empty());
  const auto begin = parser.Push("{\"te");
  ASSERT_EQ(begin.size(), 2);
  EXPECT_EQ(begin[0].part, ReplyPart::kCallBegin);
  EXPECT_EQ(begin[0].text, "f");
  EXPECT_EQ(begin[1].part, ReplyPart::kCallArguments);
  EXPECT_EQ(begin[1].text, "{\"te");
  const auto more = parser.Push("xt\": 1}");
  ASSERT_EQ(more.size(), 1);
  EXPECT_EQ(more[0].text, "xt\": 1}");
  const auto end = parser.Push("}");
  ASSERT_EQ(end.size(), 1);
  EXPECT_EQ(end[0].part, ReplyPart::kCallEnd);
  EXPECT_TRUE(end[0].complete);
  EXPECT_TRUE(parser.Push("\n</tool_call>").empty());
  EXPECT_TRUE(parser.Finish().empty());
}

TEST(ReplyParserTest, ArgumentsBetweenTagsComeOutOneByOne) {
  ReplyParser parser(Format("glm"));
  EXPECT_EQ(parser.Push("<tool_call>f\n").size(), 2);
  const auto deltas = parser.Push("<arg_key>a</arg_key><arg_value>x</arg_value>");
  ASSERT_EQ(deltas.size(), 1);
  EXPECT_EQ(deltas[0].text, R"("a": "x")");
}

}  // namespace
}  // namespace thaw
