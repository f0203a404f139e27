// Reads a tile of a frozen tensor from its file and thaws it, for those who look at tensors rather
// than run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/frozen_tensor.h"
#include "codec/tile_decoder.h"
#include "io/file.h"

namespace thaw {

// Rows [row_begin, row_begin + row_count) of the tensor, its matrices one after another.
struct FrozenTileRows {
  int64_t row_begin = 0;
  int64_t row_count = 0;
};
FrozenTileRows RowsOfTile(const FrozenTensor& tensor, size_t tile);

// Row `row` of a tile of `rows` rows, whose bytes are `tile`, to `out`, as it would lie in a file.
// Decodes the rows of its stream before it, to `group`, ThawedGroupBytes of memory: costs some
// microseconds for each tenth of a stream. Errors as ThawTile, of what stands before the row.
Result<void> ThawRow(const TileDecoder& decoder, const FrozenTensor& tensor, int64_t rows,
                     std::span<const std::byte> tile, int64_t row, std::byte* group,
                     std::span<std::byte> out);

// The rows of a tile as rows of the thawed type lie in a file. kCorrupt names the file, the tensor,
// the tile and its offset: bytes that are not those that were frozen, or no whole tile. Memory for
// the tile, coded and thawed twice.
Result<std::vector<std::byte>> ReadFrozenTile(const File& file, std::string_view name,
                                              const FrozenTensor& tensor, size_t tile,
                                              const TileDecoder& decoder);

}  // namespace thaw
