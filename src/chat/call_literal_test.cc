#include "chat/call_literal.h"

#include <gtest/gtest.h>

#include "chat/json_scanner.h"

namespace thaw {
namespace {

std::string Python(std::string_view text) {
  return JsonOfArguments(text, kPythonSyntax).value_or("none");
}

std::string Braces(std::string_view text) {
  return JsonOfArguments(text, kBraceSyntax).value_or("none");
}

TEST(CallLiteralTest, PythonBecomesJson) {
  EXPECT_EQ(Python(""), "{}");
  EXPECT_EQ(Python(" a = 1 , b=-2.5e-3, "), R"({"a": 1, "b": -2.5e-3})");
  EXPECT_EQ(Python("a=True, b=False, c=None, d=true, e=null"),
            R"({"a": true, "b": false, "c": null, "d": true, "e": null})");
  EXPECT_EQ(Python("a=[1, 'x', (2, 3,),], b={}, c={'k': {\"l\": []}, 1: 2}"),
            R"({"a": [1, "x", [2, 3]], "b": {}, "c": {"k": {"l": []}, "1": 2}})");
}

TEST(CallLiteralTest, PythonStringsAreUnescaped) {
  EXPECT_EQ(Python(R"(a='it\'s "b"', b="\n\t\\\x41\u00fc\U0001f389\d")"),
            R"({"a": "it's \"b\"", "b": "\n\t\\Aü🎉\\d"})");
  EXPECT_EQ(Python(R"(a='\ud83c\udf89')"), R"({"a": "🎉"})");
  EXPECT_EQ(Python("a='x\\\ny'"), R"({"a": "xy"})");
  for (const std::string_view bad : {R"(a='\ud83c')", R"(a='\ud83c\u0041')", R"(a='\udf89')",
                                     R"(a='\U00110000')", R"(a='\x4')", "a='\\"}) {
    EXPECT_EQ(Python(bad), "none") << bad;
  }
}

TEST(CallLiteralTest, BracesBecomeJson) {
  EXPECT_EQ(Braces("a:<|\"|>x\\y \"z\"<|\"|>,b:<escape>,<escape>,c:1.5,d:true"),
            R"({"a": "x\\y \"z\"", "b": ",", "c": 1.5, "d": true})");
  EXPECT_EQ(Braces("a:{b:[<|\"|>c<|\"|>,{}],<|\"|>k<|\"|>:null}"),
            R"({"a": {"b": ["c", {}], "k": null}})");
}

TEST(CallLiteralTest, AllElseIsRefused) {
  for (const std::string_view bad :
       {"1",      "a",     "a=",       "a=b",      "a=1 b=2",   "a=1,,",  "=1",
        "a=f(1)", "a=[1",  "a=[1,,2]", "a={x: 1}", "a={'k' 1}", "a=0x10", "a=.5",
        "a='x",   "a=1+2", "a==1",     ",",        "a=[1)",     "**a"}) {
    EXPECT_EQ(Python(bad), "none") << bad;
  }
  EXPECT_EQ(Braces("a:word"), "none");
}

TEST(CallLiteralTest, NestingIsBounded) {
  const auto nested = [](int levels) {
    return Python("a=" + std::string(levels, '[') + std::string(levels, ']'));
  };
  EXPECT_TRUE(WholeJson(nested(kMaxJsonDepth - 2)));
  EXPECT_EQ(nested(kMaxJsonDepth), "none");
}

}  // namespace
}  // namespace thaw
