#include "cli/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ParseJson, NamesFileLineAndColumnOfWhatIsNotJson) {
  const auto parsed = ParseJson("[1,\n 2,\n  oops]", "list.json");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, StartsWith("list.json:3:3: this is not JSON: "));
  EXPECT_THAT(parsed.error().message, testing::Not(HasSubstr("json.exception")));
}

TEST(ParseJson, RefusesAnEmptyText) {
  const auto parsed = ParseJson("", "empty.json");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, StartsWith("empty.json:1:1: "));
}

TEST(ParseJson, RefusesBytesThatAreNotUtf8InAMessageThatIs) {
  const auto parsed = ParseJson("\"\xff\"", "bytes.json");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, StartsWith("bytes.json:1:2: "));
}

TEST(ParseJson, RefusesNumbersThatNoTypeHolds) {
  const auto parsed = ParseJson("1e999", "huge.json");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, StartsWith("huge.json: this is not JSON: "));
}

TEST(ReadTokenList, ReadsIntegers) {
  const TemporaryDirectory folder;
  const auto tokens = ReadTokenList(folder.Write("t.json", "[1, 2147483647, -5]"));
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_THAT(*tokens, ElementsAre(1, 2147483647, -5));
}

TEST(ReadTokenList, NamesTheElementThatIsNoTokenId) {
  const TemporaryDirectory folder;
  for (const std::string element : {"2147483648", "-2147483649", "1.5", "\"a\"", "null", "true"}) {
    const auto tokens = ReadTokenList(folder.Write("t.json", "[1, " + element + "]"));
    ASSERT_FALSE(tokens) << element;
    EXPECT_THAT(tokens.error().message, HasSubstr("t.json: element 1 is " + element));
  }
}

TEST(ReadTokenList, DoesNotPrintListsDeeperThanAStack) {
  const TemporaryDirectory folder;
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  const auto tokens = ReadTokenList(folder.Write("t.json", "[" + deep + "]"));
  ASSERT_FALSE(tokens);
  EXPECT_THAT(tokens.error().message, HasSubstr("element 0 is of type array"));
}

TEST(ReadTokenList, RefusesWhatIsNoList) {
  const TemporaryDirectory folder;
  const auto tokens = ReadTokenList(folder.Write("t.json", "{\"tokens\": [1]}"));
  ASSERT_FALSE(tokens);
  EXPECT_THAT(tokens.error().message, HasSubstr("a JSON list of token ids is expected"));
}

TEST(ReadStringList, ReadsStringsAndNamesWhatIsNone) {
  const TemporaryDirectory folder;
  const auto strings = ReadStringList(folder.Write("s.json", R"(["", "a\u00e9", "b\nc"])"));
  ASSERT_TRUE(strings) << strings.error().message;
  EXPECT_THAT(*strings, ElementsAre("", "aé", "b\nc"));
  const auto mixed = ReadStringList(folder.Write("m.json", R"(["a", 3])"));
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("element 1 is 3, which is no string"));
}

TEST(PrettyJson, KeepsListsOfPlainValuesOnOneLine) {
  const Json value = {{"ids", {1, 2, 3}}, {"nested", {{"a", nullptr}}}, {"none", Json::array()}};
  EXPECT_EQ(PrettyJson(value),
            "{\n  \"ids\": [1,2,3],\n  \"nested\": {\n    \"a\": null\n  },\n  \"none\": []\n}\n");
}

TEST(PrettyJson, PutsListsOfObjectsOnLinesOfTheirOwn) {
  const Json value = Json::array({{{"a", 1}}, {{"b", 2}}});
  EXPECT_EQ(PrettyJson(value), "[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": 2\n  }\n]\n");
  EXPECT_EQ(Json::parse(PrettyJson(value)), value);
}

TEST(CompactJson, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(CompactJson(std::string("a\xff")), "\"a\uFFFD\"");
}

}  // namespace
}  // namespace thaw::cli
