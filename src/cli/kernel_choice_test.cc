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

TEST(NeedsOf, SaysWhatIsRefusedToAMaker) {
  const KernelTable table = Table([](const CpuFeatures& cpu) { return cpu.avx2 && !cpu.is_intel; });
  CpuFeatures cpu;
  cpu.is_intel = true;
  EXPECT_THAT(NeedsOf(table, cpu).missing, ElementsAre("avx2"));
  EXPECT_FALSE(NeedsOf(table, cpu).is_refused);
  cpu.avx2 = true;
  const TableNeeds needs = NeedsOf(table, cpu);
  EXPECT_THAT(needs.missing, IsEmpty());
  EXPECT_TRUE(needs.is_refused);
  EXPECT_FALSE(needs.is_available());
  cpu.is_intel = false;
  EXPECT_TRUE(NeedsOf(table, cpu).is_available());
}

KernelTable Named(const char* name) {
  KernelTable table = *AllKernelTables().back();
  table.name = name;
  return table;
}

TEST(WhyChosen, NamesWhatBetterTablesLack) {
  const std::vector<TableNeeds> tables = {
      {.name = "c", .needed = {"x", "y", "z"}, .missing = {"y", "z"}},
      {.name = "b", .needed = {"x", "y"}, .missing = {"y"}},
      {.name = "a"}};
  const KernelTable a = Named("a");
  EXPECT_EQ(WhyChosen(tables, a),
            "c would be better but needs y, z, which this CPU lacks; "
            "b would be better but needs y, which this CPU lacks");
}

TEST(WhyChosen, SaysWhenThereIsNoneBetter) {
  const KernelTable a = Named("a");
  const KernelTable b = Named("b");
  EXPECT_EQ(WhyChosen({{.name = "b", .needed = {"x", "y"}}, {.name = "a"}}, b),
            "the best of this build; needs x, y");
  EXPECT_EQ(WhyChosen({{.name = "a"}}, a), "the best of this build");
}

TEST(WhyChosen, SaysWhatIsNotForTheCpu) {
  const KernelTable a = Named("a");
  EXPECT_EQ(WhyChosen({{.name = "b", .needed = {"x"}, .is_refused = true}, {.name = "a"}}, a),
            "b is not for CPUs of this maker");
}

TEST(WhyChosen, SaysWhatComputesSomethingWrong) {
  const KernelTable a = Named("a");
  EXPECT_EQ(WhyChosen({{.name = "b", .needed = {"x"}}, {.name = "a"}}, a),
            "b would be better but computes something wrong here");
}

}  // namespace
}  // namespace thaw::cli
