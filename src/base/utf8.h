// UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thaw {

inline constexpr char32_t kReplacementCharacter = 0xfffd;

// One decoded character. `length` bytes were used; where the bytes are not valid UTF-8, `valid` is
// false, `code_point` is U+FFFD and `length` covers the longest prefix of a character that is there
// (at least 1), as Unicode 15 section 3.9 recommends for replacing.
struct Utf8Character {
  char32_t code_point = kReplacementCharacter;
  uint8_t length = 1;
  bool valid = false;
};

// Decodes the character at text[position]; position < text.size().
Utf8Character DecodeUtf8(std::string_view text, size_t position);

bool IsValidUtf8(std::string_view text);

// `code_point` must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

// Invalid sequences replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Cuts a stream of bytes into whole characters: bytes of a character that is not complete yet are
// held back, bytes that can never become one come out as U+FFFD.
class Utf8Assembler {
 public:
  // The text that is complete after these bytes; may be empty.
  std::string Push(std::string_view bytes);
  // What was held back, as U+FFFD; the assembler is empty afterwards.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace thaw
