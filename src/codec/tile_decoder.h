// Decoders of frozen streams, one for each instruction set; all give the same bytes.
//
// What comes out are groups of packed rows (tensor/packed_rows.h) of the thawed type, Q8_0 or BF16.
// Decoders are pure functions of the cursor: no memory is allocated, any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "base/result.h"
#include "codec/frozen_stream.h"

namespace thaw {

struct TileDecoder {
  const char* name;
  bool (*is_available)(const CpuFeatures& cpu);

  // Decodes the numbers of the group that comes next, without its patches. Of ecq the quants of
  // Q8_0 alone are written, at their places in the packed group; DecodeGroup patches and adds
  // scales.
  void (*decode_ecq)(StreamCursor& cursor, std::byte* packed);
  void (*decode_bf16)(StreamCursor& cursor, std::byte* packed);
};

// Every decoder of this build, best first, whether this CPU can run it or not; the last is
// "portable".
std::span<const TileDecoder* const> AllTileDecoders();

const TileDecoder& PortableDecoder();

// Those of `decoders`, in their order, that the CPU runs and whose names a table of kernels allows:
// the table "portable" allows "portable" alone, "avx2" and "avxvnni" that and "avx2", the
// others all.
std::vector<const TileDecoder*> DecodersFor(
    std::string_view kernels_name, const CpuFeatures& cpu,
    std::span<const TileDecoder* const> decoders = AllTileDecoders());

// The back ends that decode are called by name; this is the decoders above.
inline constexpr std::string_view kCpuBackend = "cpu";

// kInvalidArgument, with the names that there are, for the name of no back end.
Result<void> CheckCodecBackend(std::string_view name);

// Bytes of a group of packed rows.
int64_t ThawedGroupBytes(FrozenKind kind, int64_t cols);

// Decodes the group that comes next to `packed`, ThawedGroupBytes of it. The cursor must have one.
void DecodeGroup(const TileDecoder& decoder, StreamCursor& cursor, std::byte* packed);

// Decodes all of a tile of `rows` rows into packed rows and checks everything that only decoding
// shows. kCorrupt says at which byte of the tile the stream begins that is wrong, and what is.
Result<void> ThawTile(const TileDecoder& decoder, FrozenKind kind, int64_t cols,
                      int64_t rows_per_stream, int64_t rows, std::span<const std::byte> tile,
                      std::byte* packed);

// The same without keeping anything: decodes group by group to `group`, ThawedGroupBytes of memory.
// Refuses weights that are infinite or NaN too.
Result<void> CheckTile(const TileDecoder& decoder, FrozenKind kind, int64_t cols,
                       int64_t rows_per_stream, int64_t rows, std::span<const std::byte> tile,
                       std::byte* group);

}  // namespace thaw
