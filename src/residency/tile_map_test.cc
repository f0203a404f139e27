#include "residency/tile_map.h"

#include <gmock/gmock.h>

#include "io/memory_file.h"

namespace thaw {
namespace {

std::shared_ptr<const File> FileOf(size_t bytes) {
  return std::make_shared<MemoryFile>("model.gguf", std::vector<std::byte>(bytes));
}

WeightMatrix MatrixOf(int64_t rows, int64_t cols, uint64_t offset,
                      std::shared_ptr<const File> file) {
  return {.name = "w",
          .type = ElementType::kF32,
          .rows = rows,
          .cols = cols,
          .file = std::move(file),
          .offset = offset};
}

TEST(TileMap, CoversEveryRowOnceInOrder) {
  const auto file = FileOf(size_t{6} << 20);
  for (const int64_t rows : {1, 15, 16, 17, 128, 129, 1000, 1280}) {
    const auto map = TileMap::Create({MatrixOf(rows, 1024, 64, file)});
    ASSERT_TRUE(map);
    const TileMap::Range range = map->tiles_of(0);
    int64_t next_row = 0;
    uint64_t next_offset = 64;
    for (int32_t i = range.first; i < range.first + range.count; ++i) {
      const Tile& tile = map->tile(i);
      EXPECT_EQ(tile.row_begin, next_row);
      EXPECT_EQ(tile.offset, next_offset);
      EXPECT_EQ(tile.bytes, static_cast<uint64_t>(tile.row_count) * 4096);
      const bool is_last = i + 1 == range.first + range.count;
      if (!is_last) {
        EXPECT_EQ(tile.row_count, range.rows_per_tile);
      }
      next_row += tile.row_count;
      next_offset += tile.bytes;
    }
    EXPECT_EQ(next_row, rows);
    EXPECT_EQ(map->weight_bytes(), static_cast<uint64_t>(rows) * 4096);
  }
}

TEST(TileMap, TilesAreAtMostHalfAMebibyteOrSixteenRows) {
  const auto file = FileOf(size_t{40} << 20);
  const auto small_rows = TileMap::Create({MatrixOf(5000, 100, 0, file)});
  EXPECT_LE(small_rows->tile(0).bytes, uint64_t{512} << 10);
  EXPECT_GT(small_rows->tile(0).bytes, uint64_t{256} << 10);
  EXPECT_EQ(small_rows->tile(0).row_count % 16, 0);
  const auto large_rows = TileMap::Create({MatrixOf(32, 1 << 18, 0, file)});
  EXPECT_EQ(large_rows->tile(0).row_count, 16);
}

TEST(TileMap, AMatrixThatIsOnlyLookedUpHasNoTiles) {
  WeightMatrix matrix = MatrixOf(100, 4, 0, FileOf(1600));
  matrix.use = MatrixUse::kLookedUp;
  const auto map = TileMap::Create({matrix});
  EXPECT_TRUE(map->tiles().empty());
  EXPECT_EQ(map->weight_bytes(), 0);
}

TEST(TileMap, NoTileHoldsRowsOfTwoExperts) {
  // Of each expert 200 rows of 4 KiB: two tiles, of 128, four pairs of groups, and of 72.
  WeightMatrix matrix = MatrixOf(600, 1024, 0, FileOf(600 * 4096));
  matrix.n_experts = 3;
  matrix.n_used = 1;
  const auto map = TileMap::Create({MatrixOf(16, 1024, 0, matrix.file), matrix});
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->has_experts());
  EXPECT_FALSE(map->is_chosen(0));
  EXPECT_EQ(map->tiles_of(1).count, 6);
  for (int32_t expert = 0; expert < 3; ++expert) {
    const TileMap::Range tiles = map->tiles_of(1, expert);
    EXPECT_EQ(tiles.first, 1 + 2 * expert);
    EXPECT_EQ(tiles.count, 2);
    EXPECT_EQ(map->tile(tiles.first).row_begin, 200 * expert);
    EXPECT_EQ(map->tile(tiles.first).row_count, 128);
    EXPECT_EQ(map->tile(tiles.first + 1).row_begin, 200 * expert + 128);
    EXPECT_EQ(map->tile(tiles.first + 1).row_count, 72);
    EXPECT_EQ(map->TileOfRow(1, 200 * expert + 127), tiles.first);
    EXPECT_EQ(map->TileOfRow(1, 200 * expert + 128), tiles.first + 1);
    EXPECT_TRUE(map->is_chosen(tiles.first));
  }
  // A matrix that all passes visit has no experts to ask for.
  EXPECT_EQ(map->tiles_of(0, 0).count, 1);
  EXPECT_DOUBLE_EQ(map->visited_bytes(), 4096 * (16 + 200));
}

// Two matrices of 80 rows, of heads: tiles of 32, 32 and 16 rows each.
WeightMatrix FrozenMatrix() {
  FrozenTensor frozen{.kind = FrozenKind::kEcq,
                      .dimensions = 3,
                      .cols = 64,
                      .rows = 80,
                      .matrices = 2,
                      .rows_per_stream = 16,
                      .streams_per_tile = 2,
                      .tiles = {}};
  for (uint64_t i = 0; i < 6; ++i) {
    frozen.tiles.push_back({.offset = 64 * i, .bytes = 64, .hash = i});
  }
  WeightMatrix matrix = MatrixOf(160, 64, 0, FileOf(6 * 64));
  matrix.type = ElementType::kQ8_0;
  matrix.first_row = 1000;
  matrix.frozen = std::make_shared<const FrozenTensor>(frozen);
  return matrix;
}

TEST(TileMap, FrozenTilesAreThoseOfTheFile) {
  const auto map = TileMap::Create({FrozenMatrix()});
  ASSERT_TRUE(map) << map.error().message;
  ASSERT_EQ(map->tile_count(), 6);
  int64_t row = 0;
  for (int32_t i = 0; i < 6; ++i) {
    const Tile& tile = map->tile(i);
    EXPECT_EQ(tile.row_begin, row);
    EXPECT_EQ(tile.row_count, i % 3 == 2 ? 16 : 32);
    EXPECT_EQ(tile.offset, static_cast<uint64_t>(64 * i));
    EXPECT_EQ(tile.hash, static_cast<uint64_t>(i));
    EXPECT_EQ(map->TileOfRow(0, row), i);
    row += tile.row_count;
    EXPECT_EQ(map->TileOfRow(0, row - 1), i);
  }
  EXPECT_EQ(row, 160);
  EXPECT_EQ(map->Describe(4), "tensor 'w', rows 1112 to 1143");
}

TEST(TileMap, HoldsFrozenTilesCodedOrThawed) {
  WeightMatrix matrix = FrozenMatrix();
  matrix.is_packed = true;
  const uint64_t thawed = static_cast<uint64_t>(32 * matrix.row_bytes());
  const auto expect = [](const Tile& tile, bool is_coded, uint64_t memory_bytes) {
    EXPECT_EQ(tile.is_coded, is_coded);
    EXPECT_EQ(tile.is_packed, !is_coded);
    EXPECT_EQ(tile.memory_bytes, memory_bytes);
    EXPECT_EQ(tile.span_bytes, memory_bytes);
  };
  for (const TileForm form : {TileForm::kCoded, TileForm::kThawed, TileForm::kEither}) {
    matrix.form = form;
    auto map = TileMap::Create({matrix});
    ASSERT_TRUE(map) << map.error().message;
    const bool thaws = form == TileForm::kThawed;
    expect(map->tile(3), !thaws, thaws ? thawed : 64);
    EXPECT_EQ(map->span_bytes(), thaws ? 5 * thawed : 6 * 64);
    EXPECT_EQ(map->most_span_bytes(), form == TileForm::kCoded ? 6 * 64 : 5 * thawed);
    EXPECT_EQ(map->most_tile_span_bytes(), form == TileForm::kCoded ? 64 : thawed);
  }
  auto map = TileMap::Create({matrix});
  ASSERT_TRUE(map);
  const TileMap coded = *map;
  map->SetThawed([](int32_t tile) { return tile == 1 || tile == 2; });
  expect(map->tile(0), true, 64);
  expect(map->tile(1), false, thawed);
  expect(map->tile(2), false, thawed / 2);
  EXPECT_EQ(map->span_bytes(), 4 * 64 + thawed / 2 * 3);
  EXPECT_EQ(map->largest_span_bytes(), thawed);
  TileMap other = coded;
  other.TakeForms(*map);
  expect(other.tile(1), false, thawed);
  EXPECT_EQ(other.span_bytes(), map->span_bytes());
  other.TakeForms(coded);
  expect(other.tile(1), true, 64);
  EXPECT_EQ(other.span_bytes(), 6 * 64);
}

// Points of grids: as in the file or looked up, packed either way.
TEST(TileMap, HoldsGridsInTheFormThatTheyAreGiven) {
  WeightMatrix matrix = MatrixOf(64, 512, 0, FileOf(1 << 20));
  matrix.type = ElementType::kIQ3_S;
  matrix.is_packed = true;
  const auto bytes = static_cast<uint64_t>(64 * RowBytes(ElementType::kIQ3_S, 512));
  const auto thawed = static_cast<uint64_t>(64 * RowBytes(ElementType::kThawedIQ3_S, 512));
  auto map = TileMap::Create({matrix});
  ASSERT_TRUE(map) << map.error().message;
  ASSERT_EQ(map->tile_count(), 1);
  EXPECT_FALSE(map->changes_form(0));
  EXPECT_EQ(map->most_span_bytes(), map->span_bytes());
  const uint64_t scratch = map->thaw_scratch_bytes();
  const auto expect = [&](const TileMap& of, bool is_thawed) {
    const Tile& tile = of.tile(0);
    EXPECT_EQ(tile.type, is_thawed ? ElementType::kThawedIQ3_S : ElementType::kIQ3_S);
    EXPECT_EQ(tile.is_thawed, is_thawed);
    EXPECT_TRUE(tile.is_packed);
    EXPECT_FALSE(tile.is_coded);
    EXPECT_EQ(tile.bytes, bytes);
    EXPECT_EQ(tile.memory_bytes, is_thawed ? thawed : bytes);
    EXPECT_EQ(of.span_bytes(), is_thawed ? thawed : bytes);
  };
  expect(*map, false);
  matrix.form = TileForm::kThawed;
  map = TileMap::Create({matrix});
  expect(*map, true);
  EXPECT_GE(map->thaw_scratch_bytes(), scratch + bytes);
  matrix.form = TileForm::kEither;
  map = TileMap::Create({matrix});
  expect(*map, false);
  EXPECT_EQ(map->most_span_bytes(), thawed);
  const TileMap coded = *map;
  map->SetThawed([](int32_t) { return true; });
  expect(*map, true);
  TileMap other = coded;
  other.TakeForms(*map);
  expect(other, true);
  other.TakeForms(coded);
  expect(other, false);
}

// Rows of an embedding are looked up as they are in the file.
TEST(TileMap, LeavesGridsAsTheyAreWhereRowsAreLookedUp) {
  WeightMatrix matrix = MatrixOf(64, 512, 0, FileOf(1 << 20));
  matrix.type = ElementType::kIQ3_S;
  matrix.form = TileForm::kThawed;
  matrix.use = MatrixUse::kBoth;
  const auto map = TileMap::Create({matrix});
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_FALSE(matrix.has_forms());
  EXPECT_EQ(map->tile(0).type, ElementType::kIQ3_S);
  EXPECT_FALSE(map->tile(0).is_thawed);
}

TEST(TileMap, LeavesFormsThatDoNotChange) {
  WeightMatrix matrix = FrozenMatrix();
  matrix.form = TileForm::kThawed;
  auto map = TileMap::Create({MatrixOf(16, 64, 0, FileOf(4096)), matrix});
  ASSERT_TRUE(map) << map.error().message;
  map->SetThawed([](int32_t) { return false; });
  EXPECT_FALSE(map->changes_form(0));
  EXPECT_FALSE(map->changes_form(1));
  EXPECT_FALSE(map->tile(1).is_coded);
}

TEST(TileMap, RefusesAMatrixBeyondTheEndOfItsFile) {
  const auto map = TileMap::Create({MatrixOf(10, 4, 8, FileOf(160))});
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().message,
            "model.gguf: tensor 'w' ends at byte 168, but the file has only 160 bytes");
}

