#include "residency/tile_map.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "codec/tile_decoder.h"
#include "io/read_queue.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Direct reads reach the disk's rate from 512 KiB a request on; 256 KiB to 2 MiB measured alike for
// streaming, and smaller tiles split a budget more finely.
constexpr int64_t kTileBytes = int64_t{512} << 10;

// A tile border must not cut through a group of packed rows, and better not part two groups that
// products unpack together: an odd one takes half as long again.
constexpr int64_t kRowGroup = kPackedGroupRows;
constexpr int64_t kRowGroupPair = 2 * kRowGroup;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As many tiles of a matrix that the file does not cut, or of each of its experts, as kTileBytes
// asks for, of sizes as even as groups of rows allow: slots that hold any tile are then nearly
// filled by each.
int64_t RowsPerTile(const WeightMatrix& matrix) {
  if (matrix.is_frozen()) return matrix.frozen->rows_per_tile();
  const int64_t room = kTileBytes / std::max<int64_t>(1, matrix.row_bytes());
  const int64_t unit = room < kRowGroupPair ? kRowGroup : kRowGroupPair;
  const int64_t most = std::max(kRowGroup, room / unit * unit);
  const int64_t rows = matrix.rows_of_expert();
  const int64_t tiles = DivideUp(std::max<int64_t>(1, rows), most);
  return DivideUp(DivideUp(rows, tiles), unit) * unit;
}

Result<void> CheckEnd(const std::string& name, const File& file, uint64_t offset, uint64_t bytes) {
  if (offset + bytes <= file.size()) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor '{}' ends at byte {}, but the file has only {} bytes", file.path(), name,
              offset + bytes, file.size());
}

// As it lies in its files, whole or expert by expert.
Result<void> CheckEnds(const WeightMatrix& matrix) {
  if (matrix.is_frozen()) {
    const FrozenTileEntry& last = matrix.frozen->tiles.back();
    return CheckEnd(matrix.name, *matrix.file, last.offset, last.bytes);
  }
  const auto row_bytes = static_cast<uint64_t>(matrix.row_bytes());
  const uint64_t bytes = row_bytes * static_cast<uint64_t>(matrix.rows);
  if (matrix.expert_tensors.empty()) {
    return CheckEnd(matrix.name, *matrix.file, matrix.offset, bytes);
  }
  for (const ExpertTensor& tensor : matrix.expert_tensors) {
    THAW_TRY(CheckEnd(tensor.name, *tensor.file, tensor.offset,
                      row_bytes * static_cast<uint64_t>(matrix.rows_of_expert())));
  }
  return {};
}

// Scratch of one thread for thawing the matrix's tiles: a group of rows, and a tile as in the file
// where it makes room for its rows.
int64_t ThawScratchBytes(const WeightMatrix& matrix) {
  int64_t tile_bytes = 0;
  if (matrix.is_frozen()) {
    for (const FrozenTileEntry& tile : matrix.frozen->tiles) {
      tile_bytes = std::max(tile_bytes, static_cast<int64_t>(tile.bytes));
    }
    return ThawedGroupBytes(matrix.frozen->kind, matrix.cols) +
           (matrix.may_be_thawed() ? tile_bytes : 0);
  }
  if (!matrix.may_be_thawed()) {
    return matrix.is_packed ? PackScratchBytes(matrix.type, matrix.cols) : 0;
  }
  tile_bytes = std::min(RowsPerTile(matrix), matrix.rows_of_expert()) * matrix.row_bytes();
  return PackScratchBytes(matrix.thawed_type(), matrix.cols) + tile_bytes;
}

// Where tile `tile` of the matrix, which begins with row `row`, lies in its file.
void PlaceTile(const WeightMatrix& matrix, size_t tile, int64_t row, Tile& placed) {
  placed.file = matrix.file.get();
  if (matrix.is_frozen()) {
    const FrozenTileEntry& entry = matrix.frozen->tiles[tile];
    placed.offset = entry.offset;
    placed.bytes = entry.bytes;
    placed.hash = entry.hash;
    return;
  }
  const auto row_bytes = static_cast<uint64_t>(matrix.row_bytes());
  const int64_t of_expert = matrix.rows_of_expert();
  placed.bytes = static_cast<uint64_t>(placed.row_count) * row_bytes;
  if (const ExpertTensor* own = matrix.TensorOfExpert(row / of_expert)) {
    placed.file = own->file.get();
    placed.offset = own->offset + static_cast<uint64_t>(row % of_expert) * row_bytes;
  } else {
    placed.offset = matrix.offset + static_cast<uint64_t>(row) * row_bytes;
  }
}

}  // namespace

std::string_view WeightGroupName(WeightGroup group) {
  switch (group) {
    case WeightGroup::kAttention:
      return "attn";
    case WeightGroup::kFeedForward:
      return "ffn";
    case WeightGroup::kExperts:
      return "experts";
    case WeightGroup::kOutput:
      return "output";
  }
  return "";
}

