#include "codec/frozen_tile.h"

#include <xxhash.h>

#include <algorithm>

#include "tensor/packed_rows.h"

namespace thaw {

FrozenTileRows RowsOfTile(const FrozenTensor& tensor, size_t tile) {
  const int64_t matrix = static_cast<int64_t>(tile) / tensor.tiles_per_matrix();
  const int64_t first =
      static_cast<int64_t>(tile) % tensor.tiles_per_matrix() * tensor.rows_per_tile();
  return {.row_begin = matrix * tensor.rows + first,
          .row_count = std::min(tensor.rows_per_tile(), tensor.rows - first)};
}

Result<void> ThawRow(const TileDecoder& decoder, const FrozenTensor& tensor, int64_t rows,
                     std::span<const std::byte> tile, int64_t row, std::byte* group,
                     std::span<std::byte> out) {
  const int64_t per_stream = tensor.rows_per_stream;
  size_t at = 0;
  for (int64_t first = 0;; first += per_stream) {
    const auto stream = ParseFrozenStream(tensor.kind, tensor.cols,
                                          std::min(per_stream, rows - first), tile.subspan(at));
    if (!stream) {
      return Fail(stream.error().code, "the stream at byte {} of the tile: {}", at,
                  stream.error().message);
    }
    at += stream->bytes;
    if (row >= first + per_stream) continue;
    StreamCursor cursor(*stream);
    const int64_t wanted = (row - first) / kFrozenGroupRows;
    while (cursor.group <= wanted) DecodeGroup(decoder, cursor, group);
    CopyPackedRow(ThawedType(tensor.kind), tensor.cols, kFrozenGroupRows, group,
                  row % kFrozenGroupRows, out.data());
    return {};
  }
}

Result<std::vector<std::byte>> ReadFrozenTile(const File& file, std::string_view name,
                                              const FrozenTensor& tensor, size_t tile,
                                              const TileDecoder& decoder) {
  const FrozenTileEntry& entry = tensor.tiles[tile];
  std::vector<std::byte> coded(static_cast<size_t>(entry.bytes));
  THAW_TRY(ReadExactlyAt(file, entry.offset, coded));
  const auto broken = [&](std::string_view why) {
    return Fail(ErrorCode::kCorrupt, "{}: frozen tensor '{}', tile {} at offset {}: {}",
                file.path(), name, tile, entry.offset, why);
  };
  if (const uint64_t hash = XXH3_64bits(coded.data(), coded.size()); hash != entry.hash) {
    return broken(fmt::format("its hash is {:016x}, expected {:016x}", hash, entry.hash));
  }
  const int64_t rows = RowsOfTile(tensor, tile).row_count;
  std::vector<std::byte> packed(
      static_cast<size_t>(rows / kFrozenGroupRows * ThawedGroupBytes(tensor.kind, tensor.cols)));
  if (const auto thawed = ThawTile(decoder, tensor.kind, tensor.cols, tensor.rows_per_stream, rows,
                                   coded, packed.data());
      !thawed) {
    return broken(thawed.error().message);
  }
  const ElementType type = ThawedType(tensor.kind);
  const int64_t row_bytes = RowBytes(type, tensor.cols);
  std::vector<std::byte> out(packed.size());
  for (int64_t row = 0; row < rows; ++row) {
    CopyPackedRow(type, tensor.cols, rows, packed.data(), row, out.data() + row * row_bytes);
  }
  return out;
}

}  // namespace thaw
