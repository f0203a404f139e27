#include "tensor/element_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace thaw {
namespace {

TEST(ElementTypeTest, EveryTypeIsFoundByItsNameAndThoseOfFilesByTheirNumber) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const ElementTypeInfo* of_files = FindElementType(static_cast<uint32_t>(info.type));
    EXPECT_EQ(of_files, IsInFiles(info.type) ? &info : nullptr) << info.name;
    EXPECT_EQ(FindElementType(std::string_view(info.name)), &info);
    EXPECT_EQ(&Info(info.type), &info) << info.name;
  }
}

TEST(ElementTypeTest, WithdrawnAndUnknownNumbersAreNotFound) {
  for (const uint32_t id : {4u, 5u, 9u, 15u, 31u, 38u, 43u, 0xffffffffu}) {
    EXPECT_EQ(FindElementType(id), nullptr) << id;
  }
}

TEST(ElementTypeTest, NamesAreMatchedExactly) {
  EXPECT_NE(FindElementType("Q4_K"), nullptr);
  for (const std::string_view name : {"", "q4_k", "Q4_K_M", "Q4_", "F31"}) {
    EXPECT_EQ(FindElementType(name), nullptr) << name;
  }
}

TEST(ElementTypeTest, PlainTypesAreBlocksOfOneElement) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    EXPECT_EQ(info.block_elements == 1, !info.is_quantized) << info.name;
    EXPECT_GT(info.block_bytes, 0) << info.name;
  }
}

TEST(ElementTypeTest, RowBytesCountsWholeBlocks) {
  EXPECT_EQ(RowBytes(ElementType::kF32, 0), 0);
  EXPECT_EQ(RowBytes(ElementType::kF32, 3), 12);
  EXPECT_EQ(RowBytes(ElementType::kQ4_0, 64), 36);
  EXPECT_EQ(RowBytes(ElementType::kQ6_K, 512), 420);
  EXPECT_EQ(RowBytes(ElementType::kI8, INT64_MAX), INT64_MAX);
}

TEST(ElementTypeDeathTest, RowBytesRefusesPartBlocksAndOverflow) {
  EXPECT_DEATH(RowBytes(ElementType::kQ4_0, 33), "block_elements");
  EXPECT_DEATH(RowBytes(ElementType::kF32, -1), "elements");
  EXPECT_DEATH(RowBytes(ElementType::kF64, INT64_MAX), "block_bytes");
}

TEST(ElementTypeDeathTest, InfoRefusesNumbersThatAreNoType) {
  EXPECT_DEATH(Info(static_cast<ElementType>(4)), "info != nullptr");
}

}  // namespace
}  // namespace thaw