Result<TileMap> TileMap::Create(std::vector<WeightMatrix> matrices) {
  TileMap map;
  map.matrices_ = std::move(matrices);
  for (size_t i = 0; i < map.matrices_.size(); ++i) {
    const WeightMatrix& matrix = map.matrices_[i];
    THAW_TRY(CheckEnds(matrix));
    map.thaw_scratch_bytes_ =
        std::max(map.thaw_scratch_bytes_, static_cast<uint64_t>(ThawScratchBytes(matrix)));
    map.alignment_ = std::max(map.alignment_, ReadAlignment(*matrix.file));
    Range range;
    range.first = map.tile_count();
    range.rows_per_tile = RowsPerTile(matrix);
    map.has_experts_ |= matrix.is_chosen();
    const int64_t tiled_rows = matrix.is_multiplied() ? matrix.rows : 0;
    for (int64_t row = 0; row < tiled_rows; row += map.tiles_.back().row_count) {
      Tile tile;
      tile.matrix = static_cast<int32_t>(i);
      tile.row_begin = row;
      const int64_t together = matrix.rows_cut_as_one();
      tile.row_count = std::min(range.rows_per_tile, together - row % together);
      PlaceTile(matrix, static_cast<size_t>(range.count), row, tile);
      const uint64_t alignment = ReadAlignment(*tile.file);
      map.alignment_ = std::max(map.alignment_, alignment);
      tile.lead_bytes = tile.offset % alignment;
      map.weight_bytes_ += tile.bytes;
      map.tiles_.push_back(tile);
      ++range.count;
    }
    map.ranges_.push_back(range);
  }
  for (int32_t i = 0; i < map.tile_count(); ++i) {
    const bool same_layer = i > 0 && map.matrix_of(i).layer == map.matrix_of(i - 1).layer;
    map.layer_starts_.push_back(same_layer ? map.layer_starts_.back() : i);
    map.visited_bytes_ += map.visited_bytes(i);
  }
  for (Tile& tile : map.tiles_) {
    const WeightMatrix& matrix = map.matrix(tile.matrix);
    map.Hold(tile, /*is_thawed=*/matrix.may_be_thawed());
    map.most_span_bytes_ += tile.span_bytes;
    map.most_tile_span_bytes_ = std::max(map.most_tile_span_bytes_, tile.span_bytes);
    if (matrix.changes_form()) map.Hold(tile, /*is_thawed=*/false);
  }
  map.SumForms();
  return map;
}

void TileMap::Hold(Tile& tile, bool is_thawed) {
  const WeightMatrix& matrix = matrices_[static_cast<size_t>(tile.matrix)];
  tile.type = is_thawed ? matrix.thawed_type() : matrix.type;
  tile.is_thawed = is_thawed;
  tile.is_coded = matrix.is_frozen() && !is_thawed;
  tile.is_packed = matrix.is_packed && !tile.is_coded;
  tile.memory_bytes =
      tile.is_coded ? tile.bytes
                    : static_cast<uint64_t>(tile.row_count * RowBytes(tile.type, matrix.cols));
  const uint64_t span =
      std::max(ReadSpan(tile.offset, tile.bytes, ReadAlignment(*tile.file)), tile.memory_bytes);
  tile.span_bytes = RoundUp(span, alignment_);
}

void TileMap::SumForms() {
  memory_bytes_ = 0;
  visited_memory_bytes_ = 0;
  span_bytes_ = 0;
  largest_span_bytes_ = 0;
  for (int32_t i = 0; i < tile_count(); ++i) {
    const Tile& of = tile(i);
    memory_bytes_ += of.memory_bytes;
    visited_memory_bytes_ +=
        visited_bytes(i) * static_cast<double>(of.memory_bytes) / static_cast<double>(of.bytes);
    span_bytes_ += of.span_bytes;
    largest_span_bytes_ = std::max(largest_span_bytes_, of.span_bytes);
  }
}

void TileMap::SetThawed(FunctionRef<bool(int32_t tile)> is_thawed) {
  for (int32_t i = 0; i < tile_count(); ++i) {
    if (changes_form(i)) Hold(tiles_[static_cast<size_t>(i)], is_thawed(i));
  }
  SumForms();
}

void TileMap::TakeForms(const TileMap& other) {
  THAW_CHECK(other.tile_count() == tile_count());
  for (int32_t i = 0; i < tile_count(); ++i) {
    Tile& tile = tiles_[static_cast<size_t>(i)];
    const Tile& from = other.tile(i);
    if (tile.IsHeldAs(from)) continue;
    THAW_CHECK(changes_form(i));
    tile.type = from.type;
    tile.is_thawed = from.is_thawed;
    tile.is_coded = from.is_coded;
    tile.is_packed = from.is_packed;
    tile.memory_bytes = from.memory_bytes;
    tile.span_bytes = from.span_bytes;
  }
  SumForms();
}

TileMap::Range TileMap::tiles_of(int32_t matrix_index, int64_t expert) const {
  Range range = tiles_of(matrix_index);
  const WeightMatrix& whole = matrix(matrix_index);
  if (!whole.is_chosen()) return range;
  range.count /= static_cast<int32_t>(whole.n_experts);
  range.first += static_cast<int32_t>(expert) * range.count;
  return range;
}

int32_t TileMap::TileOfRow(int32_t matrix_index, int64_t row) const {
  const int64_t together = matrix(matrix_index).rows_cut_as_one();
  const Range& range = tiles_of(matrix_index);
  const int64_t tiles = DivideUp(together, range.rows_per_tile);  // of such a run of rows
  return static_cast<int32_t>(range.first + row / together * tiles +
                              row % together / range.rows_per_tile);
}

std::string TileMap::Describe(int32_t tile_index) const {
  const Tile& where = tile(tile_index);
  const WeightMatrix& of = matrix(where.matrix);
  const ExpertTensor* own = of.TensorOfExpert(where.row_begin / of.rows_of_expert());
  const int64_t first = first_row_in_tensor(tile_index);
  return fmt::format("tensor '{}', rows {} to {}", own == nullptr ? of.name : own->name, first,
                     first + where.row_count - 1);
}

int64_t TileMap::first_row_in_tensor(int32_t tile_index) const {
  const WeightMatrix& of = matrix_of(tile_index);
  const int64_t row = tile(tile_index).row_begin;
  return of.expert_tensors.empty() ? of.first_row + row : row % of.rows_of_expert();
}

}  // namespace thaw
