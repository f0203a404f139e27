#include "gguf/gguf_types.h"

#include <gmock/gmock.h>

#include <limits>

namespace thaw {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(TensorBytes, CountsWholeBlocks) {
  EXPECT_EQ(*TensorBytes(ElementType::kF32, {3, 5, 1, 1}), 60u);
  EXPECT_EQ(*TensorBytes(ElementType::kQ4_0, {64, 3, 1, 1}), 108u);
  EXPECT_EQ(*TensorBytes(ElementType::kQ6_K, {256, 2, 2, 2}), 8 * 210u);
}

TEST(TensorBytes, AreNoneWhenADimensionIsZero) {
  EXPECT_EQ(*TensorBytes(ElementType::kF32, {0, 1, 1, 1}), 0u);
  EXPECT_EQ(*TensorBytes(ElementType::kQ4_0, {32, 0, 7, 1}), 0u);
}

TEST(TensorBytes, ReachTheLargestCountThatFits) {
  EXPECT_EQ(*TensorBytes(ElementType::kI8, {kMax, 1, 1, 1}), static_cast<uint64_t>(kMax));
  EXPECT_FALSE(TensorBytes(ElementType::kI16, {kMax, 1, 1, 1}));
}

TEST(TensorBytes, RefuseDimensionsWhoseProductOverflowsEvenBesideAZero) {
  EXPECT_FALSE(TensorBytes(ElementType::kI8, {kMax, 2, 1, 1}));
  EXPECT_FALSE(TensorBytes(ElementType::kI8, {1 << 20, 1 << 20, 1 << 20, 1 << 20}));
  EXPECT_FALSE(TensorBytes(ElementType::kI8, {kMax, 0, kMax, 1}));
  EXPECT_EQ(TensorBytes(ElementType::kI8, {-1, 1, 1, 1}).error().message, "a dimension is -1");
}

TEST(Quote, EscapesWhatWouldSpoilALine) {
  EXPECT_EQ(Quote("blk.0.attn_q.weight"), "\"blk.0.attn_q.weight\"");
  EXPECT_EQ(Quote("a\nb\x1b[31m"), "\"a\\x0ab\\x1b[31m\"");
  EXPECT_EQ(Quote("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Quote, CutsLongNames) {
  const std::string quoted = Quote(std::string(1000, 'x'));
  EXPECT_EQ(quoted, "\"" + std::string(160, 'x') + "\"...");
}

TEST(GgufTypeName, NamesEveryType) {
  EXPECT_EQ(GgufTypeName(GgufType::kUint8), "uint8");
  EXPECT_EQ(GgufTypeName(GgufType::kFloat64), "float64");
  EXPECT_EQ(GgufTypeBytes(GgufType::kFloat64), 8u);
  EXPECT_EQ(GgufTypeBytes(GgufType::kBool), 1u);
  EXPECT_EQ(GgufTypeBytes(GgufType::kString), 0u);
}

}  // namespace
}  // namespace thaw
