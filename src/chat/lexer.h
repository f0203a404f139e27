// Cuts a template into tokens: text between tags, and the words and signs inside of tags.
//
// Whitespace control happens here and nowhere else: `-` and `+` at the tags, trim_blocks (a newline
// right after a block or comment goes), lstrip_blocks (blanks before a block or comment that starts
// its line go), and the one newline that ends the template goes. `raw` blocks come out as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thaw::jinja {

// Counted from 1; columns in bytes.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
};

enum class TokenKind {
  kText,           // `text` to print as it is
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,   // `text` with its escapes resolved
  kInteger,  // `text` without underscores, prefix 0x, 0o, 0b kept
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind;
  std::string text;
  Position at;
};

// The tokens of a template, the last one kEnd. The source must be valid UTF-8. Errors begin with
// "name:line:column: ".
Result<std::vector<Token>> Tokenize(std::string_view source, std::string_view name);

// `\n` for every `\r\n` and `\r`, less the newline that ends the text: the source that positions
// refer to.
std::string NormalizeNewlines(std::string_view source);

// Errors of a template begin alike wherever they are found.
std::string FormatPosition(std::string_view name, Position at);

}  // namespace thaw::jinja
