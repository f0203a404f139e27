#include "tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace thaw {
namespace {

using ::testing::HasSubstr;

Result<Shape> Make(const std::vector<uint64_t>& extents) { return Shape::Make(extents); }

TEST(ShapeTest, DimensionZeroIsTheContiguousOne) {
  const Result<Shape> shape = Make({576, 49152});
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->dimensions(), 2);
  EXPECT_EQ((*shape)[0], 576);
  EXPECT_EQ((*shape)[1], 49152);
  EXPECT_EQ(shape->rows(), 49152);
  EXPECT_EQ(shape->elements(), 576 * 49152);
}

TEST(ShapeTest, DimensionsThatATensorLacksHaveExtentOne) {
  const Result<Shape> shape = Make({7});
  ASSERT_TRUE(shape);
  EXPECT_EQ((*shape)[3], 1);
  EXPECT_EQ(shape->rows(), 1);
}

TEST(ShapeTest, PrintsItsOwnDimensionsOnly) {
  EXPECT_EQ(Make({576, 49152})->ToString(), "[576, 49152]");
  EXPECT_EQ(Make({5})->ToString(), "[5]");
  EXPECT_EQ(Make({1, 2, 1, 1})->ToString(), "[1, 2, 1, 1]");
}

TEST(ShapeTest, EqualWhenExtentsAndDimensionsAre) {
  EXPECT_EQ(*Make({2, 3}), *Make({2, 3}));
  EXPECT_NE(*Make({2, 3}), *Make({3, 2}));
  EXPECT_NE(*Make({2}), *Make({2, 1}));
}

TEST(ShapeTest, RefusesNoneAndMoreThanFourDimensions) {
  EXPECT_THAT(Make({}).error().message, HasSubstr("0 dimensions"));
  EXPECT_THAT(Make({1, 1, 1, 1, 1}).error().message, HasSubstr("5 dimensions"));
}

TEST(ShapeTest, RefusesEmptyDimensions) {
  EXPECT_THAT(Make({4, 0}).error().message, HasSubstr("dimension 1 is 0"));
}

TEST(ShapeTest, RefusesMoreElementsThanCanBeCounted) {
  const uint64_t half = uint64_t{1} << 62;
  EXPECT_TRUE(Make({half}));
  EXPECT_TRUE(Make({INT64_MAX}));
  EXPECT_TRUE(Make({INT64_MAX, 1, 1}));
  EXPECT_THAT(Make({half, 2}).error().message, HasSubstr("[4611686018427387904, 2]"));
  EXPECT_FALSE(Make({uint64_t{1} << 63}));
  EXPECT_FALSE(Make({uint64_t{1} << 32, uint64_t{1} << 32}));
  EXPECT_FALSE(Make({UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}));
}

}  // namespace
}  // namespace thaw
