// How weight matrices are cut into tiles.
//
// A tile is a run of whole rows of one matrix: the unit of reading, pinning and, later, eviction.
// The map is made once at load and never changes; it holds no weights. Thread safe, being const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "tensor/element_type.h"

namespace thaw {

// A weight matrix where it lies in its file: `rows` rows of `cols` elements, one after another.
struct WeightMatrix {
  std::string name;  // the tensor's name
  ElementType type = ElementType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  std::shared_ptr<const File> file;
  uint64_t offset = 0;  // bytes from the start of the file

  // Only ever read row by row (an embedding that is not also the output matrix): it gets no tiles.
  bool row_lookup_only = false;

  int64_t row_bytes() const { return RowBytes(type, cols); }
};

struct Tile {
  int32_t matrix = 0;  // index into TileMap::matrices()
  int64_t row_begin = 0;
  int64_t row_count = 0;
  uint64_t offset = 0;  // bytes from the start of the matrix's file
  uint64_t bytes = 0;
};

class TileMap {
 public:
  // kCorrupt when a matrix reaches beyond its file.
  static Result<TileMap> Create(std::vector<WeightMatrix> matrices);

  std::span<const WeightMatrix> matrices() const { return matrices_; }
  const WeightMatrix& matrix(int32_t index) const { return matrices_[static_cast<size_t>(index)]; }

  // All tiles, matrix by matrix, rows ascending.
  std::span<const Tile> tiles() const { return tiles_; }
  const Tile& tile(int32_t index) const { return tiles_[static_cast<size_t>(index)]; }

  // The tiles of one matrix: [first, first + count) of tiles(). All but the last have
  // `rows_per_tile` rows.
  struct Range {
    int32_t first = 0;
    int32_t count = 0;
    int64_t rows_per_tile = 0;
  };
  const Range& tiles_of(int32_t matrix) const { return ranges_[static_cast<size_t>(matrix)]; }

  // Sum of the tiles' bytes.
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  std::vector<WeightMatrix> matrices_;
  std::vector<Tile> tiles_;
  std::vector<Range> ranges_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace thaw
