#include "chat/lexer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/utf8.h"

namespace thaw::jinja {
namespace {

// What `\s` of a regular expression takes among ASCII.
bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
int DigitValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

constexpr std::array<std::string_view, 6> kTwoSignOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kOneSignOperators = "+-/*%~[](){}<>=.:|,;";

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : source_(source), name_(name) {
    line_starts_.push_back(0);
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  Result<std::vector<Token>> Run() {
    while (position_ < source_.size()) {
      const size_t tag = FindTag(position_);
      const size_t text_begin = position_;
      if (tag == std::string_view::npos) {
        AddText(text_begin, source_.size());
        break;
      }
      position_ = tag + 2;
      const char sign = TakeSign();
      AddText(text_begin, StripBeforeTag(text_begin, tag, sign));
      switch (source_[tag + 1]) {
        case '#':
          THAW_TRY(SkipComment(tag));
          break;
        case '{':
          THAW_TRY(ReadTag(tag, TokenKind::kVariableBegin, TokenKind::kVariableEnd));
          break;
        default:
          if (TakeRawBegin()) {
            THAW_TRY(ReadRaw(tag));
          } else {
            THAW_TRY(ReadTag(tag, TokenKind::kBlockBegin, TokenKind::kBlockEnd));
          }
      }
    }
    Add(TokenKind::kEnd, "", source_.size());
    return std::move(tokens_);
  }

 private:
  Position At(size_t offset) const {
    const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - 1;
    return {static_cast<uint32_t>(line - line_starts_.begin() + 1),
            static_cast<uint32_t>(offset - *line + 1)};
  }

  template <typename... Args>
  tl::unexpected<Error> FailAt(size_t offset, fmt::format_string<Args...> format, Args&&... args) {
    return Fail(Error{ErrorCode::kCorrupt, fmt::format(format, std::forward<Args>(args)...)}.In(
        FormatPosition(name_, At(offset))));
  }

  void Add(TokenKind kind, std::string text, size_t offset) {
    tokens_.push_back({kind, std::move(text), At(offset)});
  }
  void AddText(size_t begin, size_t end) {
    if (begin < end) Add(TokenKind::kText, std::string(source_.substr(begin, end - begin)), begin);
  }

  bool StartsWith(std::string_view what) const {
    return source_.substr(position_).starts_with(what);
  }
  void SkipBlanks() {
    while (position_ < source_.size() && IsBlank(source_[position_])) ++position_;
  }

  size_t FindTag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string_view::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string_view::npos;
  }

  char TakeSign() {
    if (position_ >= source_.size()) return 0;
    const char sign = source_[position_];
    if (sign != '-' && sign != '+') return 0;
    ++position_;
    return sign;
  }

  // Where the text [begin, tag) ends once the whitespace that the tag takes is gone.
  size_t StripBeforeTag(size_t begin, size_t tag, char sign) const {
    if (sign == '-') {
      while (tag > begin && IsBlank(source_[tag - 1])) --tag;
      return tag;
    }
    if (sign == '+' || source_[tag + 1] == '{') return tag;
    size_t line = tag;
    while (line > begin && IsBlank(source_[line - 1]) && source_[line - 1] != '\n') --line;
    const bool starts_line = line == 0 || source_[line - 1] == '\n';
    return starts_line ? line : tag;
  }

  // Takes `-%}` with all blanks after it, `%}` with one newline, or `+%}` alone; likewise for `#}`.
  bool TakeBlockEnd(std::string_view end) {
    const size_t sign = StartsWith("-") || StartsWith("+") ? 1 : 0;
    if (!source_.substr(position_ + sign).starts_with(end)) return false;
    const char taken = source_[position_];
    position_ += sign + end.size();
    if (taken == '-') {
      SkipBlanks();
    } else if (sign == 0 && StartsWith("\n")) {
      ++position_;
    }
    return true;
  }

  bool TakeVariableEnd() {
    if (StartsWith("-}}")) {
      position_ += 3;
      SkipBlanks();
      return true;
    }
    if (!StartsWith("}}")) return false;
    position_ += 2;
    return true;
  }

