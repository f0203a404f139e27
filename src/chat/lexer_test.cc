#include "chat/lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::jinja {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The texts of the tokens, the end left out.
std::vector<std::string> Texts(std::string_view source) {
  const auto tokens = Tokenize(source, "t");
  if (!tokens) return {tokens.error().message};
  std::vector<std::string> texts;
  for (const Token& token : *tokens) {
    if (token.kind != TokenKind::kEnd) texts.push_back(token.text);
  }
  return texts;
}

TEST(Lexer, KeepsBracesInsideOfExpressionsApartFromTheEndOfTheTag) {
  EXPECT_THAT(Texts("{{ {'a': {}}}}"), ElementsAre("{{", "{", "a", ":", "{", "}", "}", "}}"));
}

TEST(Lexer, ReadsTheLongestOperator) {
  EXPECT_THAT(Texts("{{ a//b**c<=d }}"),
              ElementsAre("{{", "a", "//", "b", "**", "c", "<=", "d", "}}"));
}

TEST(Lexer, TellsAttributesByNumberFromFloats) {
  EXPECT_THAT(Texts("{{ a.0.1 1.5 2e3 }}"),
              ElementsAre("{{", "a", ".", "0", ".", "1", "1.5", "2e3", "}}"));
}

TEST(Lexer, ResolvesEscapes) {
  EXPECT_THAT(Texts(R"({{ '\n\x41\u00e9\q\'\ud83d\ude00' }})"),
              ElementsAre("{{", "\nA\xc3\xa9\\q'\xf0\x9f\x98\x80", "}}"));
}

TEST(Lexer, CountsLinesAndColumnsFromOne) {
  const auto tokens = Tokenize("ab\r\n  {{ x }}", "t");
  ASSERT_TRUE(tokens);
  const Token& name = (*tokens)[2];
  EXPECT_EQ(name.text, "x");
  EXPECT_EQ(name.at.line, 2u);
  EXPECT_EQ(name.at.column, 6u);
}

TEST(Lexer, SaysWhereATagHasNoEnd) {
  EXPECT_THAT(Texts("a\n{{ b"), ElementsAre("t:2:1: the tag has no end"));
  EXPECT_THAT(Texts("{# b"), ElementsAre("t:1:1: the comment has no end"));
  EXPECT_THAT(Texts("{% raw %} b"), ElementsAre("t:1:1: the raw block has no end"));
}

TEST(Lexer, RefusesEscapesThatStandForNoCharacter) {
  EXPECT_THAT(Texts(R"({{ '\ud800' }})"), ElementsAre(HasSubstr("no character")));
  EXPECT_THAT(Texts(R"({{ '\xg0' }})"), ElementsAre(HasSubstr("hexadecimal")));
}

}  // namespace
}  // namespace thaw::jinja
