// The 256 printable characters in which byte-level vocabularies write bytes, as GPT-2 chose them:
// the printable ones of Latin-1 stand for themselves, the 68 others for U+0100 and up in order. A
// space is U+0120, a newline U+010A.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thaw {

// The character that stands for `byte`, in UTF-8.
std::string_view ByteCharacter(uint8_t byte);

// The byte that `character` stands for, if it is one of the 256.
std::optional<uint8_t> ByteOfCharacter(char32_t character);

// Appends `bytes`, written in that alphabet.
void AppendInByteAlphabet(std::string_view bytes, std::string& out);

// Appends the bytes that `text` stands for; a character outside the alphabet stands for itself.
void AppendFromByteAlphabet(std::string_view text, std::string& out);

}  // namespace thaw