  Result<void> SkipComment(size_t tag) {
    for (; position_ < source_.size(); ++position_) {
      if (TakeBlockEnd("#}")) return {};
    }
    return FailAt(tag, "the comment has no end");
  }

  // At the inside of a block: takes `raw` and the end of its tag. A newline after it is text.
  bool TakeRawBegin() {
    const size_t begin = position_;
    SkipBlanks();
    if (StartsWith("raw")) {
      position_ += 3;
      SkipBlanks();
      const bool strip = StartsWith("-%}");
      if (strip || StartsWith("%}")) {
        position_ += strip ? 3 : 2;
        if (strip) SkipBlanks();
        return true;
      }
    }
    position_ = begin;
    return false;
  }

  Result<void> ReadRaw(size_t tag) {
    const size_t text_begin = position_;
    while ((position_ = source_.find("{%", position_)) != std::string_view::npos) {
      const size_t end_tag = position_;
      position_ += 2;
      const char sign = TakeSign();
      SkipBlanks();
      if (StartsWith("endraw")) {
        position_ += 6;
        SkipBlanks();
        if (TakeBlockEnd("%}")) {
          AddText(text_begin, StripBeforeTag(text_begin, end_tag, sign));
          return {};
        }
      }
      position_ = end_tag + 2;
    }
    position_ = source_.size();
    return FailAt(tag, "the raw block has no end");
  }

  Result<void> ReadTag(size_t tag, TokenKind begin, TokenKind end) {
    Add(begin, std::string(source_.substr(tag, 2)), tag);
    brackets_.clear();
    while (true) {
      SkipBlanks();
      const size_t offset = position_;
      if (offset >= source_.size()) {
        return FailAt(tag, "the tag has no end");
      }
      if (brackets_.empty() &&
          (end == TokenKind::kBlockEnd ? TakeBlockEnd("%}") : TakeVariableEnd())) {
        Add(end, end == TokenKind::kBlockEnd ? "%}" : "}}", offset);
        return {};
      }
      const char c = source_[offset];
      if (IsDigit(c)) {
        ReadNumber();
      } else if (IsNameByte(c)) {
        while (position_ < source_.size() && IsNameByte(source_[position_])) ++position_;
        Add(TokenKind::kName, std::string(source_.substr(offset, position_ - offset)), offset);
      } else if (c == '"' || c == '\'') {
        THAW_TRY(ReadString(c));
      } else {
        THAW_TRY(ReadOperator());
      }
    }
  }

  // Digits of `base` with single underscores between them, appended to `out`.
  void TakeDigits(int base, std::string& out) {
    const auto is_digit = [&](size_t i) {
      return i < source_.size() && DigitValue(source_[i]) < base;
    };
    while (is_digit(position_)) {
      out += source_[position_++];
      if (position_ < source_.size() && source_[position_] == '_' && is_digit(position_ + 1)) {
        ++position_;
      }
    }
  }

  bool DigitAt(size_t offset) const { return offset < source_.size() && IsDigit(source_[offset]); }

  void ReadNumber() {
    const size_t offset = position_;
    std::string text;
    const char prefix = offset + 1 < source_.size() ? (source_[offset + 1] | 0x20) : '\0';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (source_[offset] == '0' && base != 10 && offset + 2 < source_.size() &&
        DigitValue(source_[offset + 2]) < base) {
      text = {'0', prefix};
      position_ += 2;
      TakeDigits(base, text);
      return Add(TokenKind::kInteger, std::move(text), offset);
    }
    TakeDigits(10, text);
    TokenKind kind = TokenKind::kInteger;
    const bool after_dot = offset > 0 && source_[offset - 1] == '.';
    if (!after_dot && StartsWith(".") && DigitAt(position_ + 1)) {
      kind = TokenKind::kFloat;
      text += source_[position_++];
      TakeDigits(10, text);
    }
    if (!after_dot && (StartsWith("e") || StartsWith("E"))) {
      const char after = position_ + 1 < source_.size() ? source_[position_ + 1] : '\0';
      const size_t sign = after == '+' || after == '-' ? 1 : 0;
      if (DigitAt(position_ + 1 + sign)) {
        kind = TokenKind::kFloat;
        text += source_.substr(position_, 1 + sign);
        position_ += 1 + sign;
        TakeDigits(10, text);
      }
    }
    Add(kind, std::move(text), offset);
  }

