// Splits what a model writes into content, reasoning and tool calls, while it is written.
//
// How a reply is cut into pieces changes nothing: the deltas add up to the same Reply. A marker is
// held back until it is whole; one that does not become whole is content. Blanks beside a marker
// are dropped, and parts of content (or of reasoning) that markers separate are joined by a
// newline. Reasoning opens only where a piece of content begins: <think> inside of a sentence is
// text.
//
// A call begins once its name is known and its arguments open as an object; JSON arguments then
// come out as they arrive, those written otherwise when an argument (tags) or the call (Python,
// braces) is whole. What fails before that is text of the piece where it stands, with its markers,
// and so is a call of which no more came. Afterwards a call that breaks or is cut off ends with
// `complete` false: its arguments are what the model wrote, up to the closing marker or the end;
// what follows is read as usual. Only arguments that are an object count, also as a string that
// holds one; none at all are {}. Control characters in JSON strings come out escaped, brackets too
// many behind a call not at all. A harmony header that the text's end cuts off is lost.
//
// Text must have its special tokens spelled out. It may be cut inside of characters; invalid UTF-8
// becomes U+FFFD. Owns what it holds back: at most kMaxHeldBytes of what may be a call or an
// argument (beyond, it is text) and kMaxHeldBlanks. JSON nests up to kMaxJsonDepth, deeper is
// malformed. Time is linear in the text. Not thread safe; the formats are constants.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "chat/call_reader.h"
#include "chat/marker_matcher.h"
#include "chat/piece_writer.h"
#include "chat/reply_delta.h"
#include "chat/reply_format.h"

namespace thaw {

struct ReplyParserOptions {
  // The prompt ends with open reasoning; see EndsInReasoning.
  bool starts_in_reasoning = false;
  // False where the request offers no tools: what looks like a call is content.
  bool reads_calls = true;
};

class ReplyParser {
 public:
  explicit ReplyParser(const ReplyFormat& format, const ReplyParserOptions& options = {});

  // What is known after more text. No delta ends inside of a character.
  std::vector<ReplyDelta> Push(std::string_view text);
  // What was held back, at the end of the text. The parser takes no more.
  std::vector<ReplyDelta> Finish();

 private:
  enum class State {
    kText,     // content or reasoning, which part_ says
    kHeader,   // of a message
    kSection,  // between the marker of a list of calls and that of its first call
    kPayload,  // before the byte that says how the payload is written
    kCall,     // reader_ is at work
    kBroken,   // of a call whose arguments broke, up to a marker
  };

  void AddMarkers();
  bool IsAllowed(const Marker& marker) const;

  void Step(char c);
  void StepAll(std::string_view text);
  void StepHeader(char c);
  void StepPayload(char c);
  void StepCall(char c);

  void Use(const MarkerMatcher::Found& found);
  void UseMarker(const Marker& marker);
  void UseText(char c);
  void WriteText(char c);

  void BeginMessage();
  void OpenCall(std::string_view marker, State state);
  std::unique_ptr<CallReader> NewReader();
  void EndPayload(std::string_view unread);
  void FailPayload(std::string_view unread);
  void GiveUpCall();

  const ReplyFormat format_;
  const ReplyParserOptions options_;
  std::vector<Marker> markers_;

  Utf8Assembler characters_;
  DeltaWriter writer_;
  PieceWriter pieces_;
  MarkerMatcher matcher_;
  State state_ = State::kText;
  ReplyPart part_ = ReplyPart::kContent;
  bool after_call_ = false;  // and no text has come since

  std::string header_;
  // Of the call that is read.
  std::string raw_;      // text if this is no call
  std::string payload_;  // in kPayload: blanks and a bracket, which follow raw_
  bool is_strict_ = false;
  size_t calls_before_payload_ = 0;
  size_t call_count_ = 0;  // of which raw_ has nothing any more
  std::unique_ptr<CallReader> reader_;
};

// The whole text at once.
Reply ParseReply(const ReplyFormat& format, std::string_view text,
                 const ReplyParserOptions& options = {});

}  // namespace thaw
