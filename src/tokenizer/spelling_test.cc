#include "tokenizer/spelling.h"

#include <gmock/gmock.h>

#include "tokenizer/byte_alphabet.h"

namespace thaw {
namespace {

TEST(SpellingTest, SpacesAreEscapedAndUnescaped) {
  EXPECT_EQ(EscapeSpaces(" a  b"), "\u2581a\u2581\u2581b");
  EXPECT_EQ(UnescapeSpaces("\u2581a\u2581\u2581b"), " a  b");
  EXPECT_EQ(EscapeSpaces(""), "");
}

TEST(SpellingTest, ByteTokensNameTheirByte) {
  EXPECT_EQ(ByteTokenText(0x0a), "<0x0A>");
  EXPECT_EQ(ByteOfToken("<0xfF>"), 0xff);
  for (const char* wrong : {"", "<0x0>", "<0x0G>", "<0x0A", "0x0A>>", "<0x0A>>"}) {
    EXPECT_EQ(ByteOfToken(wrong), std::nullopt) << wrong;
  }
}

TEST(SpellingTest, EveryStrayByteBecomesOneReplacementCharacter) {
  EXPECT_EQ(ReplaceStrayBytes("a\xe4\xb8z\xff"), "a\ufffd\ufffdz\ufffd");
  EXPECT_EQ(ReplaceStrayBytes("\u4e2d"), "\u4e2d");
}

TEST(ByteAlphabetTest, EveryByteHasACharacterOfItsOwn) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  std::string text;
  AppendInByteAlphabet(all, text);
  std::string back;
  AppendFromByteAlphabet(text, back);
  EXPECT_EQ(back, all);
}

TEST(ByteAlphabetTest, SpaceAndNewlineAreGpt2s) {
  EXPECT_EQ(ByteCharacter(' '), "\u0120");
  EXPECT_EQ(ByteCharacter('\n'), "\u010a");
  EXPECT_EQ(ByteCharacter('a'), "a");
  EXPECT_EQ(ByteCharacter(0xad), "\u0143");
}

TEST(ByteAlphabetTest, CharactersOutsideTheAlphabetStandForThemselves) {
  std::string bytes;
  AppendFromByteAlphabet("<\u2581 \xff>", bytes);
  EXPECT_EQ(bytes, "<\u2581 \xff>");
}

}  // namespace
}  // namespace thaw