  Result<void> ReadString(char quote) {
    const size_t offset = position_++;
    std::string text;
    while (position_ < source_.size()) {
      const char c = source_[position_];
      if (c == quote) {
        ++position_;
        Add(TokenKind::kString, std::move(text), offset);
        return {};
      }
      if (c == '\\') {
        THAW_TRY(ReadEscape(text));
      } else {
        text += c;
        ++position_;
      }
    }
    return FailAt(offset, "the string has no end");
  }

  // An escape of a Python string; unknown ones stay as they are.
  Result<void> ReadEscape(std::string& out) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const size_t offset = position_++;
    if (position_ >= source_.size()) return FailAt(offset, "the string has no end");
    const char c = source_[position_++];
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      out += kTo[known];
    } else if (c == '\n') {
      // A line continued: nothing.
    } else if (c >= '0' && c <= '7') {
      --position_;
      AppendUtf8(TakeCode(8, 3), out);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return ReadHexEscape(offset, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    } else {
      out += '\\';
      out += c;
    }
    return {};
  }

  char32_t TakeCode(int base, size_t max_digits) {
    char32_t code = 0;
    for (size_t i = 0; i < max_digits && position_ < source_.size(); ++i, ++position_) {
      const int digit = DigitValue(source_[position_]);
      if (digit >= base) break;
      code = code * base + digit;
    }
    return code;
  }

  Result<void> ReadHexEscape(size_t offset, size_t digits, std::string& out) {
    const size_t begin = position_;
    char32_t code = TakeCode(16, digits);
    if (position_ - begin != digits) {
      return FailAt(offset, "the escape needs {} hexadecimal digits", digits);
    }
    const auto is_surrogate = [](char32_t c) { return c >= 0xd800 && c < 0xe000; };
    if (is_surrogate(code) && code < 0xdc00 && StartsWith("\\u")) {
      position_ += 2;
      const char32_t low = TakeCode(16, 4);
      code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
                                           : char32_t{0xd800};
    }
    if (is_surrogate(code) || code > 0x10ffff) {
      return FailAt(offset, "the escape stands for no character");
    }
    AppendUtf8(code, out);
    return {};
  }

  Result<void> ReadOperator() {
    const size_t offset = position_;
    for (const std::string_view sign : kTwoSignOperators) {
      if (!StartsWith(sign)) continue;
      position_ += 2;
      Add(TokenKind::kOperator, std::string(sign), offset);
      return {};
    }
    const char c = source_[offset];
    if (kOneSignOperators.find(c) == std::string_view::npos) {
      const size_t length = DecodeUtf8(source_, offset).length;
      return FailAt(offset, "unexpected '{}'", source_.substr(offset, length));
    }
    ++position_;
    THAW_TRY(MatchBracket(c, offset));
    Add(TokenKind::kOperator, std::string(1, c), offset);
    return {};
  }

  Result<void> MatchBracket(char c, size_t offset) {
    static constexpr std::string_view kOpening = "([{";
    static constexpr std::string_view kClosing = ")]}";
    if (kOpening.find(c) != std::string_view::npos) brackets_ += c;
    const size_t closing = kClosing.find(c);
    if (closing == std::string_view::npos) return {};
    if (brackets_.empty()) return FailAt(offset, "unexpected '{}'", c);
    const char open = brackets_.back();
    brackets_.pop_back();
    if (open == kOpening[closing]) return {};
    return FailAt(offset, "unexpected '{}', expected '{}'", c, kClosing[kOpening.find(open)]);
  }

  std::string_view source_;
  std::string_view name_;
  std::vector<size_t> line_starts_;
  size_t position_ = 0;
  std::string brackets_;  // open ones inside the current tag
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source, std::string_view name) {
  const std::string normalized = NormalizeNewlines(source);
  return Lexer(normalized, name).Run();
}

std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_return = source[i] == '\r';
    out += is_return ? '\n' : source[i];
    if (is_return && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::string FormatPosition(std::string_view name, Position at) {
  return fmt::format("{}:{}:{}", name, at.line, at.column);
}

}  // namespace thaw::jinja
