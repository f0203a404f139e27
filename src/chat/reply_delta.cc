#include "chat/reply_delta.h"

#include <utility>

#include "base/check.h"

namespace thaw {

void AppendDelta(const ReplyDelta& delta, Reply& reply) {
  switch (delta.part) {
    case ReplyPart::kContent:
      reply.content += delta.text;
      break;
    case ReplyPart::kReasoning:
      reply.reasoning += delta.text;
      break;
    case ReplyPart::kCallBegin:
      reply.tool_calls.push_back({.id = delta.id, .name = delta.text, .arguments = {}});
      break;
    case ReplyPart::kCallArguments:
      THAW_CHECK(!reply.tool_calls.empty());
      reply.tool_calls.back().arguments += delta.text;
      break;
    case ReplyPart::kCallEnd:
      THAW_CHECK(!reply.tool_calls.empty());
      reply.tool_calls.back().complete = delta.complete;
      break;
  }
}

void DeltaWriter::BeginCall(std::string_view name, std::string_view id) {
  THAW_CHECK(!call_open_);
  deltas_.push_back(
      {.part = ReplyPart::kCallBegin, .text = std::string(name), .id = std::string(id)});
  ++call_count_;
  call_open_ = true;
  arguments_ended_ = false;
}

void DeltaWriter::EndCall() {
  THAW_CHECK(call_open_);
  deltas_.push_back({.part = ReplyPart::kCallEnd, .complete = arguments_ended_});
  call_open_ = false;
}

std::vector<ReplyDelta> DeltaWriter::Take() { return std::exchange(deltas_, {}); }

void DeltaWriter::Append(ReplyPart part, std::string_view text) {
  if (text.empty()) return;
  if (deltas_.empty() || deltas_.back().part != part) deltas_.push_back({.part = part});
  deltas_.back().text += text;
}

}  // namespace thaw
