// Calls whose arguments are JSON: with the name inside of the JSON, or before it.
#include <algorithm>
#include <array>
#include <optional>

#include "chat/call_reader.h"
#include "chat/json_scanner.h"

namespace thaw {
namespace {

using Status = CallReader::Status;

void WriteArgument(char c, bool in_string, DeltaWriter& writer) {
  std::string json;
  CopyJson(c, in_string, json);
  writer.Arguments(json);
}

// The arguments' object, forwarded as it comes.
class ArgumentsReader : public CallReader {
 public:
  explicit ArgumentsReader(DeltaWriter& writer) : writer_(writer) {}

  Status Step(char c) override {
    if (!began_ && IsJsonBlank(c)) return Status::kMore;
    if (!began_ && c != '{') return EndBefore(Status::kFailed, {c});
    began_ = true;
    const bool in_string = scanner_.in_string();
    const JsonScanner::Status status = scanner_.Step(c);
    if (status == JsonScanner::Status::kBad) return EndBefore(Status::kFailed, {c});
    WriteArgument(c, in_string, writer_);
    if (status == JsonScanner::Status::kMore) return Status::kMore;
    writer_.EndArguments();
    writer_.EndCall();
    return Status::kDone;
  }

 private:
  DeltaWriter& writer_;
  JsonScanner scanner_;
  bool began_ = false;
};

// NAME, separators, {...}.
class NamedCallReader : public CallReader {
 public:
  NamedCallReader(DeltaWriter& writer, const CallFormat& format)
      : writer_(writer), format_(format), arguments_(writer) {}

  Status Step(char c) override {
    if (writer_.call_open()) return StepArguments(c);
    if (c != '{') {
      head_ += c;
      if (head_.size() > kMaxNameBytes) return EndBefore(Status::kFailed, {});
      return Status::kMore;
    }
    if (!BeginCall()) return EndBefore(Status::kFailed, {c});
    return StepArguments(c);
  }

 private:
  Status StepArguments(char c) {
    const Status status = arguments_.Step(c);
    return status == Status::kMore ? status : EndBefore(status, arguments_.unread());
  }

  bool BeginCall() {
    std::string_view head = TrimJsonBlanks(head_);
    const std::string_view whole = head;
    for (const std::string_view prefix : format_.name_prefixes) {
      if (head.starts_with(prefix)) head.remove_prefix(prefix.size());
    }
    size_t end = head.size();
    std::string_view id;
    for (const std::string_view marker : format_.name_ends) {
      if (!marker.empty()) end = std::min(end, head.find(marker));
    }
    if (format_.id_is_head) id = TrimJsonBlanks(whole.substr(0, whole.find("<|")));
    if (const size_t at = IdPlace(whole); at != whole.npos) {
      id = TrimJsonBlanks(whole.substr(at, whole.find('[', at) - at));
    }
    const std::string_view name = TrimJsonBlanks(head.substr(0, end));
    if (!IsCallName(name)) return false;
    writer_.BeginCall(name, id);
    return true;
  }

  size_t IdPlace(std::string_view head) const {
    if (format_.id_open.empty()) return head.npos;
    const size_t at = head.find(format_.id_open);
    return at == head.npos ? at : at + format_.id_open.size();
  }

  DeltaWriter& writer_;
  const CallFormat& format_;
  std::string head_;
  ArgumentsReader arguments_;
};

enum class Member { kName, kArguments, kId, kFunction, kKnown, kOther };

Member MemberOf(std::string_view key) {
  struct Row {
    std::string_view key;
    Member member;
  };
  static constexpr std::array<Row, 9> kRows = {{{"name", Member::kName},
                                                {"tool_name", Member::kName},
                                                {"arguments", Member::kArguments},
                                                {"parameters", Member::kArguments},
                                                {"id", Member::kId},
                                                {"tool_call_id", Member::kId},
                                                {"function", Member::kFunction},
                                                {"type", Member::kKnown},
                                                {"index", Member::kKnown}}};
  const auto* const row = std::ranges::find(kRows, key, &Row::key);
  return row == kRows.end() ? Member::kOther : row->member;
}

// {"name": ..., "arguments": ...}, also with both inside of "function"; or a list of these.
class JsonCallReader : public CallReader {
 public:
  JsonCallReader(DeltaWriter& writer, bool strict) : writer_(writer), strict_(strict) {}

  Status Step(char c) override {
    if (value_) return StepValue(c);
    if (IsJsonBlank(c)) return Status::kMore;
    return StepBetween(c) ? Status::kMore : end_;
  }

 private:
  enum class State { kStart, kItem, kFirstKey, kKey, kColon, kValue, kNext, kNextItem };

  // A byte between keys and values; false where end_ says how the payload has ended.
  bool StepBetween(char c) {
    switch (state_) {
      case State::kStart:
      case State::kItem:
        if (c == '{') return BeginObject();
        if (c != '[' || in_list_) return FailBefore(c);
        in_list_ = true;
        state_ = State::kItem;
        return true;
      case State::kFirstKey:
      case State::kKey:
        if (c == '}' && state_ == State::kFirstKey) return EndObject(c);
        return c == '"' ? BeginValue(c, /*is_key=*/true) : FailBefore(c);
      case State::kColon:
        if (c != ':') return FailBefore(c);
        state_ = State::kValue;
        return true;
      case State::kValue:
        if (member_ == Member::kFunction && c == '{' && !nested_) {
          nested_ = true;
          state_ = State::kFirstKey;
          return true;
        }
        return BeginValue(c, /*is_key=*/false);
      case State::kNext:
        if (c == '}') return EndObject(c);
        state_ = State::kKey;
        return c == ',' || FailBefore(c);
      default:
        state_ = State::kItem;
        if (c == ']') return End(Status::kDone, {});
        return c == ',' || FailBefore(c);
    }
  }

