#include "cli/kernel_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

KernelTable Table(bool (*is_available)(const CpuFeatures&)) {
  KernelTable table = *AllKernelTables().back();
  table.name = "some";
  table.is_available = is_available;
  return table;
}

TEST(NeedsOf, AreTheFeaturesWithoutWhichATableIsNotAvailable) {
  const KernelTable table = Table([](const CpuFeatures& cpu) { return cpu.avx2 && cpu.f16c; });
  CpuFeatures cpu;
  cpu.avx2 = true;
  const TableNeeds needs = NeedsOf(table, cpu);
  EXPECT_THAT(needs.needed, ElementsAre("avx2", "f16c"));
  EXPECT_THAT(needs.missing, ElementsAre("f16c"));
  EXPECT_FALSE(needs.is_available());
  cpu.f16c = true;
  EXPECT_TRUE(NeedsOf(table, cpu).is_available());
}

TEST(NeedsOf, AgreeWithWhatIsChosen) {
  for (const CpuFeatures& cpu : {CpuFeatures{}, HostCpu()}) {
    for (const KernelTable* table : AllKernelTables()) {
      EXPECT_EQ(NeedsOf(*table, cpu).is_available(), table->is_available(cpu)) << table->name;
    }
  }
  EXPECT_THAT(NeedsOfAllTables(HostCpu()).back().needed, IsEmpty()) << "portable";
}

TEST(WhyChosen, NamesWhatBetterTablesLack) {
  const std::vector<TableNeeds> tables = {
      {.name = "c", .needed = {"x", "y", "z"}, .missing = {"y", "z"}},
      {.name = "b", .needed = {"x", "y"}, .missing = {"y"}},
      {.name = "a"}};
  EXPECT_EQ(WhyChosen(tables, "a"),
            "c would be better but needs y, z, which this CPU lacks; "
            "b would be better but needs y, which this CPU lacks");
}

TEST(WhyChosen, SaysWhenThereIsNoneBetter) {
  EXPECT_EQ(WhyChosen({{.name = "b", .needed = {"x", "y"}}, {.name = "a"}}, "b"),
            "the best of this build; needs x, y");
  EXPECT_EQ(WhyChosen({{.name = "a"}}, "a"), "the best of this build");
}

}  // namespace
}  // namespace thaw::cli
