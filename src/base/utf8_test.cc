#include "base/utf8.h"

#include <gtest/gtest.h>

namespace thaw {
namespace {

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    AppendUtf8(c, text);
    const Utf8Character decoded = DecodeUtf8(text, 0);
    ASSERT_TRUE(decoded.valid);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5", "\xff", "\xe2\x82", "a\xe2"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << testing::PrintToString(std::string(bad));
  }
  EXPECT_TRUE(IsValidUtf8("plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80"));
}

TEST(Utf8, ReplacesEachMaximalPrefixOnce) {
  // Unicode 15, table 3-11.
  EXPECT_EQ(ReplaceInvalidUtf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x41");
}

TEST(Utf8Assembler, HoldsBackACharacterUntilItIsWhole) {
  const std::string text =
      "a\xf0\x9f\x98\x80"
      "b";
  Utf8Assembler assembler;
  std::string out;
  for (const char byte : text) {
    const std::string piece = assembler.Push(std::string_view(&byte, 1));
    EXPECT_TRUE(IsValidUtf8(piece));
    out += piece;
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(assembler.Finish(), "");
}

TEST(Utf8Assembler, FinishReplacesAnIncompleteCharacter) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Push("x\xe2\x82"), "x");
  EXPECT_EQ(assembler.Finish(), "\xef\xbf\xbd");
  EXPECT_EQ(assembler.Finish(), "");
}

}  // namespace
}  // namespace thaw
