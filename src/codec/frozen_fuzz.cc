// Frozen tensors from hostile files: heads of tensors and tiles whose bytes are anything.
//
// The first byte chooses. Heads are refused or read. Tiles are decoded by every decoder that this
// CPU runs, which must agree on every byte, on the error, and never look outside of the tile.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "codec/frozen_tensor.h"
#include "codec/tile_decoder.h"
#include "io/memory_file.h"

namespace {

using thaw::FrozenKind;

// What a decoder makes of a tile: its packed rows and its error.
struct Outcome {
  std::vector<std::byte> packed;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

Outcome Decode(const thaw::TileDecoder& decoder, FrozenKind kind, int64_t cols, int64_t rows,
               int64_t rows_per_stream, std::span<const std::byte> bytes) {
  // Exactly as much memory as there are bytes, so that a read outside is seen.
  const std::vector<std::byte> tile(bytes.begin(), bytes.end());
  Outcome outcome{.packed = std::vector<std::byte>(static_cast<size_t>(
                      rows / thaw::kFrozenGroupRows * thaw::ThawedGroupBytes(kind, cols))),
                  .error = {}};
  const auto thawed =
      thaw::ThawTile(decoder, kind, cols, rows_per_stream, rows, tile, outcome.packed.data());
  if (!thawed) outcome.error = thawed.error().message;
  return outcome;
}

void DecodeByAll(uint8_t choice, std::span<const std::byte> bytes) {
  const FrozenKind kind = (choice & 2) != 0 ? FrozenKind::kBf16 : FrozenKind::kEcq;
  const int64_t cols = thaw::kFrozenBlock * (1 + (choice >> 2 & 7));
  const int64_t rows = thaw::kFrozenGroupRows * (1 + (choice >> 5 & 3));
  const int64_t rows_per_stream = (choice & 128) != 0 ? thaw::kFrozenGroupRows : rows;
  const Outcome expected =
      Decode(thaw::PortableDecoder(), kind, cols, rows, rows_per_stream, bytes);
  for (const thaw::TileDecoder* decoder : thaw::AllTileDecoders()) {
    if (!decoder->is_available(thaw::HostCpu())) continue;
    if (Decode(*decoder, kind, cols, rows, rows_per_stream, bytes) != expected) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if ((data[0] & 1) == 0) {
    DecodeByAll(data[0], bytes);
    return 0;
  }
  const thaw::MemoryFile file("fuzz", std::vector<std::byte>(bytes.begin(), bytes.end()));
  (void)thaw::ReadFrozenTensor(file, "fuzz", 0, bytes.size());
  return 0;
}
