// How families of models write what is more than content in a reply: reasoning and tool calls.
//
// Each way is a row of a table in reply_format.cc; ReplyParser (reply_parser.h) reads replies by
// it. A format is chosen by the markers that a chat template contains, or stated by name. The rows
// are constants of the program: pointers to them stay valid, any thread may read them.
//
// The text must have special tokens spelled out: in most families the markers are such tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace thaw {

// Up to as many texts as a family uses; empty ones do not count.
using Markers = std::array<std::string_view, 4>;

struct ReasoningFormat {
  std::string_view name;
  std::string_view open;
  std::string_view close;
  Markers dropped = {};  // frame the answer and say nothing
};

// How a call is written between its markers. Wherever one may stand, the payload may also be JSON
// as in kJson: fine-tuned models mix the two.
enum class CallSyntax : uint8_t {
  kJson,       // {"name": "f", "arguments": {...}} or a list of these
  kNamedJson,  // f, separators, {...}
  kTags,       // f, then each argument between tags
  kPython,     // f(key='value', ...) or a list of these
  kBraces,     // call:f{key:<|"|>value<|"|>, ...}
  kChannels,   // messages with headers that name a channel and a recipient (harmony)
};

// Tags of kTags, whose call opener stands before the function's name.
struct CallTags {
  std::string_view name_close = {};  // empty: the name ends where a line or the next tag begins
  std::string_view key_open = {};
  std::string_view key_close = {};
  std::string_view value_open = {};  // empty: the value follows the key's tag
  std::string_view value_close = {};
  std::string_view call_close = {};
};

struct CallFormat {
  std::string_view name;
  CallSyntax syntax = CallSyntax::kJson;
  std::string_view section =
      {};                // opens a list of calls, before the first opener; models forget it
  Markers openers = {};  // of one call, or of a list of JSON or Python calls
  Markers closers = {};  // what may follow a call and is no content
  // Calls may also begin without a marker: with { or [ where a piece of content begins.
  bool unmarked = false;
  // The openers are special tokens, which nobody writes by chance: one ends the reasoning too.
  bool ends_reasoning = false;
  CallTags tags = {};             // of kTags
  Markers name_prefixes = {};     // of kNamedJson: what stands before the name
  Markers name_ends = {};         // of kNamedJson: what ends it, beside {
  std::string_view id_open = {};  // of kNamedJson: stands before the call's id
  bool id_is_head = false;        // of kNamedJson: the text up to the end of the name is the id
};

// What a family's replies are made of. Null: it has no such part, and its text is content.
struct ReplyFormat {
  const ReasoningFormat* reasoning = nullptr;
  const CallFormat* calls = nullptr;

  friend bool operator==(const ReplyFormat&, const ReplyFormat&) = default;
};

std::span<const ReasoningFormat> ReasoningFormats();
std::span<const CallFormat> CallFormats();
// Null where there is no such format.
const ReasoningFormat* FindReasoningFormat(std::string_view name);
const CallFormat* FindCallFormat(std::string_view name);

// The format that a template's source asks for. Linear in the source.
ReplyFormat ChooseReplyFormat(std::string_view template_source);

// Whether a rendered prompt leaves reasoning open, so that the reply begins inside of it.
bool EndsInReasoning(const ReplyFormat& format, std::string_view prompt);

}  // namespace thaw
