#include "tokenizer/regex_splitter.h"

#include <gmock/gmock.h>

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> SplitBy(const std::vector<std::string_view>& expressions,
                                 std::string_view text) {
  const auto splitter = RegexSplitter::Create(expressions);
  EXPECT_TRUE(splitter.has_value());
  std::vector<std::string> pieces;
  EXPECT_TRUE(splitter->Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); })
                  .has_value());
  return pieces;
}

TEST(RegexSplitterTest, MatchesAndWhatLiesBetweenThemArePieces) {
  EXPECT_THAT(SplitBy({"[0-9]+"}, "ab12cd3"), ElementsAre("ab", "12", "cd", "3"));
  EXPECT_THAT(SplitBy({"[0-9]+"}, "12ab"), ElementsAre("12", "ab"));
  EXPECT_THAT(SplitBy({"x"}, ""), ElementsAre());
}

TEST(RegexSplitterTest, EachExpressionCutsThePiecesOfTheOneBefore) {
  EXPECT_THAT(SplitBy({"[0-9]+", "a|1"}, "ba11"), ElementsAre("b", "a", "1", "1"));
}

TEST(RegexSplitterTest, AnExpressionDoesNotSeeBeyondItsPiece) {
  EXPECT_THAT(SplitBy({"[0-9]+", R"(a\z)"}, "aa1a"), ElementsAre("a", "a", "1", "a"));
  EXPECT_THAT(SplitBy({"[0-9]", "(?<![0-9])a"}, "1aa"), ElementsAre("1", "a", "a"));
}

TEST(RegexSplitterTest, WhiteSpaceIsUnicodesWithoutTheMongolianVowelSeparator) {
  EXPECT_THAT(SplitBy({R"(\s)"}, "a\u3000b\u0085c\u180ed"),
              ElementsAre("a", "\u3000", "b", "\u0085", "c\u180ed"));
  EXPECT_THAT(SplitBy({R"(\S+)"}, "a\u2003b"), ElementsAre("a", "\u2003", "b"));
}

TEST(RegexSplitterTest, CharactersOfUnicode15HaveTheirCategories) {
  EXPECT_THAT(SplitBy({R"(\p{S}+)"}, "a\U0001fae8b"), ElementsAre("a", "\U0001fae8", "b"));
  EXPECT_THAT(SplitBy({R"([\p{L}x]+)"}, "1\U00031350"), ElementsAre("1", "\U00031350"));
}

TEST(RegexSplitterTest, AWrongExpressionIsAnErrorThatNamesIt) {
  const auto splitter = RegexSplitter::Create({"a", "(b"});
  ASSERT_FALSE(splitter.has_value());
  EXPECT_EQ(splitter.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(splitter.error().message, HasSubstr("'(b', offset 2"));
}

TEST(RegexSplitterTest, BacktrackingOverALongRunIsNotLimited) {
  const std::string text = std::string(20'000'000, ' ') + "x";
  EXPECT_EQ(SplitBy({R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}, text).size(), 3u);
}

}  // namespace
}  // namespace thaw
