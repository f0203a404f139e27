// Calls whose arguments stand between tags: NAME, then <key>value</key> or <key/><value/>.
//
// Nothing says of what type a value is: one that is a number, a list, an object, true, false or
// null in JSON (or True, False, None, which templates write through Python) is that, all else a
// string, with one newline taken from each end.
#include <initializer_list>
#include <optional>

#include "chat/call_reader.h"
#include "chat/json_scanner.h"

namespace thaw {
namespace {

using Status = CallReader::Status;

std::string StringArgument(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return JsonString(value);
}

std::string JsonArgument(std::string_view value) {
  const std::string_view word = TrimJsonBlanks(value);
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  const auto json = word.starts_with('"') ? std::nullopt : WholeJson(word);
  return json ? *json : StringArgument(value);
}

class TagCallReader : public CallReader {
 public:
  TagCallReader(DeltaWriter& writer, const CallTags& tags) : writer_(writer), tags_(tags) {}

  Status Step(char c) override {
    text_ += c;
    switch (state_) {
      case State::kName:
        return StepName();
      case State::kBody:
        return StepBody({tags_.key_open, tags_.call_close});
      case State::kKey:
        if (text_.size() > kMaxNameBytes) return EndBefore(Status::kFailed, text_);
        if (TakeBefore(tags_.key_close)) {
          key_ = text_;
          Enter(tags_.value_open.empty() ? State::kValue : State::kValueOpen);
        }
        return Status::kMore;
      case State::kValueOpen:
        return StepBody({tags_.value_open});
      default:
        if (text_.size() > kMaxHeldBytes) return EndBefore(Status::kFailed, text_);
        if (TakeBefore(tags_.value_close)) {
          WriteKey();
          writer_.Arguments(IsString() ? StringArgument(text_) : JsonArgument(text_));
          Enter(State::kBody);
        }
        return Status::kMore;
    }
  }

  // A value that was cut off is a string that was.
  void Finish() override {
    if (state_ != State::kValue) return;
    WriteKey();
    std::string value = StringArgument(text_);
    value.pop_back();
    writer_.Arguments(value);
  }

 private:
  enum class State { kName, kBody, kKey, kValueOpen, kValue };

  void Enter(State state) {
    state_ = state;
    text_.clear();
  }

  // Where the text ends with the marker, takes the marker off.
  bool TakeBefore(std::string_view marker) {
    if (!text_.ends_with(marker)) return false;
    text_.resize(text_.size() - marker.size());
    return true;
  }

  Status StepName() {
    std::string rest;
    if (tags_.name_close.empty()) {
      const char c = text_.back();
      const bool is_leading = TrimJsonBlanks(text_).empty();
      if (is_leading || (c != '<' && c != '\n')) return CheckNameLength();
      if (c == '<') rest = "<";
      text_.pop_back();
    } else if (!TakeBefore(tags_.name_close)) {
      return CheckNameLength();
    }
    const std::string_view name = TrimJsonBlanks(text_);
    if (!IsCallName(name)) return EndBefore(Status::kFailed, rest);
    writer_.BeginCall(name, {});
    writer_.Arguments("{");
    Enter(State::kBody);
    return rest.empty() ? Status::kMore : Step('<');
  }

  Status CheckNameLength() {
    return text_.size() > kMaxNameBytes ? EndBefore(Status::kFailed, {}) : Status::kMore;
  }

  // Outside of keys and values: blanks, then one of the tags. Anything else ends the call; models
  // leave out the last tags.
  Status StepBody(std::initializer_list<std::string_view> expected) {
    if (IsJsonBlank(text_.back()) && text_.size() == 1) {
      text_.clear();
      return Status::kMore;
    }
    for (const std::string_view tag : expected) {
      if (text_ == tag) return EndTag(tag);
      if (tag.starts_with(text_)) return Status::kMore;
    }
    if (state_ == State::kValueOpen) return EndBefore(Status::kFailed, text_);
    EndCall();
    return EndBefore(Status::kDone, text_);
  }

  Status EndTag(std::string_view tag) {
    if (tag == tags_.call_close) {
      EndCall();
      return EndBefore(Status::kDone, {});
    }
    Enter(state_ == State::kBody ? State::kKey : State::kValue);
    return Status::kMore;
  }

  void EndCall() {
    writer_.Arguments("}");
    writer_.EndArguments();
    writer_.EndCall();
  }

  // A key may carry an attribute that says whether the value is a string: k" string="true
  bool IsString() const { return key_.ends_with("\" string=\"true"); }

  void WriteKey() {
    if (argument_count_++ > 0) writer_.Arguments(", ");
    writer_.Arguments(JsonString(std::string_view(key_).substr(0, key_.find('"'))) + ": ");
  }

  DeltaWriter& writer_;
  const CallTags& tags_;
  State state_ = State::kName;
  std::string text_;
  std::string key_;
  size_t argument_count_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> NewTagCallReader(DeltaWriter& writer, const CallFormat& format) {
  return std::make_unique<TagCallReader>(writer, format.tags);
}

}  // namespace thaw
