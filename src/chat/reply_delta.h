// What a reply consists of, whole and in the pieces in which it arrives.
//
// Plain values. AppendDelta puts the pieces of a parser together again: what it builds is the same
// for every way in which the reply was cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thaw {

struct ToolCall {
  std::string id;  // as the model wrote it before the arguments; most families write none
  std::string name;
  std::string arguments;
  // The arguments are one whole JSON object. Otherwise they are what the model wrote instead, or
  // the beginning of an object that the end of the text cut off.
  bool complete = false;

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct Reply {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;

  friend bool operator==(const Reply&, const Reply&) = default;
};

enum class ReplyPart : uint8_t {
  kContent,
  kReasoning,
  kCallBegin,      // the next call: its name in `text`, its id where the model wrote one
  kCallArguments,  // more of the arguments of the call that began last
  kCallEnd,        // `complete` as in ToolCall
};

struct ReplyDelta {
  ReplyPart part = ReplyPart::kContent;
  std::string text = {};
  std::string id = {};
  bool complete = false;
};

// Deltas in the order in which they came.
void AppendDelta(const ReplyDelta& delta, Reply& reply);

// Collects deltas; those that follow each other with text of one part become one.
class DeltaWriter {
 public:
  // `part` is kContent or kReasoning.
  void Text(ReplyPart part, std::string_view text) { Append(part, text); }
  void BeginCall(std::string_view name, std::string_view id);
  void Arguments(std::string_view json) { Append(ReplyPart::kCallArguments, json); }
  // The arguments that were written are one whole object.
  void EndArguments() { arguments_ended_ = true; }
  void EndCall();

  bool call_open() const { return call_open_; }
  bool arguments_ended() const { return arguments_ended_; }
  // Of all deltas, also those taken.
  size_t call_count() const { return call_count_; }

  std::vector<ReplyDelta> Take();

 private:
  void Append(ReplyPart part, std::string_view text);

  std::vector<ReplyDelta> deltas_;
  size_t call_count_ = 0;
  bool call_open_ = false;
  bool arguments_ended_ = false;
};

}  // namespace thaw
