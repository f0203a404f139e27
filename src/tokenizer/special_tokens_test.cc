#include "tokenizer/special_tokens.h"

#include <gmock/gmock.h>

#include <random>
#include <string>

namespace thaw {
namespace {

using ::testing::ElementsAre;

// "3:[7,10)" for a token 3 found there.
std::vector<std::string> Find(const std::vector<SpecialToken>& tokens, std::string_view text) {
  std::vector<std::string> found;
  for (const auto& [begin, end, id] : SpecialTokens(tokens).FindIn(text)) {
    found.push_back(std::to_string(id) + ":[" + std::to_string(begin) + "," + std::to_string(end) +
                    ")");
  }
  return found;
}

TEST(SpecialTokensTest, TokensAreFoundInTheOrderOfTheText) {
  EXPECT_THAT(Find({{"<a>", 1}, {"<b>", 2}}, "x<b><a>y<a>"),
              ElementsAre("2:[1,4)", "1:[4,7)", "1:[8,11)"));
  EXPECT_THAT(Find({{"<a>", 1}}, "<a <a"), ElementsAre());
  EXPECT_THAT(Find({}, "<a>"), ElementsAre());
}

TEST(SpecialTokensTest, TheLongestWinsAnywhereThenTheLeftmost) {
  EXPECT_THAT(Find({{"abc", 1}, {"bcde", 2}}, "abcde"), ElementsAre("2:[1,5)"));
  EXPECT_THAT(Find({{"aa", 1}, {"aaa", 2}}, "aaaaaaaa"),
              ElementsAre("2:[0,3)", "2:[3,6)", "1:[6,8)"));
  EXPECT_THAT(Find({{"ab", 1}, {"bc", 2}}, "abc"), ElementsAre("1:[0,2)"));
}

TEST(SpecialTokensTest, AShorterTokenIsFoundWhereTheLongerDoesNotFit) {
  EXPECT_THAT(Find({{"ab", 1}, {"abcd", 2}, {"cdefg", 3}}, "abcdefg"),
              ElementsAre("1:[0,2)", "3:[2,7)"));
}

TEST(SpecialTokensTest, OfEqualTextsTheLowestIdIsFound) {
  EXPECT_THAT(Find({{"a", 7}, {"a", 3}}, "a"), ElementsAre("3:[0,1)"));
}

TEST(SpecialTokensTest, StrippingSwallowsSpaceButNoOtherToken) {
  EXPECT_THAT(Find({{"<a>", 1, false, true}}, "<a> \n x <a>"), ElementsAre("1:[0,6)", "1:[8,11)"));
  EXPECT_THAT(Find({{"<a>", 1, true, false}}, "x \t<a> "), ElementsAre("1:[1,6)"));
  EXPECT_THAT(Find({{"<a>", 1, true, true}}, "<a> <a>"), ElementsAre("1:[0,4)", "1:[4,7)"));
}

TEST(SpecialTokensTest, AgreesWithTakingOneTokenAfterAnotherOutOfTheText) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts;
    for (int i = 0; i < 5; ++i) {
      std::string text;
      for (unsigned length = 1 + random() % 4; length > 0; --length) {
        text.push_back(static_cast<char>('a' + random() % 2));
      }
      texts.push_back(text);
    }
    std::string text;
    for (int i = 0; i < 12; ++i) text.push_back(static_cast<char>('a' + random() % 3));

    std::vector<SpecialToken> tokens;
    for (size_t i = 0; i < texts.size(); ++i) tokens.push_back({texts[i], static_cast<int32_t>(i)});
    std::vector<SpecialToken> longest_first = tokens;
    std::stable_sort(longest_first.begin(), longest_first.end(),
                     [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
    std::string rest = text;
    std::vector<int32_t> expected(text.size(), -1);  // the id that begins at each place
    for (const SpecialToken& token : longest_first) {
      for (size_t at = rest.find(token.text); at != std::string::npos; at = rest.find(token.text)) {
        expected[at] = token.id;
        rest.replace(at, token.text.size(), token.text.size(), '#');
      }
    }
    std::vector<int32_t> actual(text.size(), -1);
    for (const auto& found : SpecialTokens(tokens).FindIn(text)) actual[found.begin] = found.id;
    ASSERT_EQ(actual, expected) << text;
  }
}

}  // namespace
}  // namespace thaw
