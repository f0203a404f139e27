#include "codec/frozen_tensor.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/round_up.h"

namespace thaw {
namespace {

uint64_t HashOfHead(const FrozenHeader& header, std::span<const FrozenTileEntry> directory) {
  XXH3_state_t* state = XXH3_createState();
  THAW_CHECK(state != nullptr);
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &header, offsetof(FrozenHeader, hash));
  XXH3_64bits_update(state, directory.data(), directory.size_bytes());
  const uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

// Says where a blob breaks the format.
class BlobCheck {
 public:
  BlobCheck(const File& file, std::string_view name, uint64_t offset)
      : file_(file), name_(name), offset_(offset) {}

  template <typename... Args>
  tl::unexpected<Error> Broken(uint64_t at, fmt::format_string<Args...> format,
                               Args&&... args) const {
    return Fail(ErrorCode::kCorrupt, "{}: frozen tensor '{}' at offset {}: {}", file_.path(), name_,
                offset_ + at, fmt::format(format, std::forward<Args>(args)...));
  }

  Result<void> InRange(uint64_t at, std::string_view what, uint64_t value, uint64_t least,
                       uint64_t most, uint64_t unit) const {
    if (value >= least && value <= most && value % unit == 0) return {};
    if (unit == 1) {
      return Broken(at, "{} is {}, expected {} to {}", what, value, least, most);
    }
    return Broken(at, "{} is {}, expected a multiple of {} from {} to {}", what, value, unit, least,
                  most);
  }

