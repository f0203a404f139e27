// For the tests of ReplyParser: replies by hand, and parsing in every way of cutting the text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "chat/reply_parser.h"

namespace thaw {

// How GoogleTest prints them.
inline void PrintTo(const Reply& reply, std::ostream* out) {
  *out << "content: " << reply.content << "\nreasoning: " << reply.reasoning;
  for (const ToolCall& call : reply.tool_calls) {
    *out << "\n"
         << (call.complete ? "call " : "broken call ") << call.name << " [" << call.id << "] "
         << call.arguments;
  }
}

inline ReplyFormat Format(std::string_view calls, std::string_view reasoning = "") {
  const ReplyFormat format = {.reasoning = FindReasoningFormat(reasoning),
                              .calls = FindCallFormat(calls)};
  EXPECT_EQ(format.calls != nullptr, !calls.empty()) << calls;
  EXPECT_EQ(format.reasoning != nullptr, !reasoning.empty()) << reasoning;
  return format;
}

// In pieces of size() bytes.
inline Reply ParseInPieces(const ReplyFormat& format, std::string_view text,
                           const ReplyParserOptions& options, const std::function<size_t()>& size) {
  ReplyParser parser(format, options);
  Reply reply;
  const auto take = [&](const std::vector<ReplyDelta>& deltas) {
    for (const ReplyDelta& delta : deltas) {
      EXPECT_TRUE(IsValidUtf8(delta.text)) << delta.text;
      AppendDelta(delta, reply);
    }
  };
  while (!text.empty()) {
    const size_t count = std::min(size(), text.size());
    take(parser.Push(text.substr(0, count)));
    text.remove_prefix(count);
  }
  take(parser.Finish());
  return reply;
}

// The reply to `text`, which must be the same for every way of cutting the text.
inline Reply Parse(const ReplyFormat& format, std::string_view text,
                   const ReplyParserOptions& options = {}) {
  const Reply reply = ParseReply(format, text, options);
  EXPECT_EQ(ParseInPieces(format, text, options, [] { return 1; }), reply) << "byte by byte";
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same cuts in every run
  for (int i = 0; i < 20; ++i) {
    const auto size = [&] { return 1 + random() % 9; };
    EXPECT_EQ(ParseInPieces(format, text, options, size), reply);
  }
  for (const ToolCall& call : reply.tool_calls) {
    EXPECT_EQ(nlohmann::json::accept(call.arguments), call.complete) << call.arguments;
  }
  return reply;
}

inline ToolCall Call(std::string name, std::string arguments, std::string id = "") {
  return {.id = std::move(id),
          .name = std::move(name),
          .arguments = std::move(arguments),
          .complete = true};
}

inline ToolCall BrokenCall(std::string name, std::string arguments) {
  return {.id = {}, .name = std::move(name), .arguments = std::move(arguments)};
}

inline Reply Content(std::string content) {
  return {.content = std::move(content), .reasoning = {}, .tool_calls = {}};
}

inline Reply Calls(std::vector<ToolCall> calls, std::string content = "",
                   std::string reasoning = "") {
  return {.content = std::move(content),
          .reasoning = std::move(reasoning),
          .tool_calls = std::move(calls)};
}

inline constexpr std::string_view kOslo = R"({"city": "Oslo"})";

inline ToolCall Oslo() { return Call("get_weather", std::string(kOslo)); }

}  // namespace thaw
