#include "tokenizer/spelling.h"

#include "base/utf8.h"

namespace thaw {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t done = 0;
  while (true) {
    const size_t found = text.find(from, done);
    out += text.substr(done, found - done);
    if (found == std::string_view::npos) return out;
    out += to;
    done = found + from.size();
  }
}

// -1: not a hexadecimal digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string EscapeSpaces(std::string_view text) { return ReplaceAll(text, " ", kSpaceMark); }

std::string UnescapeSpaces(std::string_view text) { return ReplaceAll(text, kSpaceMark, " "); }

std::string ByteTokenText(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::optional<uint8_t> ByteOfToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const int high = HexValue(text[3]);
  const int low = HexValue(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high << 4 | low);
}

std::string ReplaceStrayBytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = DecodeUtf8(text, i);
    if (c.valid) {
      out += text.substr(i, c.length);
    } else {
      for (int byte = 0; byte < c.length; ++byte) AppendUtf8(kReplacementCharacter, out);
    }
    i += c.length;
  }
  return out;
}

}  // namespace thaw
