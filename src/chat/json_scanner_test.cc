#include "chat/json_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace thaw {
namespace {

TEST(JsonScannerTest, TakesWhatJsonIs) {
  for (const std::string_view text :
       {"0", "-0", "12.50e+3", "1E9", "true", "false", "null", R"("")",
        R"("a\"\\\/\b\f\n\r\t\u00fF")", "[]", "[1]", "[ 1 , [ ] ]", "{}",
        R"({"a": 1, "b": {"c": [true, null]}})", " 1 ", "\"ü\""}) {
    EXPECT_TRUE(WholeJson(text)) << text;
  }
}

TEST(JsonScannerTest, RefusesWhatItIsNot) {
  for (const std::string_view text : {"",
                                      " ",
                                      "-",
                                      "01",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "1e+",
                                      "+1",
                                      "tru",
                                      "truth",
                                      "nul",
                                      "\"",
                                      R"("\x")",
                                      R"("\u12g4")",
                                      "[",
                                      "[1",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{",
                                      "{1: 2}",
                                      R"({"a"})",
                                      R"({"a": })",
                                      R"({"a": 1,})",
                                      R"({"a": 1]})",
                                      "[}",
                                      "]",
                                      "1 2",
                                      "{}{}",
                                      "'a'",
                                      "NaN"}) {
    EXPECT_FALSE(WholeJson(text)) << text;
  }
}

TEST(JsonScannerTest, NestingIsBounded) {
  const auto nested = [](size_t levels) {
    return WholeJson(std::string(levels, '[') + std::string(levels, ']'));
  };
  EXPECT_TRUE(nested(kMaxJsonDepth));
  EXPECT_FALSE(nested(kMaxJsonDepth + 1));
}

TEST(JsonScannerTest, ControlCharactersInStringsAreEscaped) {
  EXPECT_EQ(WholeJson("[\n\"a\nb\x01\"]"), "[\n\"a\\nb\\u0001\"]");
}

// Another parser as the oracle, on texts of JSON's own signs.
TEST(JsonScannerTest, AgreesWithTheLibraryOnRandomTexts) {
  static constexpr std::string_view kPieces[] = {"{",     "}",    "[",    "]",      ",", ":",
                                                 "\"a\"", "1",    "-",    ".",      "e", "0",
                                                 " ",     "true", "null", "\"\\n\""};
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same texts in every run
  int whole_count = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (size_t left = 1 + random() % 7; left > 0; --left) text += kPieces[random() % 16];
    const bool is_whole = WholeJson(text).has_value();
    ASSERT_EQ(is_whole, nlohmann::json::accept(text)) << text;
    whole_count += is_whole ? 1 : 0;
  }
  EXPECT_GT(whole_count, 10'000);
}

TEST(JsonScannerTest, StringsAreWrittenAndReadBack) {
  EXPECT_EQ(JsonString("a\"\n\x01ü"), R"("a\"\n\u0001ü")");
  EXPECT_EQ(TextOfJsonString(R"("a\"\n\u00fc\ud83c\udf89")"), "a\"\nü🎉");
  EXPECT_FALSE(TextOfJsonString(R"("\ud83c")"));
  EXPECT_FALSE(TextOfJsonString("1"));
}

}  // namespace
}  // namespace thaw
