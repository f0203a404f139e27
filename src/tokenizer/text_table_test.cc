#include "tokenizer/text_table.h"

#include <gmock/gmock.h>

namespace thaw {
namespace {

TEST(TextTableTest, TextsAreFoundByTheirNumbersAndBack) {
  TextTable table;
  for (int i = 0; i < 10'000; ++i) table.Append("text " + std::to_string(i));
  ASSERT_EQ(table.size(), 10'000);
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = "text " + std::to_string(i);
    EXPECT_EQ(table.At(i), text);
    EXPECT_EQ(table.Find(text), i);
  }
  EXPECT_EQ(table.Find("text 10000"), std::nullopt);
}

TEST(TextTableTest, OfEqualTextsTheFirstIsFound) {
  TextTable table;
  table.Append("a");
  table.Append("a");
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.At(1), "a");
  EXPECT_EQ(table.Find("a"), 0);
}

TEST(TextTableTest, AnEmptyTextHasANumberAndIsNeverFound) {
  TextTable table;
  EXPECT_EQ(table.Find(""), std::nullopt);
  table.Append("");
  table.Append("b");
  EXPECT_EQ(table.At(0), "");
  EXPECT_EQ(table.Find(""), std::nullopt);
  EXPECT_EQ(table.Find("b"), 1);
}

TEST(TextTableTest, InternAddsWhatIsNotThere) {
  TextTable table;
  table.Reserve(1, 1);
  EXPECT_EQ(table.Intern("a"), 0);
  EXPECT_EQ(table.Intern("b"), 1);
  EXPECT_EQ(table.Intern("a"), 0);
  EXPECT_EQ(table.size(), 2);
}

}  // namespace
}  // namespace thaw
