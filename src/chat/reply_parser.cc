#include "chat/reply_parser.h"

#include <algorithm>

#include "base/check.h"
#include "chat/json_scanner.h"

namespace thaw {
namespace {

constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
// Stands before a recipient, also where the prompt has ended inside of a header.
constexpr std::string_view kRecipient = " to=";

// A bracket or comma too many behind a call is a slip of models, not the beginning of content.
constexpr std::string_view kStrayAfterCall = "}],";

constexpr Marker kHarmonyMarkers[] = {
    {kChannel, MarkerKind::kHeader},         {"<|start|>", MarkerKind::kHeader},
    {kRecipient, MarkerKind::kHeader},       {"<|end|>", MarkerKind::kMessageEnd},
    {"<|return|>", MarkerKind::kMessageEnd}, {"<|call|>", MarkerKind::kMessageEnd},
};

// What follows `marker` in a header, up to a blank or the next marker; empty where it is not there.
std::string_view HeaderField(std::string_view header, std::string_view marker) {
  const size_t at = header.find(marker);
  if (at == header.npos) return {};
  header.remove_prefix(at + marker.size());
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace

ReplyParser::ReplyParser(const ReplyFormat& format, const ReplyParserOptions& options)
    : format_(format), options_(options), pieces_(writer_) {
  AddMarkers();
  if (options.starts_in_reasoning && format.reasoning != nullptr) {
    part_ = ReplyPart::kReasoning;
    pieces_.EndPiece();
  }
}

void ReplyParser::AddMarkers() {
  const auto add = [&](std::string_view text, MarkerKind kind) {
    if (!text.empty()) markers_.push_back({text, kind});
  };
  if (const ReasoningFormat* reasoning = format_.reasoning) {
    add(reasoning->open, MarkerKind::kReasoningOpen);
    add(reasoning->close, MarkerKind::kReasoningClose);
    for (const std::string_view text : reasoning->dropped) add(text, MarkerKind::kDropped);
  }
  if (const CallFormat* calls = format_.calls) {
    add(calls->section, MarkerKind::kSection);
    for (const std::string_view text : calls->openers) add(text, MarkerKind::kCallOpen);
    for (const std::string_view text : calls->closers) add(text, MarkerKind::kCallClose);
    if (calls->syntax == CallSyntax::kChannels) {
      markers_.insert(markers_.end(), std::begin(kHarmonyMarkers), std::end(kHarmonyMarkers));
    }
  }
}

// Whether a marker counts where the text is.
bool ReplyParser::IsAllowed(const Marker& marker) const {
  const bool in_text = state_ == State::kText;
  const bool in_reasoning = part_ == ReplyPart::kReasoning;
  switch (marker.kind) {
    case MarkerKind::kReasoningOpen:
      return in_text && !pieces_.begun();
    case MarkerKind::kReasoningClose:
      return in_text && in_reasoning;
    case MarkerKind::kDropped:
      return in_text && !in_reasoning;
    case MarkerKind::kSection:
      return state_ != State::kSection && options_.reads_calls &&
             (!in_reasoning || format_.calls->ends_reasoning);
    case MarkerKind::kCallOpen:
      return options_.reads_calls && (!in_reasoning || format_.calls->ends_reasoning);
    case MarkerKind::kCallClose:
      return state_ == State::kBroken || (in_text && after_call_);
    case MarkerKind::kHeader:
      return marker.text != kRecipient || pieces_.at_start();
    case MarkerKind::kMessageEnd:
      return true;
  }
  return false;
}

std::vector<ReplyDelta> ReplyParser::Push(std::string_view text) {
  StepAll(characters_.Push(text));
  return writer_.Take();
}

std::vector<ReplyDelta> ReplyParser::Finish() {
  StepAll(characters_.Finish());
  while (!matcher_.empty()) Use(matcher_.Finish());
  if (writer_.call_open()) {
    if (reader_ != nullptr) reader_->Finish();
    writer_.EndCall();
  } else {
    GiveUpCall();
  }
  pieces_.Finish();
  return writer_.Take();
}

void ReplyParser::StepAll(std::string_view text) {
  for (const char c : text) Step(c);
}

void ReplyParser::Step(char c) {
  switch (state_) {
    case State::kHeader:
      return StepHeader(c);
    case State::kPayload:
      return StepPayload(c);
    case State::kCall:
      return StepCall(c);
    default:
      Use(matcher_.Step(c, markers_, [this](const Marker& marker) { return IsAllowed(marker); }));
  }
}

void ReplyParser::Use(const MarkerMatcher::Found& found) {
  if (found.marker != nullptr) UseMarker(*found.marker);
  for (const char c : found.text) UseText(c);
  StepAll(found.rest);
}

void ReplyParser::UseMarker(const Marker& marker) {
  if (state_ == State::kBroken) {
    writer_.EndCall();
    EndPayload({});
  }
  switch (marker.kind) {
    case MarkerKind::kSection:
      return OpenCall(marker.text, State::kSection);
    case MarkerKind::kCallOpen:
      return OpenCall(marker.text, State::kPayload);
    case MarkerKind::kHeader:
      header_ = marker.text;
      state_ = State::kHeader;
      break;
    case MarkerKind::kReasoningOpen:
      part_ = ReplyPart::kReasoning;
      break;
    default:
      part_ = ReplyPart::kContent;
  }
  pieces_.EndPiece();
}

// A byte that belongs to no marker.
void ReplyParser::UseText(char c) {
  const bool opens_payload = c == '{' || c == '[';
  if (state_ == State::kBroken) {
    writer_.Arguments(std::string_view(&c, 1));
  } else if (state_ == State::kSection) {
    if (IsJsonBlank(c) && raw_.size() < kMaxHeldBytes) {
      raw_ += c;
    } else if (opens_payload) {
      state_ = State::kPayload;
      StepPayload(c);
    } else {
      GiveUpCall();
      Step(c);
    }
  } else if (opens_payload && !pieces_.begun() && part_ == ReplyPart::kContent &&
             options_.reads_calls && format_.calls != nullptr && format_.calls->unmarked) {
    OpenCall({}, State::kPayload);
    StepPayload(c);
  } else if (!after_call_ || kStrayAfterCall.find(c) == kStrayAfterCall.npos) {
    WriteText(c);
  }
}

void ReplyParser::WriteText(char c) {
  if (!IsJsonBlank(c)) after_call_ = false;
  pieces_.Write(part_, c);
}

void ReplyParser::StepHeader(char c) {
  header_ += c;
  if (header_.ends_with(kMessage)) {
    BeginMessage();
  } else if (header_.size() > kMaxNameBytes) {
    part_ = ReplyPart::kContent;
    state_ = State::kText;
    for (const char byte : header_) WriteText(byte);
  }
}

// A header of harmony: <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json
// <|message|>, of which a reply may begin anywhere. What is said to nobody in the channel
// "analysis" is reasoning; in "final", and "commentary", where calls are announced, content.
void ReplyParser::BeginMessage() {
  static constexpr std::string_view kFunctions = "functions.";
  std::string_view recipient = HeaderField(header_, kRecipient);
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  if (options_.reads_calls && IsCallName(recipient)) {
    writer_.BeginCall(recipient, {});
    reader_ = NewArgumentsReader(writer_);
    part_ = ReplyPart::kContent;
    after_call_ = true;
    state_ = State::kCall;
    return;
  }
  const bool is_reasoning = HeaderField(header_, kChannel) == "analysis";
  part_ = is_reasoning ? ReplyPart::kReasoning : ReplyPart::kContent;
  state_ = State::kText;
}

// `state` is kSection or kPayload; the marker is empty where a bracket begins the call.
void ReplyParser::OpenCall(std::string_view marker, State state) {
  if (state_ != State::kSection) raw_ = pieces_.TakeBlanks();
  raw_ += marker;
  // The text of fences is code of any kind.
  is_strict_ = marker.empty() || marker.starts_with("```");
  calls_before_payload_ = writer_.call_count();
  call_count_ = writer_.call_count();
  state_ = state;
}

void ReplyParser::StepPayload(char c) {
  payload_ += c;
  const bool is_bracket = c == '[' && payload_.find('[') + 1 == payload_.size();
  if ((IsJsonBlank(c) || is_bracket) && payload_.size() < kMaxNameBytes) return;
  reader_ = NewReader();
  if (reader_ == nullptr) {
    payload_.pop_back();
    GiveUpCall();
    return Step(c);
  }
  state_ = State::kCall;
  StepAll(std::exchange(payload_, {}));
}

// By the last byte of payload_. Null where no payload can go on with it.
std::unique_ptr<CallReader> ReplyParser::NewReader() {
  if (payload_.back() == '{') return NewJsonCallReader(writer_, is_strict_);
  switch (format_.calls->syntax) {
    case CallSyntax::kNamedJson:
      return NewNamedCallReader(writer_, *format_.calls);
    case CallSyntax::kTags:
      return NewTagCallReader(writer_, *format_.calls);
    case CallSyntax::kPython:
    case CallSyntax::kBraces:
      return NewLiteralCallReader(writer_, format_.calls->syntax);
    default:
      return nullptr;
  }
}

void ReplyParser::StepCall(char c) {
  if (!writer_.call_open()) raw_ += c;
  const CallReader::Status status = reader_->Step(c);
  if (writer_.call_count() != call_count_) {
    call_count_ = writer_.call_count();
    raw_.clear();
    pieces_.EndPiece();
    part_ = ReplyPart::kContent;
    after_call_ = true;
  }
  if (status == CallReader::Status::kDone) {
    EndPayload(std::string(reader_->unread()));
  } else if (status == CallReader::Status::kFailed) {
    FailPayload(std::string(reader_->unread()));
  } else if (raw_.size() > kMaxHeldBytes) {
    GiveUpCall();
  }
}

// `unread` must not be the reader's own.
void ReplyParser::EndPayload(std::string_view unread) {
  reader_.reset();
  raw_.clear();
  state_ = State::kText;
  StepAll(unread);
}

void ReplyParser::FailPayload(std::string_view unread) {
  if (writer_.call_open()) {
    if (writer_.arguments_ended()) {
      writer_.EndCall();
      return EndPayload(unread);
    }
    reader_.reset();
    state_ = State::kBroken;
  } else {
    THAW_CHECK(raw_.ends_with(unread));
    raw_.resize(raw_.size() - unread.size());
    GiveUpCall();
  }
  StepAll(unread);
}

// What was read is text. After calls in a list, that is not so for the list's own signs.
void ReplyParser::GiveUpCall() {
  const std::string text = std::exchange(raw_, {}) + std::exchange(payload_, {});
  const bool had_call = writer_.call_count() > calls_before_payload_;
  reader_.reset();
  state_ = State::kText;
  if (had_call && text.find_first_not_of(" \t\r\n,]") == text.npos) return;
  for (const char c : text) WriteText(c);
}

Reply ParseReply(const ReplyFormat& format, std::string_view text,
                 const ReplyParserOptions& options) {
  ReplyParser parser(format, options);
  Reply reply;
  for (const ReplyDelta& delta : parser.Push(text)) AppendDelta(delta, reply);
  for (const ReplyDelta& delta : parser.Finish()) AppendDelta(delta, reply);
  return reply;
}

}  // namespace thaw
