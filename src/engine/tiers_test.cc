// What is thawed, by rates and by what fits.
#include "engine/tiers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "io/memory_file.h"

namespace thaw {
namespace {

constexpr int64_t kTilesOfMatrix = 3;

// A matrix of each of these types, of three tiles, frozen but for the first.
std::vector<WeightMatrix> Matrices(std::initializer_list<ElementType> types) {
  const auto file = std::make_shared<MemoryFile>("m.gguf", std::vector<std::byte>(1 << 20));
  FrozenTensor frozen{
      .kind = FrozenKind::kEcq,
      .cols = 64,
      .rows = 16 * kTilesOfMatrix,
      .rows_per_stream = 16,
      .streams_per_tile = 1,
      .tiles = std::vector<FrozenTileEntry>(kTilesOfMatrix, {.offset = 0, .bytes = 64, .hash = 0})};
  const auto shared = std::make_shared<const FrozenTensor>(std::move(frozen));
  std::vector<WeightMatrix> matrices;
  for (const ElementType type : types) {
    matrices.push_back({.name = "w",
                        .type = type,
                        .rows = 16 * kTilesOfMatrix,
                        .cols = 64,
                        .file = file,
                        .frozen = matrices.empty() ? nullptr : shared});
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

// The tiles that change their form and are thawed.
std::vector<int32_t> Thawed(const TileMap& map) {
  std::vector<int32_t> thawed;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    if (map.changes_form(tile) && !map.tile(tile).is_coded) thawed.push_back(tile);
  }
  return thawed;
}

constexpr auto kQ8 = ElementType::kQ8_0;
constexpr auto kB16 = ElementType::kBF16;

// The tiles of five matrices, of which the first is one tile, thawed as far as there is room.
TEST(Tiers, ThawsAsManyTilesAsFitInTheOrderOfTheirVisits) {
  auto matrices = Matrices({kQ8, kQ8, kQ8, kQ8, kQ8});
  EXPECT_TRUE(MarkFasterThawed(Rates(5, 5), matrices));
  TileMap map = *TileMap::Create(matrices);
  ASSERT_EQ(map.tile_count(), 13);
  // Up and down again.
  for (const size_t room : {12U, 0U, 1U, 2U, 3U, 4U, 11U, 99U, 7U, 0U}) {
    int asked = 0;
    ThawWhatFits(map, [&] {
      ++asked;
      return Thawed(map).size() <= room;
    });
    std::vector<int32_t> expected(std::min<size_t>(room, 12));
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(Thawed(map), expected);
    EXPECT_LE(asked, 5);
  }
}

TEST(Tiers, LeavesCodedWhatIsNoFasterThawed) {
  auto matrices = Matrices({kQ8, kQ8, kB16, kQ8, kB16});
  EXPECT_TRUE(MarkFasterThawed(Rates(5, 9.9), matrices));
  TileMap map = *TileMap::Create(matrices);
  ThawWhatFits(map, [&] { return Thawed(map).size() <= 4; });
  EXPECT_EQ(Thawed(map), (std::vector<int32_t>{1, 2, 3, 7})) << "all of one, and one of another";
  ThawWhatFits(map, [] { return true; });
  EXPECT_EQ(Thawed(map), (std::vector<int32_t>{1, 2, 3, 7, 8, 9}));
  EXPECT_FALSE(MarkFasterThawed(Rates(9.9, 9.9), matrices));
  map = *TileMap::Create(matrices);
  ThawWhatFits(map, [] { return true; });
  EXPECT_TRUE(Thawed(map).empty());
}

// Points of grids: what counts are rows a second, of which thawed ones take more bytes.
TEST(Tiers, ThawsGridsThatAreMultipliedFasterSo) {
  auto matrices = Matrices({ElementType::kIQ2_XXS});
  matrices[0].cols = 256;
  const ElementType thawed_type = ElementType::kThawedIQ2_XXS;
  const auto more = static_cast<double>(RowBytes(thawed_type, 256)) /
                    static_cast<double>(RowBytes(ElementType::kIQ2_XXS, 256));
  for (const double times : {0.9, 1.04, 1.06, 3.0}) {
    MachineRates rates;
    rates.Set({.type = ElementType::kIQ2_XXS, .decode_bytes_per_second = 10});
    rates.Set({.type = thawed_type, .decode_bytes_per_second = 10 * more * times});
    EXPECT_EQ(MarkFasterThawed(rates, matrices), times > 1.05) << times;
    EXPECT_EQ(matrices[0].form, times > 1.05 ? TileForm::kEither : TileForm::kCoded);
  }
  EXPECT_EQ(FormsToChooseFrom(matrices),
            (std::vector<WeightForm>{thawed_type, ElementType::kIQ2_XXS}));
}

TEST(Tiers, AsksForTheRatesOfTheKindsThatAreThere) {
  EXPECT_TRUE(FormsToChooseFrom(Matrices({kQ8})).empty());
  const std::vector<WeightForm> forms = FormsToChooseFrom(Matrices({kB16, kQ8, kQ8}));
  EXPECT_EQ(forms, (std::vector<WeightForm>{WeightForm(kQ8), WeightForm(kQ8, true)}));
}

}  // namespace
}  // namespace thaw