  bool End(Status status, std::string unread) {
    end_ = EndBefore(status, std::move(unread));
    return false;
  }
  bool FailBefore(char c) { return End(Status::kFailed, {c}); }

  bool BeginObject() {
    name_.reset();
    id_.clear();
    arguments_.reset();
    nested_ = false;
    state_ = State::kFirstKey;
    return true;
  }

  bool BeginValue(char c, bool is_key) {
    is_key_ = is_key;
    value_.emplace();
    text_.clear();
    streams_ = !is_key && member_ == Member::kArguments && name_ && c == '{' && !arguments_;
    if (streams_) writer_.BeginCall(*name_, id_);
    end_ = StepValue(c);
    return end_ == Status::kMore;
  }

  Status StepValue(char c) {
    const bool in_string = value_->in_string();
    const JsonScanner::Status status = value_->Step(c);
    if (status == JsonScanner::Status::kBad) return EndBefore(Status::kFailed, {c});
    if (status != JsonScanner::Status::kDoneBefore) Keep(c, in_string);
    if (is_key_ && text_.size() > kMaxNameBytes) return EndBefore(Status::kFailed, {});
    if (status == JsonScanner::Status::kMore) return Status::kMore;
    value_.reset();
    if (!(is_key_ ? EndKey() : EndMember())) return EndBefore(Status::kFailed, {});
    if (status == JsonScanner::Status::kDoneBefore) return Step(c);
    return Status::kMore;
  }

  void Keep(char c, bool in_string) {
    if (streams_) {
      WriteArgument(c, in_string, writer_);
    } else if (is_key_ || !writer_.call_open()) {
      CopyJson(c, in_string, text_);
    }
  }

  bool EndKey() {
    const auto key = TextOfJsonString(text_);
    if (!key) return false;
    member_ = MemberOf(*key);
    state_ = State::kColon;
    return !strict_ || member_ != Member::kOther;
  }

  bool EndMember() {
    state_ = State::kNext;
    if (streams_) {
      streams_ = false;
      arguments_.emplace();
      writer_.EndArguments();
      return true;
    }
    if (writer_.call_open()) return true;  // what follows the arguments says nothing more
    if (member_ == Member::kName || member_ == Member::kFunction) {
      name_ = TextOfJsonString(text_);
      if (!name_ || name_->empty()) return false;
    } else if (member_ == Member::kArguments) {
      if (!KeepArguments()) return false;
    } else if (member_ == Member::kId) {
      id_ = TextOfJsonString(text_).value_or(text_);
    }
    if (name_ && arguments_) BeginCall();
    return true;
  }

  // Arguments that came before the name, or not as an object.
  bool KeepArguments() {
    if (text_.starts_with('"')) {
      const auto text = TextOfJsonString(text_);
      arguments_ = text ? WholeJson(*text) : std::nullopt;
    } else {
      arguments_ = text_ == "null" ? "{}" : text_;
    }
    return arguments_ && arguments_->starts_with('{');
  }

  void BeginCall() {
    writer_.BeginCall(*name_, id_);
    writer_.Arguments(*arguments_);
    writer_.EndArguments();
  }

  bool EndObject(char c) {
    if (nested_) {
      nested_ = false;
      state_ = State::kNext;
      return true;
    }
    if (!writer_.call_open()) {
      if (!name_ || strict_) return FailBefore(c);
      arguments_ = "{}";
      BeginCall();
    }
    writer_.EndCall();
    state_ = State::kNextItem;
    return in_list_ || End(Status::kDone, {});
  }

  DeltaWriter& writer_;
  const bool strict_;
  State state_ = State::kStart;
  Status end_ = Status::kMore;
  bool in_list_ = false;
  bool nested_ = false;   // inside of "function"
  bool is_key_ = false;   // what value_ reads
  bool streams_ = false;  // value_ reads arguments that go to the writer
  Member member_ = Member::kOther;
  std::optional<JsonScanner> value_;
  std::string text_;  // of what value_ reads, unless it goes to the writer
  std::optional<std::string> name_;
  std::optional<std::string> arguments_;
  std::string id_;
};

}  // namespace

bool IsCallNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool IsCallName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, IsCallNameCharacter);
}

std::unique_ptr<CallReader> NewArgumentsReader(DeltaWriter& writer) {
  return std::make_unique<ArgumentsReader>(writer);
}

std::unique_ptr<CallReader> NewNamedCallReader(DeltaWriter& writer, const CallFormat& format) {
  return std::make_unique<NamedCallReader>(writer, format);
}

std::unique_ptr<CallReader> NewJsonCallReader(DeltaWriter& writer, bool strict) {
  return std::make_unique<JsonCallReader>(writer, strict);
}

}  // namespace thaw
