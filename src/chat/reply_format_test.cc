#include "chat/reply_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/paths.h"
#include "support/read_file.h"

namespace thaw {
namespace {

// "calls/reasoning", each "none" where there is none.
std::string NameOf(const ReplyFormat& format) {
  return std::string(format.calls == nullptr ? "none" : format.calls->name) + "/" +
         std::string(format.reasoning == nullptr ? "none" : format.reasoning->name);
}

const std::map<std::string, std::string>& FormatsOfTemplates() {
  static const std::map<std::string, std::string> formats = {
      {"HuggingFaceTB-SmolLM3-3B", "none/think"},
      {"Qwen-Qwen2.5-7B-Instruct", "hermes/none"},
      {"Qwen-Qwen3-0.6B", "hermes/think"},
      {"Qwen3-Coder", "qwen3-coder/none"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek/think"},
      {"google-gemma-2-2b-it", "gemma/none"},
      {"ibm-granite-granite-3.3-2B-Instruct", "granite/think-response"},
      {"meta-llama-Llama-3.1-8B-Instruct", "llama3/none"},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama3/none"},
      {"microsoft-Phi-3.5-mini-instruct", "none/none"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral/none"},
      {"openai-gpt-oss-120b", "harmony/none"},
  };
  return formats;
}

void ExpectFormatsOf(const std::filesystem::path& folder) {
  size_t template_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem();
    ASSERT_TRUE(FormatsOfTemplates().contains(name)) << name;
    EXPECT_EQ(NameOf(ChooseReplyFormat(ReadFile(entry.path()))), FormatsOfTemplates().at(name))
        << name;
    ++template_count;
  }
  EXPECT_EQ(template_count, FormatsOfTemplates().size());
}

TEST(ReplyFormatTest, TheFormatOfEveryTemplateIsKnown) { ExpectFormatsOf(GoldenDir() / "chat"); }

TEST(ReplyFormatTest, TheFormatOfEveryConformanceTemplateIsKnown) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "no conformance folder";
  ExpectFormatsOf(ConformanceDir() / "chat");
}

// As the families' templates write them; none of these templates is at hand as a file.
TEST(ReplyFormatTest, TemplatesAreKnownByTheirMarkers) {
  struct Row {
    std::string_view source;
    std::string_view format;
  };
  for (const Row& row : {
           Row{"", "none/none"},
           Row{"<|im_start|>{{ role }}", "none/none"},
           Row{"<think></think> <tool_call>{f}\n<arg_key>{k}</arg_key>", "glm/think"},
           Row{"'</think>' <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "deepseek/think"},
           Row{"set dsml_token = \"｜DSML｜\" </think>", "deepseek-dsml/think"},
           Row{"<think></think><|tool_calls_section_begin|><|tool_call_begin|>", "kimi/think"},
           Row{"</think>'<minimax:tool_call>'<invoke name=\"", "minimax/think"},
           Row{"<seed:think></seed:think><seed:tool_call><function=f><parameter=a>", "seed/seed"},
           Row{"<|START_THINKING|><|END_THINKING|><|START_ACTION|>", "command/command"},
           Row{"[TOOL_CALLS][ARGS][THINK][/THINK]", "mistral/mistral"},
           Row{"<|channel>thought\n<channel|><|tool_call>call:", "gemma4/gemma4"},
           Row{"<start_of_turn><start_function_call>call:", "functiongemma/none"},
           Row{"<|tool_call_start|>[ </think>", "lfm2/think"},
           Row{"<|im_start|><|tool_list_start|>", "lfm2/none"},
           Row{"<TOOLCALL>[{</TOOLCALL> </think>", "nemotron/think"},
           Row{"<|tool|>{{ tools }}<|/tool|>", "granite/none"},
           Row{"Return <tool_call></tool_call> <tool_calls>[{</thinking>", "tool-calls/thinking"},
           Row{"<function_calls>", "olmo3/none"},
           Row{"<|header_start|>", "llama4/none"},
           Row{"<function=example>{{ json }}</function>", "functionary/none"},
           Row{R"({"name": function, "parameters": arguments})", "json/none"},
       }) {
    EXPECT_EQ(NameOf(ChooseReplyFormat(row.source)), row.format) << row.source;
  }
}

TEST(ReplyFormatTest, FormatsAreFoundByName) {
  std::set<std::string_view> names;
  for (const CallFormat& format : CallFormats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(FindCallFormat(format.name), &format);
    EXPECT_TRUE(format.unmarked || !format.openers[0].empty() ||
                format.syntax == CallSyntax::kChannels)
        << format.name;
    EXPECT_EQ(format.syntax == CallSyntax::kTags, !format.tags.call_close.empty()) << format.name;
  }
  for (const ReasoningFormat& format : ReasoningFormats()) {
    EXPECT_EQ(FindReasoningFormat(format.name), &format);
    EXPECT_FALSE(format.open.empty() || format.close.empty()) << format.name;
  }
  EXPECT_EQ(FindCallFormat("none"), nullptr);
  EXPECT_EQ(FindReasoningFormat(""), nullptr);
}

TEST(ReplyFormatTest, PromptsTellWhetherReasoningIsOpen) {
  const ReplyFormat format = ChooseReplyFormat("<think></think>");
  EXPECT_TRUE(EndsInReasoning(format, "<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(EndsInReasoning(format, "<think>"));
  EXPECT_FALSE(EndsInReasoning(format, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(EndsInReasoning(format, "What is <think>?\nassistant\n"));
  EXPECT_FALSE(EndsInReasoning(format, ""));
  EXPECT_FALSE(EndsInReasoning({}, "<think>"));
}

TEST(ReplyFormatTest, PromptsOfRealTemplatesTellWhetherReasoningIsOpen) {
  for (const auto& [name, formats] : FormatsOfTemplates()) {
    const auto folder = GoldenDir() / "chat";
    const ReplyFormat format = ChooseReplyFormat(ReadFile(folder / (name + ".jinja")));
    for (const auto& test : nlohmann::json::parse(ReadFile(folder / (name + ".json")))) {
      if (!test.contains("rendered")) continue;
      const std::string prompt = test["rendered"];
      EXPECT_EQ(EndsInReasoning(format, prompt), prompt.ends_with("<think>\n")) << name;
    }
  }
}

}  // namespace
}  // namespace thaw
