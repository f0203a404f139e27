// Points of grids in the cache, as they are and looked up: the same rows either way.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "io/memory_file.h"
#include "residency/cache_test_support.h"
#include "tensor/blocks.h"
#include "tensor/packed_rows.h"
#include "tensor/thawed_grids.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGridCols = 512;
constexpr int64_t kGridRows = 2 * 4720 + 24;  // of the last tile some are no whole group
constexpr uint16_t kHalfInfinity = 0x7c00;

constexpr ElementType kGrids[] = {ElementType::kIQ1_S,  ElementType::kIQ1_M, ElementType::kIQ2_XXS,
                                  ElementType::kIQ2_XS, ElementType::kIQ2_S, ElementType::kIQ3_XXS,
                                  ElementType::kIQ3_S};

// A matrix of random rows at an odd place of a file.
class GridModel {
 public:
  explicit GridModel(ElementType type) : type_(type) {
    std::mt19937 random(3);
    std::vector<std::byte> bytes(kOffset +
                                 static_cast<size_t>(kGridRows * RowBytes(type, kGridCols)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 120);
    bytes_ = bytes;
    file_ = std::make_shared<MemoryFile>("g.gguf", std::move(bytes));
  }

  // The same with an infinite scale in a row.
  GridModel(const GridModel& original, int64_t row)
      : type_(original.type_), bytes_(original.bytes_) {
    std::memcpy(bytes_.data() + kOffset + row * RowBytes(type_, kGridCols), &kHalfInfinity,
                sizeof(kHalfInfinity));
    file_ = std::make_shared<MemoryFile>("g.gguf", bytes_);
  }

  TileMap Map(TileForm form, bool is_packed) const {
    WeightMatrix matrix{.name = "w",
                        .type = type_,
                        .rows = kGridRows,
                        .cols = kGridCols,
                        .file = file_,
                        .offset = kOffset,
                        .form = form,
                        .is_packed = is_packed};
    return *TileMap::Create({std::move(matrix)});
  }

  // What a tile of such a map is in memory.
  std::vector<std::byte> Expected(const Tile& tile) const {
    std::vector<std::byte> rows(tile.memory_bytes);
    const std::byte* in_file = bytes_.data() + tile.offset;
    for (int64_t row = 0; row < tile.row_count; ++row) {
      std::byte* out = rows.data() + row * RowBytes(tile.type, kGridCols);
      const std::byte* from = in_file + row * RowBytes(type_, kGridCols);
      if (tile.is_thawed) {
        ThawGridRow(type_, kGridCols, from, out);
      } else {
        std::memcpy(out, from, static_cast<size_t>(RowBytes(type_, kGridCols)));
      }
    }
    if (tile.is_packed) {
      std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(tile.type, kGridCols)));
      PackRows(tile.type, kGridCols, tile.row_count, rows.data(), rows.data(), scratch.data());
    }
    return rows;
  }

  void ExpectTiles(WeightCache& cache) const {
    for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) {
      const auto pinned = cache.Pin(tile);
      ASSERT_TRUE(pinned) << pinned.error().message;
      const std::vector<std::byte> expected = Expected(cache.map().tile(tile));
      ASSERT_EQ(pinned->data().size(), expected.size());
      EXPECT_EQ(std::memcmp(pinned->data().data(), expected.data(), expected.size()), 0)
          << Info(type_).name << ", tile " << tile;
    }
  }

 private:
  static constexpr size_t kOffset = 96;

  ElementType type_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<const File> file_;
};

TEST(GridTiles, AreTheSameRowsInEveryForm) {
  for (const ElementType type : kGrids) {
    const GridModel model(type);
    for (const TileForm form : {TileForm::kCoded, TileForm::kThawed}) {
      for (const bool is_packed : {false, true}) {
        const auto cache = CacheOf(model.Map(form, is_packed));
        ASSERT_GT(cache->map().tile_count(), 1);
        ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
        model.ExpectTiles(*cache);
        EXPECT_TRUE(cache->Verify(kKeepGoing));
      }
    }
  }
}

TEST(GridTiles, ChangeTheirForm) {
  const GridModel model(ElementType::kIQ2_S);
  const auto cache =
      CacheOf(model.Map(TileForm::kEither, /*is_packed=*/true), {.prefetch_ahead = 0});
  model.ExpectTiles(*cache);
  TileMap forms = cache->map();
  const int32_t tiles = forms.tile_count();
  const auto change = [&](const auto& is_thawed, int64_t changed) {
    forms.SetThawed(is_thawed);
    ASSERT_TRUE(*cache->SetForms(forms, WeightCacheOptions::kUnlimited));
    const uint64_t before = cache->Statistics().misses;
    model.ExpectTiles(*cache);
    EXPECT_EQ(cache->Statistics().misses - before, changed) << "those in another form";
    EXPECT_TRUE(cache->Verify(kKeepGoing));
  };
  change([](int32_t) { return true; }, tiles);
  EXPECT_TRUE(cache->map().tile(0).is_thawed);
  change([](int32_t tile) { return tile != 0; }, 1);
  change([](int32_t) { return false; }, tiles - 1);
  EXPECT_FALSE(cache->map().tile(1).is_thawed);
}

TEST(GridTiles, ThatHoldNoNumberAreRefusedInEveryForm) {
  const GridModel model(GridModel(ElementType::kIQ3_XXS), /*row=*/3);
  for (const TileForm form : {TileForm::kCoded, TileForm::kThawed}) {
    const auto cache = CacheOf(model.Map(form, /*is_packed=*/true), {.prefetch_ahead = 0});
    const auto refused = cache->Pin(0);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("row 3 at offset"));
    EXPECT_THAT(refused.error().message, HasSubstr("infinite or NaN"));
  }
}

}  // namespace
}  // namespace thaw
