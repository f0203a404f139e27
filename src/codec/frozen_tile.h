// Reads a tile of a frozen tensor from its file and thaws it, for those who look at tensors rather
// than run them.
#pragma once

#include <cstddef>
#include <cstdint>
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

// The rows of a tile as rows of the thawed type lie in a file. kCorrupt names the file, the tensor,
// the tile and its offset: bytes that are not those that were frozen, or no whole tile. Memory for
// the tile, coded and thawed twice.
Result<std::vector<std::byte>> ReadFrozenTile(const File& file, std::string_view name,
                                              const FrozenTensor& tensor, size_t tile,
                                              const TileDecoder& decoder);

}  // namespace thaw