 private:
  const File& file_;
  std::string_view name_;
  uint64_t offset_;
};

Result<void> CheckShape(const BlobCheck& check, const FrozenHeader& h) {
  constexpr uint64_t kGroup = kFrozenGroupRows;
  THAW_TRY(check.InRange(offsetof(FrozenHeader, cols), "cols", h.cols, kFrozenBlock, kFrozenMaxCols,
                         kFrozenBlock));
  THAW_TRY(
      check.InRange(offsetof(FrozenHeader, rows), "rows", h.rows, kGroup, kFrozenMaxRows, kGroup));
  THAW_TRY(check.InRange(offsetof(FrozenHeader, matrices), "matrices", h.matrices, 1,
                         kFrozenMaxMatrices, 1));
  THAW_TRY(check.InRange(offsetof(FrozenHeader, rows_per_stream), "rows_per_stream",
                         h.rows_per_stream, kGroup, UINT32_MAX, kGroup));
  THAW_TRY(check.InRange(offsetof(FrozenHeader, streams_per_tile), "streams_per_tile",
                         h.streams_per_tile, 1, kFrozenMaxStreamsPerTile, 1));
  THAW_TRY(check.InRange(offsetof(FrozenHeader, dimensions), "dimensions", h.dimensions, 2, 3, 1));
  if (h.dimensions == 2 && h.matrices != 1) {
    return check.Broken(offsetof(FrozenHeader, matrices),
                        "matrices is {}, expected 1 in a tensor of two dimensions", h.matrices);
  }
  if (h.rows_per_stream != kGroup && h.rows_per_stream * h.cols > kFrozenMaxWeightsOfStream) {
    return check.Broken(offsetof(FrozenHeader, rows_per_stream),
                        "a stream has {} weights, expected at most {}", h.rows_per_stream * h.cols,
                        kFrozenMaxWeightsOfStream);
  }
  return {};
}

Result<void> CheckDirectory(const BlobCheck& check, std::span<const FrozenTileEntry> tiles,
                            uint64_t blob_bytes) {
  auto expected = static_cast<uint64_t>(FrozenHeadBytes(std::ssize(tiles)));
  for (size_t i = 0; i < tiles.size(); ++i) {
    const uint64_t at = sizeof(FrozenHeader) + i * sizeof(FrozenTileEntry);
    if (tiles[i].offset != expected) {
      return check.Broken(at, "tile {} begins at byte {} of the tensor, expected {}", i,
                          tiles[i].offset, expected);
    }
    THAW_TRY(check.InRange(at + offsetof(FrozenTileEntry, bytes),
                           fmt::format("bytes of tile {}", i), tiles[i].bytes, kFrozenAlignment,
                           kFrozenMaxTileBytes, kFrozenAlignment));
    expected += tiles[i].bytes;
  }
  if (expected != blob_bytes) {
    return check.Broken(0, "the tiles end at byte {} of the tensor, expected its end, {}", expected,
                        blob_bytes);
  }
  return {};
}

}  // namespace

int64_t FrozenBytes(const FrozenTensor& tensor) {
  uint64_t bytes = 0;
  for (const FrozenTileEntry& tile : tensor.tiles) bytes += tile.bytes;
  return static_cast<int64_t>(bytes);
}

Result<FrozenTensor> RowsOfFrozen(const FrozenTensor& tensor, int64_t first, int64_t rows) {
  const int64_t end = first + rows;
  THAW_CHECK(first >= 0 && rows > 0 && end <= tensor.rows * tensor.matrices);
  const bool is_within = (end - 1) / tensor.rows == first / tensor.rows;
  THAW_CHECK(is_within || (first % tensor.rows == 0 && end % tensor.rows == 0));
  const int64_t per_tile = tensor.rows_per_tile();
  for (const int64_t row : {first, end}) {
    if (row % tensor.rows % per_tile == 0) continue;
    return Fail(ErrorCode::kUnsupported,
                "its frozen tiles begin at every {} rows, expected one to begin at row {}, where a "
                "matrix of the model does",
                per_tile, row);
  }
  const auto tile_of = [&](int64_t row) {
    return row / tensor.rows * tensor.tiles_per_matrix() + row % tensor.rows / per_tile;
  };
  FrozenTensor part{.kind = tensor.kind,
                    .dimensions = is_within ? 2 : 3,
                    .cols = tensor.cols,
                    .rows = is_within ? rows : tensor.rows,
                    .matrices = is_within ? 1 : rows / tensor.rows,
                    .rows_per_stream = tensor.rows_per_stream,
                    .streams_per_tile = tensor.streams_per_tile,
                    .tiles = {}};
  part.tiles.assign(tensor.tiles.begin() + tile_of(first), tensor.tiles.begin() + tile_of(end));
  return part;
}

int64_t FrozenHeadBytes(int64_t tiles) {
  return RoundUp(static_cast<int64_t>(sizeof(FrozenHeader)) +
                     tiles * static_cast<int64_t>(sizeof(FrozenTileEntry)),
                 kFrozenAlignment);
}

Result<FrozenTensor> ReadFrozenTensor(const File& file, std::string_view name, uint64_t offset,
                                      uint64_t bytes) {
  const BlobCheck check(file, name, offset);
  FrozenHeader h;
  if (bytes < sizeof(h))
    return check.Broken(0, "has {} bytes, expected {} or more", bytes, sizeof(h));
  THAW_TRY(ReadExactlyAt(file, offset, std::as_writable_bytes(std::span(&h, 1))));
  if (std::memcmp(h.magic, kFrozenMagic, sizeof(kFrozenMagic)) != 0) {
    return check.Broken(0, "does not begin with 'THAWTILE'");
  }
  if (h.version != kFrozenVersion) {
    return Fail(h.version > kFrozenVersion ? ErrorCode::kUnsupported : ErrorCode::kCorrupt,
                "{}: frozen tensor '{}' at offset {} has version {}, expected {}", file.path(),
                name, offset, h.version, kFrozenVersion);
  }
  if (h.kind != static_cast<uint32_t>(FrozenKind::kEcq) &&
      h.kind != static_cast<uint32_t>(FrozenKind::kBf16)) {
    return check.Broken(offsetof(FrozenHeader, kind), "kind is {}, expected 1 (ecq) or 2 (bf16)",
                        h.kind);
  }
  THAW_TRY(CheckShape(check, h));
  FrozenTensor tensor{.kind = static_cast<FrozenKind>(h.kind),
                      .dimensions = static_cast<int>(h.dimensions),
                      .cols = static_cast<int64_t>(h.cols),
                      .rows = static_cast<int64_t>(h.rows),
                      .matrices = static_cast<int64_t>(h.matrices),
                      .rows_per_stream = h.rows_per_stream,
                      .streams_per_tile = h.streams_per_tile,
                      .tiles = {}};
  const int64_t tiles = tensor.tiles_per_matrix() * tensor.matrices;
  if (h.tiles != static_cast<uint64_t>(tiles)) {
    return check.Broken(offsetof(FrozenHeader, tiles), "tiles is {}, expected {}", h.tiles, tiles);
  }
  if (static_cast<uint64_t>(FrozenHeadBytes(tiles)) > bytes) {
    return check.Broken(0, "has {} bytes, expected more than its directory of {} tiles takes, {}",
                        bytes, tiles, FrozenHeadBytes(tiles));
  }
  tensor.tiles.resize(static_cast<size_t>(tiles));
  THAW_TRY(
      ReadExactlyAt(file, offset + sizeof(h), std::as_writable_bytes(std::span(tensor.tiles))));
  if (const uint64_t hash = HashOfHead(h, tensor.tiles); hash != h.hash) {
    return check.Broken(offsetof(FrozenHeader, hash),
                        "the hash of its directory is {:016x}, expected {:016x}", hash, h.hash);
  }
  THAW_TRY(CheckDirectory(check, tensor.tiles, bytes));
  const uint64_t end = sizeof(h) + tensor.tiles.size() * sizeof(FrozenTileEntry);
  std::byte padding[kFrozenAlignment];
  const auto behind = std::span(padding).first(static_cast<size_t>(FrozenHeadBytes(tiles)) - end);
  THAW_TRY(ReadExactlyAt(file, offset + end, behind));
  if (std::ranges::any_of(behind, [](std::byte b) { return b != std::byte{0}; })) {
    return check.Broken(end, "the bytes between its directory and its tiles are not 0");
  }
  for (FrozenTileEntry& tile : tensor.tiles) tile.offset += offset;
  return tensor;
}

std::vector<std::byte> FrozenHead(const FrozenTensor& tensor) {
  FrozenHeader h = {};
  std::memcpy(h.magic, kFrozenMagic, sizeof(kFrozenMagic));
  h.version = kFrozenVersion;
  h.kind = static_cast<uint32_t>(tensor.kind);
  h.cols = static_cast<uint64_t>(tensor.cols);
  h.rows = static_cast<uint64_t>(tensor.rows);
  h.matrices = static_cast<uint64_t>(tensor.matrices);
  h.rows_per_stream = static_cast<uint32_t>(tensor.rows_per_stream);
  h.streams_per_tile = static_cast<uint32_t>(tensor.streams_per_tile);
  h.tiles = static_cast<uint32_t>(tensor.tiles.size());
  h.dimensions = static_cast<uint32_t>(tensor.dimensions);
  h.hash = HashOfHead(h, tensor.tiles);
  std::vector<std::byte> head(static_cast<size_t>(FrozenHeadBytes(std::ssize(tensor.tiles))));
  std::memcpy(head.data(), &h, sizeof(h));
  std::memcpy(head.data() + sizeof(h), tensor.tiles.data(),
              tensor.tiles.size() * sizeof(FrozenTileEntry));
  return head;
}

}  // namespace thaw
