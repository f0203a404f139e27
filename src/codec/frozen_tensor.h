// A frozen tensor of a file: its shape and where its tiles lie (docs/format.md, section 2).
//
// Reading one reads the head of its blob, 64 bytes and 24 a tile; the tiles stay on the disk. Plain
// data that owns itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/frozen_format.h"
#include "io/file.h"

namespace thaw {

struct FrozenTensor {
  FrozenKind kind = FrozenKind::kEcq;
  int dimensions = 2;
  int64_t cols = 0;
  int64_t rows = 0;      // of one matrix
  int64_t matrices = 1;  // experts, where there are three dimensions
  int64_t rows_per_stream = 0;
  int64_t streams_per_tile = 0;
  // Offsets from the start of the file.
  std::vector<FrozenTileEntry> tiles;

  int64_t rows_per_tile() const { return rows_per_stream * streams_per_tile; }
  int64_t tiles_per_matrix() const { return (rows + rows_per_tile() - 1) / rows_per_tile(); }
  int64_t weights() const { return cols * rows * matrices; }
};

// Of all tiles.
int64_t FrozenBytes(const FrozenTensor& tensor);

// Rows [first, first + rows) of the tensor, its matrices one after another, with their tiles: a run
// of rows of one matrix, or whole matrices. kUnsupported where a tile holds rows within and beyond.
Result<FrozenTensor> RowsOfFrozen(const FrozenTensor& tensor, int64_t first, int64_t rows);

// Where tiles begin behind a directory of so many.
int64_t FrozenHeadBytes(int64_t tiles);

// The tensor whose blob takes `bytes` of the file from `offset` on. kUnsupported for a later
// version, kCorrupt for what breaks the format; both name the file, `name`, what was expected and
// what was found.
Result<FrozenTensor> ReadFrozenTensor(const File& file, std::string_view name, uint64_t offset,
                                      uint64_t bytes);

// The head of a blob: header, directory (offsets from the start of the blob), zeros. `tensor` must
// keep the rules of the format.
std::vector<std::byte> FrozenHead(const FrozenTensor& tensor);

}  // namespace thaw
