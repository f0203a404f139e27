#include "chat/reply_format.h"

#include <algorithm>

namespace thaw {
namespace {

constexpr ReasoningFormat kReasoning[] = {
    {.name = "think", .open = "<think>", .close = "</think>"},
    {.name = "think-response",
     .open = "<think>",
     .close = "</think>",
     .dropped = {"<response>", "</response>"}},
    {.name = "mistral", .open = "[THINK]", .close = "[/THINK]"},
    {.name = "seed", .open = "<seed:think>", .close = "</seed:think>"},
    {.name = "command",
     .open = "<|START_THINKING|>",
     .close = "<|END_THINKING|>",
     .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
    {.name = "gemma4", .open = "<|channel>thought", .close = "<channel|>"},
    {.name = "thinking", .open = "<thinking>", .close = "</thinking>"},
};

constexpr CallTags kParameterTags = {.name_close = ">",
                                     .key_open = "<parameter=",
                                     .key_close = ">",
                                     .value_close = "</parameter>",
                                     .call_close = "</function>"};
constexpr CallTags kInvokeTags = {.name_close = "\">",
                                  .key_open = "<parameter name=\"",
                                  .key_close = "\">",
                                  .value_close = "</parameter>",
                                  .call_close = "</invoke>"};
// Keys carry an attribute: name="k" string="true". The reader knows it.
constexpr CallTags kDsmlTags = {.name_close = "\">",
                                .key_open = "<｜DSML｜parameter name=\"",
                                .key_close = "\">",
                                .value_close = "</｜DSML｜parameter>",
                                .call_close = "</｜DSML｜invoke>"};
constexpr CallTags kPairTags = {.key_open = "<arg_key>",
                                .key_close = "</arg_key>",
                                .value_open = "<arg_value>",
                                .value_close = "</arg_value>",
                                .call_close = "</tool_call>"};

constexpr CallFormat kCalls[] = {
    {.name = "harmony", .syntax = CallSyntax::kChannels},
    {.name = "hermes", .openers = {"<tool_call>"}, .closers = {"</tool_call>"}},
    {.name = "qwen3-coder",
     .syntax = CallSyntax::kTags,
     .section = "<tool_call>",
     .openers = {"<function="},
     .closers = {"</tool_call>"},
     .tags = kParameterTags},
    {.name = "seed",
     .syntax = CallSyntax::kTags,
     .section = "<seed:tool_call>",
     .openers = {"<function="},
     .closers = {"</seed:tool_call>"},
     .tags = kParameterTags},
    {.name = "minimax",
     .syntax = CallSyntax::kTags,
     .section = "<minimax:tool_call>",
     .openers = {"<invoke name=\""},
     .closers = {"</minimax:tool_call>"},
     .tags = kInvokeTags},
    {.name = "glm",
     .syntax = CallSyntax::kTags,
     .openers = {"<tool_call>"},
     .closers = {"</tool_call>"},
     .tags = kPairTags},
    {.name = "deepseek-dsml",
     .syntax = CallSyntax::kTags,
     .section = "<｜DSML｜function_calls>",
     .openers = {"<｜DSML｜invoke name=\""},
     .closers = {"</｜DSML｜function_calls>"},
     .tags = kDsmlTags},
    // R1 and V3 write "function", a separator, the name and a fenced block; V3.1 the name, a
    // separator and the arguments.
    {.name = "deepseek",
     .syntax = CallSyntax::kNamedJson,
     .section = "<｜tool▁calls▁begin｜>",
     .openers = {"<｜tool▁call▁begin｜>"},
     .closers = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
     .ends_reasoning = true,
     .name_prefixes = {"function<｜tool▁sep｜>"},
     .name_ends = {"<｜tool▁sep｜>", "\n"}},
    {.name = "kimi",
     .syntax = CallSyntax::kNamedJson,
     .section = "<|tool_calls_section_begin|>",
     .openers = {"<|tool_call_begin|>"},
     .closers = {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
     .ends_reasoning = true,
     .name_prefixes = {"functions."},
     .name_ends = {":", "<|tool_call_argument_begin|>"},
     .id_is_head = true},
    // Up to version 7 of the tokenizer a JSON list, later the name and its arguments.
    {.name = "mistral",
     .syntax = CallSyntax::kNamedJson,
     .openers = {"[TOOL_CALLS]"},
     .ends_reasoning = true,
     .name_ends = {"[CALL_ID]", "[ARGS]"},
     .id_open = "[CALL_ID]"},
    {.name = "functionary",
     .syntax = CallSyntax::kNamedJson,
     .openers = {"<function="},
     .closers = {"</function>"},
     .name_ends = {">"}},
    {.name = "command", .openers = {"<|START_ACTION|>"}, .closers = {"<|END_ACTION|>"}},
    {.name = "nemotron", .openers = {"<TOOLCALL>"}, .closers = {"</TOOLCALL>"}},
    {.name = "granite",
     .openers = {"<|tool_call|>", "<tool_call>"},
     .closers = {"<|/tool_call|>", "</tool_call>"}},
    {.name = "tool-calls", .openers = {"<tool_calls>"}, .closers = {"</tool_calls>"}},
    {.name = "internlm",
     .openers = {"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"},
     .closers = {"<|action_end|>"}},
    {.name = "functools", .openers = {"functools"}},
    {.name = "lfm2",
     .syntax = CallSyntax::kPython,
     .openers = {"<|tool_call_start|>"},
     .closers = {"<|tool_call_end|>"}},
    {.name = "olmo3",
     .syntax = CallSyntax::kPython,
     .openers = {"<function_calls>"},
     .closers = {"</function_calls>"}},
    {.name = "gemma4",
     .syntax = CallSyntax::kBraces,
     .openers = {"<|tool_call>"},
     .closers = {"<tool_call|>"}},
    {.name = "functiongemma",
     .syntax = CallSyntax::kBraces,
     .openers = {"<start_function_call>"},
     .closers = {"<end_function_call>"}},
    {.name = "llama3",
     .syntax = CallSyntax::kPython,
     .openers = {"<|python_tag|>"},
     .closers = {";"},
     .unmarked = true},
    {.name = "llama4",
     .syntax = CallSyntax::kPython,
     .openers = {"<|python_start|>"},
     .closers = {"<|python_end|>", ";"},
     .unmarked = true},
    {.name = "gemma",
     .syntax = CallSyntax::kPython,
     .openers = {"```tool_code", "```tool_call", "```json"},
     .closers = {"```"},
     .unmarked = true},
    {.name = "json", .openers = {"```json"}, .closers = {"```", ";"}, .unmarked = true},
};

// Texts that a template must contain, all of them, and the format that this shows. The first row
// that fits is taken: those whose markers others contain too stand behind them.
struct TemplateMark {
  std::string_view first;
  std::string_view second;
  std::string_view format;
};

constexpr TemplateMark kReasoningMarks[] = {
    {"</think>", "<response>", "think-response"},
    {"</think>", "", "think"},
    {"[/THINK]", "", "mistral"},
    {"</seed:think>", "", "seed"},
    {"<seed:think>", "", "seed"},
    {"<|END_THINKING|>", "", "command"},
    {"<|channel>thought", "", "gemma4"},
    {"</thinking>", "", "thinking"},
};

constexpr TemplateMark kCallMarks[] = {
    {"<|channel|>", "<|message|>", "harmony"},
    {"｜DSML｜", "", "deepseek-dsml"},
    {"<｜tool▁call▁begin｜>", "", "deepseek"},
    {"<|tool_call_begin|>", "", "kimi"},
    {"<minimax:tool_call>", "", "minimax"},
    {"<seed:tool_call>", "", "seed"},
    {"<function=", "<parameter=", "qwen3-coder"},
    {"<arg_key>", "", "glm"},
    {"<|tool_call>", "", "gemma4"},
    {"<start_function_call>", "", "functiongemma"},
    {"<|START_ACTION|>", "", "command"},
    {"[TOOL_CALLS]", "", "mistral"},
    {"<TOOLCALL>", "", "nemotron"},
    {"<|tool_call_start|>", "", "lfm2"},
    {"<|tool_list_start|>", "", "lfm2"},
    {"<|tool_call|>", "", "granite"},
    {"<|/tool|>", "", "granite"},
    {"<tool_calls>", "", "tool-calls"},
    {"<tool_call>", "", "hermes"},
    {"<function_calls>", "", "olmo3"},
    {"<function=", "", "functionary"},
    {"<|action_start|>", "", "internlm"},
    {"functools[", "", "functools"},
    {"<|python_start|>", "", "llama4"},
    {"<|header_start|>", "", "llama4"},
    {"<|python_tag|>", "", "llama3"},
    {"<|start_header_id|>", "\"parameters\"", "llama3"},
    {"<start_of_turn>", "", "gemma"},
    {"\"name\"", "\"parameters\"", "json"},
    {"\"name\"", "\"arguments\"", "json"},
};

// Null where no row fits.
template <typename Format>
const Format* Choose(std::span<const TemplateMark> marks, std::string_view source,
                     const Format* (*find)(std::string_view)) {
  const auto fits = [&](const TemplateMark& mark) {
    return source.find(mark.first) != source.npos && source.find(mark.second) != source.npos;
  };
  const auto row = std::ranges::find_if(marks, fits);
  return row == marks.end() ? nullptr : find(row->format);
}

template <typename Format>
const Format* Find(std::span<const Format> formats, std::string_view name) {
  const auto row = std::ranges::find(formats, name, &Format::name);
  return row == formats.end() ? nullptr : &*row;
}

}  // namespace

std::span<const ReasoningFormat> ReasoningFormats() { return kReasoning; }

std::span<const CallFormat> CallFormats() { return kCalls; }

const ReasoningFormat* FindReasoningFormat(std::string_view name) {
  return Find(ReasoningFormats(), name);
}

const CallFormat* FindCallFormat(std::string_view name) { return Find(CallFormats(), name); }

ReplyFormat ChooseReplyFormat(std::string_view template_source) {
  return {.reasoning = Choose(std::span(kReasoningMarks), template_source, FindReasoningFormat),
          .calls = Choose(std::span(kCallMarks), template_source, FindCallFormat)};
}

bool EndsInReasoning(const ReplyFormat& format, std::string_view prompt) {
  if (format.reasoning == nullptr) return false;
  prompt = prompt.substr(0, prompt.find_last_not_of(" \t\r\n") + 1);
  return prompt.ends_with(format.reasoning->open);
}

}  // namespace thaw
