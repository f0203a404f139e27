// Any bytes as a reply in any format, cut in any way: the same outcome as in one piece, whole
// characters, and no more text than the input accounts for. The first byte says the format, the
// second the options and the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/reply_parser.h"

namespace {

using thaw::Reply;
using thaw::ReplyDelta;

// A control character of a string becomes six bytes (\u0001); an argument gains its quotes and
// separators, fewer than the tags that it had.
constexpr size_t kMaxGrowth = 6;
constexpr size_t kMaxAddedBytes = 16;

void Take(const std::vector<ReplyDelta>& deltas, Reply& reply) {
  for (const ReplyDelta& delta : deltas) {
    THAW_CHECK(thaw::IsValidUtf8(delta.text));
    THAW_CHECK(thaw::IsValidUtf8(delta.id));
    AppendDelta(delta, reply);
  }
}

Reply ParseInPieces(const thaw::ReplyFormat& format, std::string_view text,
                    const thaw::ReplyParserOptions& options, size_t size) {
  thaw::ReplyParser parser(format, options);
  Reply reply;
  while (!text.empty()) {
    const size_t count = std::min(size, text.size());
    Take(parser.Push(text.substr(0, count)), reply);
    text.remove_prefix(count);
  }
  Take(parser.Finish(), reply);
  return reply;
}

void CheckReply(const Reply& reply, size_t text_bytes) {
  size_t bytes = reply.content.size() + reply.reasoning.size();
  for (const thaw::ToolCall& call : reply.tool_calls) {
    bytes += call.name.size() + call.arguments.size();
    THAW_CHECK(!call.name.empty());
    if (call.complete) THAW_CHECK(nlohmann::json::parse(call.arguments).is_object());
  }
  THAW_CHECK(bytes <= kMaxGrowth * text_bytes + kMaxAddedBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto calls = thaw::CallFormats();
  const auto reasoning = thaw::ReasoningFormats();
  const thaw::ReplyFormat format = {.reasoning = &reasoning[data[0] % reasoning.size()],
                                    .calls = &calls[data[0] % calls.size()]};
  const thaw::ReplyParserOptions options = {.starts_in_reasoning = (data[1] & 1) != 0,
                                            .reads_calls = (data[1] & 2) == 0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Reply reply = ParseReply(format, text, options);
  CheckReply(reply, text.size());
  THAW_CHECK(ParseInPieces(format, text, options, 1) == reply);
  THAW_CHECK(ParseInPieces(format, text, options, 2 + (data[1] >> 2)) == reply);
  return 0;
}
