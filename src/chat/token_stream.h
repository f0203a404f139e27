// The tokens of a template as both halves of the parser read them, with the state they share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/ast.h"

namespace thaw::jinja {

class TokenStream {
 public:
  // `tokens` end with kEnd.
  TokenStream(std::vector<Token> tokens, std::string_view name)
      : tokens_(std::move(tokens)), name_(name) {}

  const Token& current() const { return tokens_[index_]; }
  const Token& next() const { return tokens_[std::min(index_ + 1, tokens_.size() - 1)]; }
  Position at() const { return current().at; }
  // Returns the current token and goes on to the next one.
  const Token& Take() {
    const Token& token = tokens_[index_];
    if (index_ + 1 < tokens_.size()) ++index_;
    return token;
  }

  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool Is(TokenKind kind, std::string_view text) const {
    return current().kind == kind && current().text == text;
  }
  bool IsOperator(std::string_view sign) const { return Is(TokenKind::kOperator, sign); }
  bool IsWord(std::string_view word) const { return Is(TokenKind::kName, word); }
  bool TakeOperator(std::string_view sign) { return IsOperator(sign) && (Take(), true); }
  bool TakeWord(std::string_view word) { return IsWord(word) && (Take(), true); }

  Result<void> ExpectOperator(std::string_view sign) {
    if (TakeOperator(sign)) return {};
    return Unexpected(fmt::format("'{}'", sign));
  }
  Result<std::string> ExpectName() {
    if (Is(TokenKind::kName)) return Take().text;
    return Unexpected("a name");
  }
  Result<void> ExpectBlockEnd() {
    if (!Is(TokenKind::kBlockEnd)) return Unexpected("the end of the block");
    Take();
    return {};
  }

  tl::unexpected<Error> Unexpected(std::string_view expected) const {
    if (Is(TokenKind::kEnd))
      return FailAt(at(), "expected {}, found the end of the template", expected);
    return FailAt(at(), "expected {}, found '{}'", expected, current().text);
  }

  template <typename... Args>
  tl::unexpected<Error> FailAt(Position at, fmt::format_string<Args...> format,
                               Args&&... args) const {
    return Fail(Error{ErrorCode::kCorrupt, fmt::format(format, std::forward<Args>(args)...)}.In(
        FormatPosition(name_, at)));
  }

  // The macros whose bodies are being parsed, the innermost last.
  std::vector<MacroDefinition*>& open_macros() { return open_macros_; }
  int& depth() { return depth_; }

 private:
  std::vector<Token> tokens_;
  std::string_view name_;
  size_t index_ = 0;
  std::vector<MacroDefinition*> open_macros_;
  int depth_ = 0;
};

// One level of nesting while it lives; parsing may go on only where ok().
class NestingGuard {
 public:
  explicit NestingGuard(TokenStream& tokens) : tokens_(tokens) { ++tokens_.depth(); }
  ~NestingGuard() { --tokens_.depth(); }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

  Result<void> ok() const {
    if (tokens_.depth() <= kMaxNesting) return {};
    return tokens_.FailAt(tokens_.at(), "nested more than {} deep", kMaxNesting);
  }

 private:
  TokenStream& tokens_;
};

}  // namespace thaw::jinja
