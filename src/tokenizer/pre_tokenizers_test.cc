#include "tokenizer/pre_tokenizers.h"

#include <gmock/gmock.h>

#include "tokenizer/regex_splitter.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(std::string_view name, std::string_view text) {
  const PreTokenizer* pre = FindPreTokenizer(name);
  EXPECT_NE(pre, nullptr) << name;
  const auto splitter = RegexSplitter::Create(pre->passes);
  EXPECT_TRUE(splitter.has_value()) << splitter.error().message;
  std::vector<std::string> words;
  EXPECT_TRUE(
      splitter->Split(text, [&](std::string_view word) { words.emplace_back(word); }).has_value());
  return words;
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  const std::string list = PreTokenizerNames();
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 2;
  }
  return names;
}

TEST(PreTokenizersTest, Gpt2KeepsOneSpaceWithAWordAndKnowsLowerCaseContractions) {
  EXPECT_THAT(Words("gpt-2", "I'm  here's 12ab  "),
              ElementsAre("I", "'m", " ", " here", "'s", " 12", "ab", "  "));
  EXPECT_THAT(Words("gpt-2", "I'M"), ElementsAre("I", "'", "M"));
}

TEST(PreTokenizersTest, Llama3CutsDigitsInThreesAndEndsWordsAtNewlines) {
  EXPECT_THAT(Words("llama-bpe", "I'M 12345!\n\n  x"),
              ElementsAre("I", "'M", " ", "123", "45", "!\n\n", " ", " x"));
}

TEST(PreTokenizersTest, Qwen2CutsEveryDigit) {
  EXPECT_THAT(Words("qwen2", "a12 \n b"), ElementsAre("a", "1", "2", " \n", " b"));
}

TEST(PreTokenizersTest, CombiningMarksBelongToWordsInQwen35Only) {
  EXPECT_THAT(Words("qwen35", "e\u0301a"), ElementsAre("e\u0301a"));
  EXPECT_THAT(Words("qwen2", "e\u0301a"), ElementsAre("e", "\u0301a"));
}

TEST(PreTokenizersTest, Gpt4oCutsBeforeUpperCaseAndKeepsContractions) {
  EXPECT_THAT(Words("gpt-4o", "HelloWorld's x"), ElementsAre("Hello", "World's", " x"));
  EXPECT_THAT(Words("tekken", "HelloWorld's"), ElementsAre("Hello", "World", "'s"));
  EXPECT_THAT(Words("gpt-4o", "ABCdef"), ElementsAre("ABCdef"));
}

TEST(PreTokenizersTest, StarcoderCutsDigitsBeforeWords) {
  EXPECT_THAT(Words("starcoder", "x 42"), ElementsAre("x", " ", "4", "2"));
}

TEST(PreTokenizersTest, DeepseekKeepsTrailingSpaceTogetherAndScriptsApart) {
  EXPECT_THAT(Words("deepseek-llm", "ab, \u4e2d12  "),
              ElementsAre("ab", ",", " ", "\u4e2d", "12", "  "));
  EXPECT_THAT(Words("deepseek-v3", "a1234\u4e2d.b"), ElementsAre("a", "123", "4", "\u4e2d", ".b"));
}

TEST(PreTokenizersTest, ThousandsAreCountedFromTheRight) {
  EXPECT_THAT(Words("superbpe", "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(Words("afmoe", "1234567 123"), ElementsAre("1", "234", "567", " ", "123"));
}

TEST(PreTokenizersTest, BloomCutsAtTheListedPunctuationOnly) {
  EXPECT_THAT(Words("bloom", "a-b c, d"), ElementsAre("a-b", " c", ",", " d"));
}

TEST(PreTokenizersTest, AnUnknownNameIsNotFound) {
  EXPECT_EQ(FindPreTokenizer("no-such"), nullptr);
  EXPECT_EQ(FindPreTokenizer(""), nullptr);
  EXPECT_THAT(PreTokenizerNames(), HasSubstr("gpt-2, gpt-4o, "));
}

// A quadratic expression would take hours here.
TEST(PreTokenizersTest, EveryEntryCutsLongRunsInLinearTimeWithoutLosingText) {
  const auto repeat = [](std::string_view unit) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    return text;
  };
  const std::string texts[] = {
      repeat("a"),         repeat("A"),    repeat(" "),   repeat(" ") + "x",   repeat("\n"),
      repeat(" \n") + "x", repeat("7"),    repeat("'"),   repeat("a\u0301"),   repeat("\u4e2d"),
      repeat("\u4e2dA"),   repeat("\x01"), repeat("a b"), repeat("\U0001f600")};
  std::vector<const PreTokenizer*> done;
  for (const std::string& name : AllNames()) {
    const PreTokenizer* pre = FindPreTokenizer(name);
    ASSERT_NE(pre, nullptr) << name;
    if (std::find(done.begin(), done.end(), pre) != done.end()) continue;
    done.push_back(pre);
    for (const std::string& text : texts) {
      std::string joined;
      for (const std::string& word : Words(name, text)) joined += word;
      EXPECT_TRUE(joined == text) << name << ", " << text.substr(0, 8) << "...";
    }
  }
}

}  // namespace
}  // namespace thaw
