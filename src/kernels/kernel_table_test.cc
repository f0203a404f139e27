#include "kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw {
namespace {

TEST(KernelTables, EndWithThePortableOneThatEveryCpuRuns) {
  ASSERT_FALSE(AllKernelTables().empty());
  const KernelTable* last = AllKernelTables().back();
  EXPECT_STREQ(last->name, "portable");
  EXPECT_TRUE(last->is_available(CpuFeatures{}));
}

TEST(KernelTables, AreSelectableByTheirNames) {
  for (const KernelTable* table : AllKernelTables()) {
    const auto selected = SelectKernels(table->name);
    if (table->is_available(HostCpu())) {
      ASSERT_TRUE(selected);
      EXPECT_EQ(*selected, table);
    } else {
      EXPECT_FALSE(selected);
    }
  }
}

TEST(KernelTables, TheFirstAvailableOneIsTheDefault) {
  const auto selected = SelectKernels("");
  ASSERT_TRUE(selected);
  for (const KernelTable* table : AllKernelTables()) {
    if (!table->is_available(HostCpu())) continue;
    EXPECT_EQ(*selected, table);
    break;
  }
}

TEST(KernelTables, AnUnknownNameIsAnErrorThatListsTheNames) {
  const auto selected = SelectKernels("sse");
  ASSERT_FALSE(selected);
  EXPECT_EQ(selected.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(selected.error().message, ::testing::HasSubstr("\"sse\""));
  EXPECT_THAT(selected.error().message, ::testing::HasSubstr("portable"));
}

TEST(KernelTables, NoVectorTableIsAvailableWithoutItsInstructions) {
  for (const KernelTable* table : AllKernelTables()) {
    EXPECT_EQ(table->is_available(CpuFeatures{}), std::string_view(table->name) == "portable");
  }
}

}  // namespace
}  // namespace thaw
