#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace thaw {
namespace {

// 256 + 68: no character of the alphabet is this or above.
constexpr char32_t kAlphabetEnd = 0x144;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<std::array<char, 2>, 256> utf8{};
  std::array<uint8_t, 256> utf8_length{};
  std::array<int16_t, kAlphabetEnd> byte_of{};  // -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = StandsForItself(byte) ? byte : next++;
    alphabet.byte_of[static_cast<size_t>(character)] = static_cast<int16_t>(byte);
    auto& utf8 = alphabet.utf8[static_cast<size_t>(byte)];
    if (character < 0x80) {
      utf8[0] = static_cast<char>(character);
    } else {
      utf8[0] = static_cast<char>(0xc0 | (character >> 6));
      utf8[1] = static_cast<char>(0x80 | (character & 0x3f));
    }
    alphabet.utf8_length[static_cast<size_t>(byte)] = character < 0x80 ? 1 : 2;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string_view ByteCharacter(uint8_t byte) {
  return {kAlphabet.utf8[byte].data(), kAlphabet.utf8_length[byte]};
}

std::optional<uint8_t> ByteOfCharacter(char32_t character) {
  if (character >= kAlphabetEnd || kAlphabet.byte_of[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.byte_of[character]);
}

void AppendInByteAlphabet(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) out += ByteCharacter(static_cast<uint8_t>(byte));
}

void AppendFromByteAlphabet(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = DecodeUtf8(text, i);
    const auto byte = c.valid ? ByteOfCharacter(c.code_point) : std::nullopt;
    if (byte) {
      out.push_back(static_cast<char>(*byte));
    } else {
      out.append(text, i, c.length);
    }
    i += c.length;
  }
}

}  // namespace thaw
