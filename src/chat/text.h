// Text as Python's str treats it: characters are code points, blanks and cases are Unicode's.
//
// All functions take valid UTF-8 and return valid UTF-8. Costs: linear in the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thaw::jinja {

// What str.isspace and str.strip count as a blank.
bool IsSpace(char32_t character);
// What repr() prints as it is.
bool IsPrintable(char32_t character);

bool IsUpper(char32_t character);
bool IsLower(char32_t character);
bool IsCased(char32_t character);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
// The first character upper case, the others lower case.
std::string Capitalize(std::string_view text);
// str.title: every letter after a non-letter is upper case, the others lower case.
std::string TitleCase(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Blanks, or where `characters` is given any of its characters, taken from the ends.
std::string_view Strip(std::string_view text, Side side);
std::string_view Strip(std::string_view text, Side side, std::string_view characters);

// str.split: at runs of blanks, or at every `separator` (not empty). At most `max_splits` cuts, any
// number where it is negative.
std::vector<std::string_view> Split(std::string_view text, int64_t max_splits);
std::vector<std::string_view> Split(std::string_view text, std::string_view separator,
                                    int64_t max_splits);
// The same from the end.
std::vector<std::string_view> SplitFromEnd(std::string_view text, int64_t max_splits);
std::vector<std::string_view> SplitFromEnd(std::string_view text, std::string_view separator,
                                           int64_t max_splits);
// str.splitlines.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// The number of times `part` stands in `text` without overlap; between characters where it is
// empty.
size_t Count(std::string_view text, std::string_view part);
// str.replace, the first `max_count` times, always where that is negative.
std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t max_count);

// The characters of the text, in UTF-32.
std::u32string Decode(std::string_view text);
size_t CountCharacters(std::string_view text);
std::string EncodeUtf8(char32_t character);

}  // namespace thaw::jinja
