#include "chat/text.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/case_mapping.h"

namespace thaw::jinja {
namespace {

struct Range {
  char32_t first, last;
};

// Separators, controls, format characters, private use and non-characters: repr() escapes them.
// Code points that Unicode has not assigned are printed as they are.
constexpr Range kNotPrintable[] = {
    {0x0, 0x1f},      {0x7f, 0xa0},     {0xad, 0xad},       {0x600, 0x605},      {0x61c, 0x61c},
    {0x6dd, 0x6dd},   {0x70f, 0x70f},   {0x1680, 0x1680},   {0x180e, 0x180e},    {0x2000, 0x200f},
    {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},   {0xd800, 0xf8ff},    {0xfeff, 0xfeff},
    {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff},
};

// Byte lengths of the blank (or the character of a set) that starts or ends a text; 0 for none.
template <typename Predicate>
std::string_view StripIf(std::string_view text, Side side, Predicate is_taken) {
  while (side != Side::kRight && !text.empty()) {
    const Utf8Character character = DecodeUtf8(text, 0);
    if (!is_taken(character.code_point)) break;
    text.remove_prefix(character.length);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!is_taken(DecodeUtf8(text, begin).code_point)) break;
    text = text.substr(0, begin);
  }
  return text;
}

template <typename Visit>
void ForEachCharacter(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    const bool is_ascii = static_cast<unsigned char>(text[i]) < 0x80;
    const Utf8Character character =
        is_ascii ? Utf8Character{static_cast<char32_t>(text[i]), 1, true} : DecodeUtf8(text, i);
    visit(character.code_point, text.substr(i, character.length));
    i += character.length;
  }
}

// A capital sigma that ends a word has its own lower case. `before` is the text in front of it.
bool IsFinalSigma(std::string_view before, std::string_view after) {
  const auto is_ignored = [](char32_t c) { return c == '\'' || c == '.' || c == ':' || c == 0xad; };
  while (!before.empty()) {
    size_t begin = before.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(before[begin]) & 0xc0) == 0x80) --begin;
    const char32_t c = DecodeUtf8(before, begin).code_point;
    before = before.substr(0, begin);
    if (is_ignored(c)) continue;
    if (!IsCased(c)) return false;
    break;
  }
  if (before.empty() && after.empty()) return false;
  for (size_t i = 0; i < after.size();) {
    const Utf8Character next = DecodeUtf8(after, i);
    i += next.length;
    if (!is_ignored(next.code_point)) return !IsCased(next.code_point);
  }
  return true;
}

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

bool IsPrintable(char32_t c) {
  return std::none_of(std::begin(kNotPrintable), std::end(kNotPrintable),
                      [c](const Range& range) { return c >= range.first && c <= range.last; });
}

bool IsUpper(char32_t c) { return LowerCase(c) != c; }
bool IsLower(char32_t c) {
  return !IsUpper(c) && (UpperCase(c) != c || !SpecialUpperCase(c).empty());
}
bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c); }

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCharacter(text, [&](char32_t c, std::string_view) {
    const std::u32string_view special = SpecialUpperCase(c);
    for (const char32_t part : special) AppendUtf8(part, out);
    if (special.empty()) AppendUtf8(UpperCase(c), out);
  });
  return out;
}

std::string ToLower(std::string_view text) {
  static constexpr char32_t kCapitalSigma = 0x3a3, kFinalSigma = 0x3c2, kCapitalDottedI = 0x130;
  std::string out;
  out.reserve(text.size());
  ForEachCharacter(text, [&](char32_t c, std::string_view bytes) {
    const size_t offset = bytes.data() - text.data();
    if (c == kCapitalSigma &&
        IsFinalSigma(text.substr(0, offset), text.substr(offset + bytes.size()))) {
      AppendUtf8(kFinalSigma, out);
    } else if (c == kCapitalDottedI) {
      out += "i\xcc\x87";  // i and a combining dot
    } else {
      AppendUtf8(LowerCase(c), out);
    }
  });
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = DecodeUtf8(text, 0).length;
  return TitleCase(text.substr(0, first)) + ToLower(text.substr(first));
}

std::string TitleCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool inside_word = false;
  ForEachCharacter(text, [&](char32_t c, std::string_view bytes) {
    if (inside_word) {
      out += ToLower(bytes);
    } else {
      // Of an upper case of several characters only the first is a capital: SS at the start is Ss.
      const std::u32string_view special = SpecialUpperCase(c);
      if (special.empty()) AppendUtf8(UpperCase(c), out);
      for (size_t i = 0; i < special.size(); ++i) {
        AppendUtf8(i == 0 ? special[i] : LowerCase(special[i]), out);
      }
    }
    inside_word = IsCased(c);
  });
  return out;
}

std::string_view Strip(std::string_view text, Side side) { return StripIf(text, side, IsSpace); }

std::string_view Strip(std::string_view text, Side side, std::string_view characters) {
  std::u32string set = Decode(characters);
  std::sort(set.begin(), set.end());
  return StripIf(text, side,
                 [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::vector<std::string_view> Split(std::string_view text, int64_t max_splits) {
  std::vector<std::string_view> parts;
  for (text = Strip(text, Side::kLeft); !text.empty(); text = Strip(text, Side::kLeft)) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(Strip(text, Side::kRight));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Character character = DecodeUtf8(text, end);
      if (IsSpace(character.code_point)) break;
      end += character.length;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> SplitFromEnd(std::string_view text, int64_t max_splits) {
  std::vector<std::string_view> parts;
  for (text = Strip(text, Side::kRight); !text.empty(); text = Strip(text, Side::kRight)) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(Strip(text, Side::kLeft));
      break;
    }
    const std::string_view rest =
        StripIf(text, Side::kRight, [](char32_t c) { return !IsSpace(c); });
    parts.push_back(text.substr(rest.size()));
    text = rest;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separator,
                                    int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitFromEnd(std::string_view text, std::string_view separator,
                                           int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  const auto is_line_end = [](char32_t c) {
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = DecodeUtf8(text, i);
    size_t next = i + character.length;
    if (is_line_end(character.code_point)) {
      if (text.substr(i).starts_with("\r\n")) ++next;
      lines.push_back(text.substr(begin, (keep_ends ? next : i) - begin));
      begin = next;
    }
    i = next;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

size_t Count(std::string_view text, std::string_view part) {
  if (part.empty()) return CountCharacters(text) + 1;
  size_t count = 0;
  for (size_t i = text.find(part); i != std::string_view::npos;
       i = text.find(part, i + part.size())) {
    ++count;
  }
  return count;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t max_count) {
  std::string out;
  int64_t count = 0;
  const auto may_replace = [&] { return max_count < 0 || count < max_count; };
  if (from.empty()) {
    ForEachCharacter(text, [&](char32_t, std::string_view bytes) {
      if (may_replace()) out += to, ++count;
      out += bytes;
    });
    if (may_replace()) out += to;
    return out;
  }
  while (may_replace()) {
    const size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
    ++count;
  }
  out += text;
  return out;
}

std::u32string Decode(std::string_view text) {
  std::u32string out;
  ForEachCharacter(text, [&](char32_t c, std::string_view) { out += c; });
  return out;
}

size_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string EncodeUtf8(char32_t character) {
  std::string out;
  AppendUtf8(character, out);
  return out;
}

}  // namespace thaw::jinja
