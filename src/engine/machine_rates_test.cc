#include "engine/machine_rates.h"

#include <gtest/gtest.h>

namespace thaw {
namespace {

TEST(MachineRates, AddUpTheProductsOfATokenByType) {
  MachineRates rates;
  rates.Set({ElementType::kQ4_0, 100, 1000});
  rates.Set({ElementType::kF16, 50, 200});
  const TypeBytes weights[] = {{ElementType::kQ4_0, 500}, {ElementType::kF16, 100}};
  EXPECT_DOUBLE_EQ(rates.DecodeSeconds(weights), 5 + 2);
  EXPECT_DOUBLE_EQ(rates.PrefillSeconds(weights), 0.5 + 0.5);
  EXPECT_EQ(rates.DecodeSeconds({}), 0);
}

TEST(MachineRates, HoldOneRateForATypeAndOneForADevice) {
  MachineRates rates;
  rates.Set({ElementType::kQ4_0, 1, 2});
  rates.Set({ElementType::kQ4_0, 3, 4});
  rates.Set({"254:0", 5});
  rates.Set({"254:1", 6});
  rates.Set({"254:0", 7});
  EXPECT_EQ(rates.matmul.size(), 1u);
  EXPECT_EQ(rates.FindMatMul(ElementType::kQ4_0)->decode_bytes_per_second, 3);
  EXPECT_EQ(rates.FindMatMul(ElementType::kQ4_1), nullptr);
  EXPECT_EQ(rates.disks.size(), 2u);
  EXPECT_EQ(rates.FindDisk("254:0")->bytes_per_second, 7);
  EXPECT_EQ(rates.FindDisk("254:2"), nullptr);
}

TEST(MachineIdentity, DiffersByKernelsAndThreads) {
  const KernelTable& first = *AllKernelTables().front();
  const KernelTable& last = *AllKernelTables().back();
  EXPECT_EQ(IdentifyMachine(first, 2), IdentifyMachine(first, 2));
  EXPECT_NE(IdentifyMachine(first, 2), IdentifyMachine(first, 1));
  EXPECT_NE(IdentifyMachine(first, 2), IdentifyMachine(last, 2));
  EXPECT_GE(IdentifyMachine(first, 2).cores, 1);
}

}  // namespace
}  // namespace thaw
