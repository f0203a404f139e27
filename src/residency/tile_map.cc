#include "residency/tile_map.h"

#include <algorithm>
#include <utility>

namespace thaw {
namespace {

// Direct reads reach the disk's rate from 512 KiB a request on; 256 KiB to 2 MiB measured alike for
// streaming, and smaller tiles split a budget more finely.
constexpr int64_t kTileBytes = int64_t{512} << 10;

// Kernels interleave up to this many rows, so a tile border must not cut through such a group.
constexpr int64_t kRowGroup = 16;

int64_t RowsPerTile(const WeightMatrix& matrix) {
  const int64_t rows = kTileBytes / std::max<int64_t>(1, matrix.row_bytes());
  return std::max(kRowGroup, rows / kRowGroup * kRowGroup);
}

}  // namespace

Result<TileMap> TileMap::Create(std::vector<WeightMatrix> matrices) {
  TileMap map;
  map.matrices_ = std::move(matrices);
  for (size_t i = 0; i < map.matrices_.size(); ++i) {
    const WeightMatrix& matrix = map.matrices_[i];
    const auto row_bytes = static_cast<uint64_t>(matrix.row_bytes());
    const uint64_t end = matrix.offset + row_bytes * static_cast<uint64_t>(matrix.rows);
    if (end > matrix.file->size()) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tensor '{}' ends at byte {}, but the file has only {} bytes",
                  matrix.file->path(), matrix.name, end, matrix.file->size());
    }
    Range range;
    range.first = static_cast<int32_t>(map.tiles_.size());
    range.rows_per_tile = RowsPerTile(matrix);
    const int64_t tiled_rows = matrix.row_lookup_only ? 0 : matrix.rows;
    for (int64_t row = 0; row < tiled_rows; row += range.rows_per_tile) {
      Tile tile;
      tile.matrix = static_cast<int32_t>(i);
      tile.row_begin = row;
      tile.row_count = std::min(range.rows_per_tile, matrix.rows - row);
      tile.offset = matrix.offset + static_cast<uint64_t>(row) * row_bytes;
      tile.bytes = static_cast<uint64_t>(tile.row_count) * row_bytes;
      map.weight_bytes_ += tile.bytes;
      map.tiles_.push_back(tile);
      ++range.count;
    }
    map.ranges_.push_back(range);
  }
  return map;
}

}  // namespace thaw
