// Calls that are written like Python's: f(key='value'), or with braces,
// call:f{key:<|"|>value<|"|>}.
//
// A call comes out when its last bracket has come, for only then is it sure to be one.
#include <optional>

#include "chat/call_literal.h"
#include "chat/call_reader.h"
#include "chat/json_scanner.h"

namespace thaw {
namespace {

using Status = CallReader::Status;

class LiteralCallReader : public CallReader {
 public:
  LiteralCallReader(DeltaWriter& writer, const LiteralSyntax& syntax)
      : writer_(writer), syntax_(syntax) {}

  Status Step(char c) override {
    switch (state_) {
      case State::kBetween:
        return StepBetween(c);
      case State::kName:
        return StepName(c);
      default:
        return StepArguments(c);
    }
  }

 private:
  enum class State { kBetween, kName, kArguments };

  // Between calls: a list's brackets and commas, or nothing but blanks.
  Status StepBetween(char c) {
    if (IsJsonBlank(c)) return Status::kMore;
    if (c == '[' && !in_list_ && !had_call_) {
      in_list_ = true;
      return Status::kMore;
    }
    if (c == ']' && in_list_ && had_call_) return EndBefore(Status::kDone, {});
    if (c == ',' && in_list_ && had_call_ && !had_comma_) {
      had_comma_ = true;
      return Status::kMore;
    }
    const bool may_begin = IsCallNameCharacter(c) && (!in_list_ || !had_call_ || had_comma_);
    if (!may_begin) {
      return EndBefore(had_call_ && !in_list_ ? Status::kDone : Status::kFailed, {c});
    }
    state_ = State::kName;
    text_ = c;
    return Status::kMore;
  }

  Status StepName(char c) {
    const bool in_prefix = syntax_.call_prefix.starts_with(text_ + c);
    if (in_prefix || (IsCallNameCharacter(c) && text_.size() < kMaxNameBytes)) {
      text_ += c;
      return Status::kMore;
    }
    if (c != syntax_.open || !text_.starts_with(syntax_.call_prefix)) return FailBefore(c);
    name_ = text_.substr(syntax_.call_prefix.size());
    if (name_.empty()) return FailBefore(c);
    text_.clear();
    depth_ = 1;
    state_ = State::kArguments;
    return Status::kMore;
  }

  // After a call, what is none is text like any other.
  Status FailBefore(char c) {
    if (had_call_ && !in_list_) return EndBefore(Status::kDone, text_ + c);
    return EndBefore(Status::kFailed, {c});
  }

  Status StepArguments(char c) {
    text_ += c;
    if (!quotes_.empty()) {
      EndString(c);
      return Status::kMore;
    }
    if (BeginsString()) return Status::kMore;
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
    if (depth_ > 0) return Status::kMore;
    text_.pop_back();
    if (c != syntax_.close || !WriteCall()) return EndBefore(Status::kFailed, {});
    had_call_ = true;
    had_comma_ = false;
    state_ = State::kBetween;
    return Status::kMore;
  }

  // Quotes are longer than a byte in some syntaxes: they count when their last byte is there.
  bool BeginsString() {
    for (const std::string_view quotes : syntax_.quotes) {
      if (quotes.empty() || !text_.ends_with(quotes)) continue;
      quotes_ = quotes;
      string_begin_ = text_.size();
      return true;
    }
    return false;
  }

  void EndString(char c) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (c == '\\' && syntax_.has_escapes) {
      is_escaped_ = true;
    } else if (std::string_view(text_).substr(string_begin_).ends_with(quotes_)) {
      quotes_ = {};
    }
  }

  bool WriteCall() {
    // print(f(...)): the function prints what the call gives back.
    if (name_ == "print" && syntax_.open == '(') TakeInnerCall();
    // Built-in tools of Llama 3.1 are objects with this method.
    if (name_.ends_with(".call") && name_.size() > 5) name_.resize(name_.size() - 5);
    const auto json = JsonOfArguments(text_, syntax_);
    if (!json) return false;
    writer_.BeginCall(name_, {});
    writer_.Arguments(*json);
    writer_.EndArguments();
    writer_.EndCall();
    return true;
  }

  void TakeInnerCall() {
    const size_t open = text_.find('(');
    const size_t close = text_.find_last_not_of(" \t\r\n");
    if (open == text_.npos || text_[close] != ')') return;
    if (!IsCallName(text_.substr(0, open))) return;
    name_ = text_.substr(0, open);
    text_ = text_.substr(open + 1, close - open - 1);
  }

  DeltaWriter& writer_;
  const LiteralSyntax& syntax_;
  State state_ = State::kBetween;
  bool in_list_ = false;
  bool had_call_ = false;
  bool had_comma_ = false;
  std::string text_;  // of the name, then of the arguments
  std::string name_;
  int depth_ = 0;
  std::string_view quotes_;  // of the string that is read; empty outside of strings
  size_t string_begin_ = 0;
  bool is_escaped_ = false;
};

}  // namespace

std::unique_ptr<CallReader> NewLiteralCallReader(DeltaWriter& writer, CallSyntax syntax) {
  const bool is_python = syntax == CallSyntax::kPython;
  return std::make_unique<LiteralCallReader>(writer, is_python ? kPythonSyntax : kBraceSyntax);
}

}  // namespace thaw
