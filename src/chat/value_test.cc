#include "chat/value.h"

#include <gtest/gtest.h>

#include <limits>

#include "chat/heap.h"

namespace thaw::jinja {
namespace {

Value Text(std::string_view text) { return Value(std::string(text)); }
Value Int(int64_t number) { return Value(number); }

TEST(String, FindsCharactersOfAnyLength) {
  const String text("a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80z");
  EXPECT_EQ(text.length(), 5u);
  EXPECT_FALSE(text.is_ascii());
  EXPECT_EQ(text.ByteOffset(0), 0u);
  EXPECT_EQ(text.ByteOffset(2), 3u);
  EXPECT_EQ(text.ByteOffset(4), 10u);
  EXPECT_EQ(text.ByteOffset(5), 11u);
}

TEST(Dict, KeepsThePlaceOfTheFirstAndTheValueOfTheLastOfEqualKeys) {
  const Dict dict({{Text("b"), Int(1)}, {Text("a"), Int(2)}, {Text("b"), Int(3)}});
  ASSERT_EQ(dict.entries().size(), 2u);
  EXPECT_EQ(dict.entries()[0].first.text(), "b");
  EXPECT_EQ(dict.entries()[0].second.integer(), 3);
  EXPECT_EQ(dict.Find("a")->integer(), 2);
  EXPECT_EQ(dict.Find("c"), nullptr);
}

TEST(Dict, TakesEqualNumbersOfAllTypesAsOneKey) {
  const Dict dict(
      {{Int(1), Text("int")}, {Value(1.0), Text("float")}, {Value(true), Text("bool")}});
  ASSERT_EQ(dict.entries().size(), 1u);
  EXPECT_EQ(dict.Find(Value(1.0))->text(), "bool");
  EXPECT_EQ(dict.Find(Text("1")), nullptr);
}

TEST(Dict, TellsLargeIntegersApart) {
  const int64_t large = std::numeric_limits<int64_t>::max();
  const Dict dict({{Int(large), Text("max")}, {Int(large - 1), Text("below")}});
  EXPECT_EQ(dict.Find(Int(large))->text(), "max");
  EXPECT_EQ(dict.Find(Int(large - 1))->text(), "below");
}

TEST(Heap, RefusesKeysThatAreNotHashable) {
  Heap heap{RenderLimits{}};
  const auto list = heap.MakeList({});
  ASSERT_TRUE(list);
  const auto dict = heap.MakeDict({{*list, Int(1)}});
  ASSERT_FALSE(dict);
  EXPECT_EQ(dict.error().message, "unhashable type: 'list'");
}

TEST(Heap, CountsAllThatWasMade) {
  Heap heap{RenderLimits{.value_bytes = 1 << 20, .total_bytes = 3 << 20}};
  int made = 0;
  while (heap.MakeString(std::string((1 << 20) - 100, 'x'))) ++made;
  EXPECT_EQ(made, 3);
}

TEST(Heap, BoundsTheDepthOfValues) {
  Heap heap{RenderLimits{}};
  Value value = Int(1);
  for (int i = 0; i < kMaxValueDepth; ++i) {
    auto list = heap.MakeList({value});
    ASSERT_TRUE(list);
    value = *list;
  }
  EXPECT_EQ(value.depth(), kMaxValueDepth);
  EXPECT_FALSE(heap.MakeList({value}));
}

}  // namespace
}  // namespace thaw::jinja