TEST(TileMap, ExpertsMayHaveATensorEachInAnyFile) {
  const auto first = std::make_shared<MemoryFile>("a.gguf", std::vector<std::byte>(1 << 20));
  const auto second = std::make_shared<MemoryFile>("b.gguf", std::vector<std::byte>(1 << 20));
  WeightMatrix matrix = MatrixOf(3 * 40, 64, 0, first);
  matrix.n_experts = 3;
  matrix.n_used = 1;
  matrix.expert_tensors = {{"x.0", first, 64 << 10}, {"x.1", second, 32}, {"x.2", first, 0}};
  const auto map = TileMap::Create({matrix});
  ASSERT_TRUE(map) << map.error().message;
  ASSERT_EQ(map->tile_count(), 3);
  for (int32_t expert = 0; expert < 3; ++expert) {
    const Tile& tile = map->tile(expert);
    const ExpertTensor& own = matrix.expert_tensors[static_cast<size_t>(expert)];
    EXPECT_EQ(map->tiles_of(0, expert).first, expert);
    EXPECT_EQ(tile.row_begin, 40 * expert);
    EXPECT_EQ(tile.file, own.file.get());
    EXPECT_EQ(tile.offset, own.offset);
    EXPECT_EQ(map->first_row_in_tensor(expert), 0);
    EXPECT_EQ(map->Describe(expert), fmt::format("tensor 'x.{}', rows 0 to 39", expert));
  }
  matrix.expert_tensors[1].offset = (1 << 20) - 32;
  const auto beyond = TileMap::Create({matrix});
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, ::testing::StartsWith("b.gguf: tensor 'x.1' ends at byte"));
}

}  // namespace
}  // namespace thaw
