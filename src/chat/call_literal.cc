#include "chat/call_literal.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/call_reader.h"
#include "chat/json_scanner.h"

namespace thaw {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Methods that return false leave the parser anywhere: the text is no list of arguments.
class LiteralParser {
 public:
  LiteralParser(std::string_view text, const LiteralSyntax& syntax)
      : text_(text), syntax_(syntax) {}

  bool Arguments() {
    out_ = "{";
    SkipBlanks();
    while (at_ < text_.size()) {
      if (out_.size() > 1) out_ += ", ";
      if (!Key(/*bare=*/true) || !Take(syntax_.separator)) return false;
      out_ += ": ";
      if (!Value()) return false;
      SkipBlanks();
      if (at_ < text_.size() && !Take(',')) return false;
      SkipBlanks();
    }
    out_ += '}';
    return true;
  }

  std::string TakeJson() { return std::move(out_); }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipBlanks() {
    while (at_ < text_.size() && IsJsonBlank(text_[at_])) ++at_;
  }

  bool Take(char c) {
    SkipBlanks();
    if (Peek() != c) return false;
    ++at_;
    SkipBlanks();
    return true;
  }

  std::string_view Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsCallNameCharacter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool Key(bool bare) {
    if (!LeadingQuotes(text_.substr(at_), syntax_).empty()) return String();
    const std::string_view word = Word();
    if (word.empty() || (!bare && !WholeJson(word))) return false;
    out_ += JsonString(word);
    return true;
  }

  bool Value() {
    if (!LeadingQuotes(text_.substr(at_), syntax_).empty()) return String();
    switch (Peek()) {
      case '{':
        return Items('}', '}');
      case '[':
        return Items(']', ']');
      case '(':
        return Items(')', ']');
      default:
        return Scalar();
    }
  }

  // A list, a tuple or a dict, which ends with `close`, in JSON with `json_close`.
  bool Items(char close, char json_close) {
    if (++depth_ >= kMaxJsonDepth) return false;
    const bool is_object = close == '}';
    out_ += is_object ? '{' : '[';
    ++at_;
    SkipBlanks();
    for (size_t count = 0; Peek() != close; ++count) {
      if (count > 0) out_ += ", ";
      if (is_object && (!Key(syntax_.has_bare_keys) || !Take(':'))) return false;
      if (is_object) out_ += ": ";
      if (!Value()) return false;
      SkipBlanks();
      if (Peek() != close && !Take(',')) return false;
    }
    ++at_;
    --depth_;
    out_ += json_close;
    return true;
  }

  bool Scalar() {
    const size_t begin = at_;
    while (at_ < text_.size() && (IsCallNameCharacter(text_[at_]) || text_[at_] == '+')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "False") {
      out_ += word == "True" ? "true" : "false";
    } else if (word == "None") {
      out_ += "null";
    } else {
      if (!WholeJson(word)) return false;
      out_ += word;
    }
    return true;
  }

  bool String() {
    const std::string_view quotes = LeadingQuotes(text_.substr(at_), syntax_);
    at_ += quotes.size();
    std::string value;
    while (!text_.substr(at_).starts_with(quotes)) {
      if (at_ >= text_.size()) return false;
      if (text_[at_] != '\\' || !syntax_.has_escapes) {
        value += text_[at_++];
      } else if (!Escape(value)) {
        return false;
      }
    }
    at_ += quotes.size();
    out_ += JsonString(value);
    return true;
  }

  // As in Python; what is no escape stands for itself.
  bool Escape(std::string& value) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv\n";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    ++at_;
    const char letter = Peek();
    if (letter == 'x' || letter == 'u' || letter == 'U') return CodePoint(value);
    const size_t row = kLetters.find(letter);
    if (row == kLetters.npos) {
      value += '\\';
      return true;
    }
    if (row < kMeanings.size()) value += kMeanings[row];  // the last one joins two lines
    ++at_;
    return true;
  }

  bool CodePoint(std::string& value) {
    char32_t code_point = 0;
    if (!HexDigits(code_point)) return false;
    // JSON's way of writing what lies beyond 16 bits, which Python has not, but models write.
    if (code_point >= 0xd800 && code_point < 0xdc00 && text_.substr(at_).starts_with("\\u")) {
      char32_t low = 0;
      ++at_;
      if (!HexDigits(low) || low < 0xdc00 || low > 0xdfff) return false;
      code_point = 0x10000 + ((code_point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point <= 0xdfff)) return false;
    AppendUtf8(code_point, value);
    return true;
  }

  // x and two digits, u and four, U and eight.
  bool HexDigits(char32_t& code_point) {
    const char kind = text_[at_++];
    for (int i = kind == 'x' ? 2 : kind == 'u' ? 4 : 8; i > 0; --i) {
      const int digit = HexDigit(Peek());
      if (digit < 0) return false;
      code_point = code_point * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return true;
  }

  std::string_view text_;
  const LiteralSyntax& syntax_;
  size_t at_ = 0;
  int depth_ = 1;
  std::string out_;
};

}  // namespace

std::string_view LeadingQuotes(std::string_view text, const LiteralSyntax& syntax) {
  const auto begins = [&](std::string_view quotes) {
    return !quotes.empty() && text.starts_with(quotes);
  };
  const auto* const quotes = std::ranges::find_if(syntax.quotes, begins);
  return quotes == syntax.quotes.end() ? std::string_view() : *quotes;
}

std::optional<std::string> JsonOfArguments(std::string_view text, const LiteralSyntax& syntax) {
  LiteralParser parser(text, syntax);
  if (!parser.Arguments()) return std::nullopt;
  return parser.TakeJson();
}

}  // namespace thaw
