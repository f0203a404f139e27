// What is thawed, by rates and by what fits.
#include "engine/tiers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace thaw {
namespace {

// A matrix of each of these types, frozen but for the first.
std::vector<WeightMatrix> Matrices(std::initializer_list<ElementType> types) {
  std::vector<WeightMatrix> matrices;
  for (const ElementType type : types) {
    matrices.emplace_back();
    matrices.back().type = type;
    if (matrices.size() > 1) matrices.back().frozen = std::make_shared<const FrozenTensor>();
  }
  return matrices;
}

MachineRates Rates(double coded_q8, double coded_bf16) {
  MachineRates rates;
  rates.Set({.type = ElementType::kQ8_0, .decode_bytes_per_second = 10});
  rates.Set({.type = ElementType::kBF16, .decode_bytes_per_second = 10});
  rates.Set({.type = WeightForm(ElementType::kQ8_0, true), .decode_bytes_per_second = coded_q8});
  rates.Set({.type = WeightForm(ElementType::kBF16, true), .decode_bytes_per_second = coded_bf16});
  return rates;
}

int64_t CountThawed(const std::vector<WeightMatrix>& matrices) {
  return std::ranges::count_if(matrices, &WeightMatrix::is_thawed);
}

constexpr auto kQ8 = ElementType::kQ8_0;
constexpr auto kB16 = ElementType::kBF16;

TEST(Tiers, ThawsAsManyAsFit) {
  for (const int64_t room : {0, 1, 2, 3, 4, 9}) {
    auto matrices = Matrices({kQ8, kQ8, kQ8, kQ8, kQ8});
    EXPECT_TRUE(MarkFasterThawed(Rates(5, 5), matrices));
    ASSERT_TRUE(ThawWhatFits(
        matrices, [&](const auto& some) -> Result<bool> { return CountThawed(some) <= room; }));
    EXPECT_EQ(CountThawed(matrices), std::min<int64_t>(room, 4));
    EXPECT_FALSE(matrices[0].is_thawed);
  }
}

TEST(Tiers, LeavesCodedWhatIsNoFasterThawed) {
  auto matrices = Matrices({kQ8, kQ8, kB16, kQ8, kB16});
  EXPECT_TRUE(MarkFasterThawed(Rates(5, 9.9), matrices));
  ASSERT_TRUE(ThawWhatFits(matrices, [](const auto&) -> Result<bool> { return true; }));
  EXPECT_TRUE(matrices[1].is_thawed);
  EXPECT_FALSE(matrices[2].is_thawed);
  EXPECT_TRUE(matrices[3].is_thawed);
  EXPECT_FALSE(MarkFasterThawed(Rates(9.9, 9.9), matrices));
}

TEST(Tiers, HoldsCodedAgainWhatNoLongerFits) {
  auto matrices = Matrices({kQ8, kQ8, kQ8, kQ8});
  EXPECT_TRUE(MarkFasterThawed(Rates(5, 5), matrices));
  for (const int64_t room : {3, 1, 0, 2}) {
    ASSERT_TRUE(ThawWhatFits(
        matrices, [&](const auto& some) -> Result<bool> { return CountThawed(some) <= room; }));
    EXPECT_EQ(CountThawed(matrices), room);
    EXPECT_EQ(matrices[1].is_thawed, room > 0) << "the first to be visited comes first";
  }
}

TEST(Tiers, AsksForTheRatesOfTheKindsThatAreThere) {
  EXPECT_TRUE(FormsOfFrozen(Matrices({kQ8})).empty());
  const std::vector<WeightForm> forms = FormsOfFrozen(Matrices({kB16, kQ8, kQ8}));
  EXPECT_EQ(forms, (std::vector<WeightForm>{WeightForm(kQ8), WeightForm(kQ8, true)}));
}

}  // namespace
}  // namespace thaw
