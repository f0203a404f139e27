#include "chat/json_scanner.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace thaw {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20; }

}  // namespace

JsonScanner::Status JsonScanner::Step(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return StepInString(c);
    case State::kLiteral:
      if (c != literal_.front()) return Status::kBad;
      literal_.remove_prefix(1);
      return literal_.empty() ? EndValue() : Status::kMore;
    case State::kValue:
    case State::kFirstItem:
    case State::kFirstKey:
    case State::kKey:
    case State::kColon:
    case State::kNext:
      return IsJsonBlank(c) ? Status::kMore : StepNext(c);
    default:
      return StepInNumber(c);
  }
}

// A byte between the tokens of the text that is not a blank.
JsonScanner::Status JsonScanner::StepNext(char c) {
  switch (state_) {
    case State::kFirstItem:
      return c == ']' ? Close(false) : BeginValue(c);
    case State::kFirstKey:
    case State::kKey:
      if (c == '}' && state_ == State::kFirstKey) return Close(true);
      if (c != '"') return Status::kBad;
      is_key_ = true;
      state_ = State::kString;
      return Status::kMore;
    case State::kColon:
      if (c != ':') return Status::kBad;
      state_ = State::kValue;
      return Status::kMore;
    case State::kNext:
      if (c == ']' || c == '}') return Close(c == '}');
      if (c != ',') return Status::kBad;
      state_ = InObject() ? State::kKey : State::kValue;
      return Status::kMore;
    default:
      return BeginValue(c);
  }
}

JsonScanner::Status JsonScanner::BeginValue(char c) {
  switch (c) {
    case '{':
    case '[':
      return Open(c == '{');
    case '"':
      is_key_ = false;
      state_ = State::kString;
      return Status::kMore;
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    default:
      if (c != '-' && !IsDigit(c)) return Status::kBad;
      state_ = c == '-' ? State::kMinus : c == '0' ? State::kZero : State::kDigits;
      return Status::kMore;
  }
  state_ = State::kLiteral;
  return Status::kMore;
}

JsonScanner::Status JsonScanner::StepInString(char c) {
  if (state_ == State::kHex) {
    if (!IsHexDigit(c)) return Status::kBad;
    if (--hex_count_ == 0) state_ = State::kString;
  } else if (state_ == State::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Status::kBad;
    hex_count_ = 4;
    state_ = c == 'u' ? State::kHex : State::kString;
  } else if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    if (!is_key_) return EndValue();
    state_ = State::kColon;
  }
  return Status::kMore;
}

JsonScanner::Status JsonScanner::StepInNumber(char c) {
  const bool is_digit = IsDigit(c);
  const bool is_exponent = c == 'e' || c == 'E';
  switch (state_) {
    case State::kMinus:
      if (is_digit) return state_ = c == '0' ? State::kZero : State::kDigits, Status::kMore;
      break;
    case State::kZero:
    case State::kDigits:
      if (is_digit && state_ == State::kDigits) return Status::kMore;
      if (c == '.') return state_ = State::kPoint, Status::kMore;
      if (is_exponent) return state_ = State::kExponent, Status::kMore;
      break;
    case State::kPoint:
    case State::kFraction:
      if (is_digit) return state_ = State::kFraction, Status::kMore;
      if (is_exponent && state_ == State::kFraction) {
        return state_ = State::kExponent, Status::kMore;
      }
      break;
    default:
      if (is_digit) return state_ = State::kExponentDigits, Status::kMore;
      if ((c == '+' || c == '-') && state_ == State::kExponent) {
        return state_ = State::kExponentSign, Status::kMore;
      }
  }
  if (!IsWholeNumber()) return Status::kBad;
  if (depth_ == 0) return Status::kDoneBefore;
  state_ = State::kNext;
  return Step(c);
}

JsonScanner::Status JsonScanner::Open(bool is_object) {
  if (depth_ == kMaxJsonDepth) return Status::kBad;
  const uint64_t bit = uint64_t{1} << depth_;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  ++depth_;
  state_ = is_object ? State::kFirstKey : State::kFirstItem;
  return Status::kMore;
}

JsonScanner::Status JsonScanner::Close(bool is_object) {
  if (InObject() != is_object) return Status::kBad;
  --depth_;
  return EndValue();
}

JsonScanner::Status JsonScanner::EndValue() {
  state_ = State::kNext;
  return depth_ == 0 ? Status::kDone : Status::kMore;
}

bool JsonScanner::IsWholeNumber() const {
  return state_ == State::kZero || state_ == State::kDigits || state_ == State::kFraction ||
         state_ == State::kExponentDigits;
}

void CopyJson(char c, bool in_string, std::string& out) {
  if (!in_string || !IsControl(c)) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

std::string_view TrimJsonBlanks(std::string_view text) {
  while (!text.empty() && IsJsonBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::string> WholeJson(std::string_view text) {
  text = TrimJsonBlanks(text);
  JsonScanner scanner;
  std::string json;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool in_string = scanner.in_string();
    const JsonScanner::Status status = scanner.Step(text[i]);
    if (status != JsonScanner::Status::kMore && status != JsonScanner::Status::kDone) {
      return std::nullopt;
    }
    CopyJson(text[i], in_string, json);
    if (status == JsonScanner::Status::kDone) {
      return i + 1 == text.size() ? std::optional(json) : std::nullopt;
    }
  }
  return scanner.MayEndHere() ? std::optional(json) : std::nullopt;
}

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<std::string> TextOfJsonString(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_string()) return std::nullopt;
  return parsed.get<std::string>();
}

}  // namespace thaw
