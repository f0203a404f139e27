// How vocabularies that are not byte-level write spaces and bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thaw {

// U+2581, which stands for a space.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

// Spaces written as kSpaceMark, and back.
std::string EscapeSpaces(std::string_view text);
std::string UnescapeSpaces(std::string_view text);

// "<0xNN>": the token of a byte, and back.
std::string ByteTokenText(uint8_t byte);
std::optional<uint8_t> ByteOfToken(std::string_view text);

// Every byte of `text` that is not part of a UTF-8 character replaced by one U+FFFD.
std::string ReplaceStrayBytes(std::string_view text);

}  // namespace thaw
