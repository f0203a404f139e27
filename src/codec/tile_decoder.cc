#include "codec/tile_decoder.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/load.h"
#include "tensor/finite_rows.h"
#include "tensor/half.h"

#if defined(__x86_64__)
#include "codec/x86/decoders.h"
#endif

namespace thaw {
namespace {

// The symbols of one vector, as SlotTables has them, by lanes.
void DecodeSymbols(StreamCursor& cursor, int64_t vector, std::byte (&symbols)[kFrozenLanes]) {
  const SlotTables& tables = cursor.tables;
  StateSet& states = cursor.states[vector % kFrozenStateSets];
  for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
    const uint32_t slot = states.low[lane] % kFrozenSlots;
    uint32_t x = 256U * states.high[lane] + states.low[lane];
    x = x * tables.doubled_frequency[slot] / 256;
    x = static_cast<uint16_t>(x + static_cast<uint32_t>(tables.bias[slot]));
    if (x < kFrozenLowestState) x = x << 8 | std::to_integer<uint32_t>(*cursor.coded++);
    states.low[lane] = static_cast<uint8_t>(x);
    states.high[lane] = static_cast<uint8_t>(x >> 8);
    symbols[lane] = std::byte{tables.symbol[slot]};
  }
}

// The numbers of raw planes, added to the symbols.
void AddRawBits(StreamCursor& cursor, std::byte (&symbols)[kFrozenLanes]) {
  constexpr std::byte kBits[2] = {std::byte{3}, std::byte{4}};
  for (int plane = 0; plane < cursor.stream.header.raw_planes; ++plane) {
    const auto bits = LoadAs<uint64_t>(cursor.raw);
    cursor.raw += sizeof(bits);
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      if ((bits >> lane & 1) != 0) symbols[lane] |= kBits[plane];
    }
  }
}

// Where line `line` of a packed group of Q8_0 begins.
std::byte* QuantsLine(std::byte* packed, int64_t blocks, int64_t line) {
  constexpr int64_t kLinesOfBlock = kFrozenBlock / kFrozenColsOfVector;
  const int64_t block = line / kLinesOfBlock;
  const int64_t of_unit = block / 2 * 2 + 1 < blocks ? 2 : 1;
  const int64_t unit = block / 2 * (2 * 2 + 2 * kFrozenBlock) * kFrozenGroupRows;
  return packed + unit + of_unit * 2 * kFrozenGroupRows +
         (block % 2 * kLinesOfBlock + line % kLinesOfBlock) * kFrozenLanes;
}

// Weight `weight` of a packed group, in the order of coding: an integer of Q8_0.
std::byte* QuantAt(std::byte* packed, int64_t blocks, int64_t weight) {
  return QuantsLine(packed, blocks, weight / kFrozenLanes) + weight % kFrozenLanes;
}

// And a number of BF16.
std::byte* Bf16At(std::byte* packed, int64_t weight) {
  const LanePlace place = PlaceOfLane(FrozenKind::kBf16, weight % kFrozenLanes);
  const int64_t line = 2 * (weight / kFrozenLanes) + place.col / 2;
  return packed + 64 * line + 4 * place.row + 2 * (place.col % 2);
}

void DecodeEcqPortable(StreamCursor& cursor, std::byte* packed) {
  Trellis trellis[kFrozenLanes];
  const int64_t vectors = cursor.stream.cols / kFrozenColsOfVector;
  for (int64_t v = 0; v < vectors; ++v) {
    if (v % kFrozenStateSets == 0) cursor.HoldBack();
    std::byte symbols[kFrozenLanes];
    DecodeSymbols(cursor, v, symbols);
    AddRawBits(cursor, symbols);
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      const int parity = std::to_integer<int>(symbols[lane] & std::byte{1});
      const auto z = static_cast<std::byte>(trellis[lane].bit());
      trellis[lane].Step(parity);
      symbols[lane] = (symbols[lane] & ~std::byte{1}) | z;
    }
    std::memcpy(QuantsLine(packed, cursor.stream.blocks(), v), symbols, sizeof(symbols));
  }
}

void DecodeBf16Portable(StreamCursor& cursor, std::byte* packed) {
  const int64_t vectors = cursor.stream.cols / kFrozenColsOfVector;
  for (int64_t v = 0; v < vectors; ++v) {
    if (v % kFrozenStateSets == 0) cursor.HoldBack();
    std::byte exponents[kFrozenLanes];
    DecodeSymbols(cursor, v, exponents);
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      const auto rest = std::to_integer<uint32_t>(cursor.raw[lane]);
      const auto bits = static_cast<uint16_t>(std::to_integer<uint32_t>(exponents[lane]) * 128 +
                                              rest / 2 + rest % 2 * 32768);
      std::memcpy(Bf16At(packed, v * kFrozenLanes + lane), &bits, sizeof(bits));
    }
    cursor.raw += kFrozenLanes;
  }
}

constexpr TileDecoder kPortableDecoder = {
    .name = "portable",
    .is_available = [](const CpuFeatures&) { return true; },
    .decode_ecq = DecodeEcqPortable,
    .decode_bf16 = DecodeBf16Portable,
};

#if defined(__x86_64__)

constexpr TileDecoder kAvx512Vbmi2Decoder = {
    .name = "avx512vbmi2",
    .is_available =
        [](const CpuFeatures& cpu) {
          return cpu.avx512f && cpu.avx512bw && cpu.avx512vl && cpu.avx512vbmi && cpu.avx512vbmi2;
        },
    .decode_ecq = avx512vbmi2::DecodeEcq,
    .decode_bf16 = avx512vbmi2::DecodeBf16,
};

constexpr TileDecoder kAvx2Decoder = {
    .name = "avx2",
    .is_available = [](const CpuFeatures& cpu) { return cpu.avx2; },
    .decode_ecq = avx2::DecodeEcq,
    .decode_bf16 = avx2::DecodeBf16,
};

constexpr const TileDecoder* kDecoders[] = {&kAvx512Vbmi2Decoder, &kAvx2Decoder, &kPortableDecoder};

#else

constexpr const TileDecoder* kDecoders[] = {&kPortableDecoder};

#endif

int64_t GroupWeights(const StreamCursor& cursor) { return kFrozenGroupRows * cursor.stream.cols; }

void PatchEcq(StreamCursor& cursor, std::byte* packed) {
  const int64_t blocks = cursor.stream.blocks();
  TakePatches(cursor, GroupWeights(cursor), [&](int64_t weight, uint8_t value) {
    std::byte* quant = QuantAt(packed, blocks, weight);
    const int q = static_cast<int8_t>(*quant) + kFrozenPatchUnit * static_cast<int8_t>(value);
    if (q != static_cast<int8_t>(q)) cursor.has_wide_patch = true;
    *quant = static_cast<std::byte>(q);
  });
}

void PatchBf16(StreamCursor& cursor, std::byte* packed) {
  TakePatches(cursor, GroupWeights(cursor), [&](int64_t weight, uint8_t value) {
    std::byte* at = Bf16At(packed, weight);
    auto bits = LoadAs<uint16_t>(at);
    const auto exponent = static_cast<uint8_t>((bits >> 7) + value);
    bits = static_cast<uint16_t>((bits & 0x807f) | exponent << 7);
    std::memcpy(at, &bits, sizeof(bits));
  });
}

// The scales of a group of ecq, at their places in the packed group.
void AddScales(StreamCursor& cursor, std::byte* packed) {
  const FrozenStream& s = cursor.stream;
  const int64_t blocks = s.blocks();
  const std::byte* scales = s.scales + 2 * cursor.group * kFrozenGroupRows;
  const int64_t first_block = cursor.group * blocks * kFrozenGroupRows;
  constexpr int64_t kScaleBytes = 2 * kFrozenGroupRows;
  const auto shift_at = [&](uint32_t i) { return LoadAs<uint32_t>(s.shifts + 4 * uint64_t{i}); };
  for (int64_t block = 0; block < blocks; ++block) {
    // The first line of a unit stands right behind the scales of its blocks.
    const int64_t unit = block / 2 * 2;
    std::byte* out = QuantsLine(packed, blocks, unit * 8) -
                     (unit + 1 < blocks ? 2 : 1) * kScaleBytes + block % 2 * kScaleBytes;
    std::memcpy(out, scales, kScaleBytes);
    for (; cursor.shifts_done < s.header.shifts; ++cursor.shifts_done) {
      const uint32_t shift = shift_at(cursor.shifts_done);
      const int64_t at = (shift >> kFrozenShiftBits) - first_block;
      if (at >= (block + 1) * kFrozenGroupRows) break;
      const int64_t row = at % kFrozenGroupRows;
      const float times = static_cast<float>(1 << (shift & ((1U << kFrozenShiftBits) - 1)));
      const uint16_t scale = F32ToF16(F16ToF32(LoadAs<uint16_t>(scales + 2 * row)) * times);
      std::memcpy(out + 2 * row, &scale, sizeof(scale));
    }
  }
}

// Walks through the streams of a tile. `place(group)` says where the tile's group goes, `look` is
// shown what came there and may refuse it.
template <typename PlaceOfGroup, typename Look>
Result<void> WalkTile(const TileDecoder& decoder, FrozenKind kind, int64_t cols,
                      int64_t rows_per_stream, int64_t rows, std::span<const std::byte> tile,
                      PlaceOfGroup place, Look look) {
  size_t at = 0;
  const auto broken = [&](const Error& error) {
    return Fail(error.code, "the stream at byte {} of the tile: {}", at, error.message);
  };
  int64_t group = 0;
  for (int64_t row = 0; row < rows; row += rows_per_stream) {
    const auto stream =
        ParseFrozenStream(kind, cols, std::min(rows_per_stream, rows - row), tile.subspan(at));
    if (!stream) return broken(stream.error());
    StreamCursor cursor(*stream);
    for (int64_t i = 0; i < stream->groups(); ++i) {
      std::byte* packed = place(group++);
      DecodeGroup(decoder, cursor, packed);
      if (const auto looked = look(packed); !looked) return broken(looked.error());
    }
    if (const auto end = CheckStreamEnd(cursor); !end) return broken(end.error());
    at += stream->bytes;
  }
  if (at != tile.size()) {
    return Fail(ErrorCode::kCorrupt, "its streams take {} bytes, expected {}", at, tile.size());
  }
  return {};
}

}  // namespace

std::span<const TileDecoder* const> AllTileDecoders() { return kDecoders; }

const TileDecoder& PortableDecoder() { return kPortableDecoder; }

std::vector<const TileDecoder*> DecodersFor(std::string_view kernels_name, const CpuFeatures& cpu,
                                            std::span<const TileDecoder* const> decoders) {
  if (kernels_name == "avxvnni") kernels_name = "avx2";  // the vectors of both
  const bool allows_all = kernels_name != "portable" && kernels_name != "avx2";
  std::vector<const TileDecoder*> allowed;
  for (const TileDecoder* decoder : decoders) {
    const std::string_view name = decoder->name;
    const bool is_allowed = allows_all || name == kernels_name || name == "portable";
    if (is_allowed && decoder->is_available(cpu)) allowed.push_back(decoder);
  }
  return allowed;
}

Result<void> CheckCodecBackend(std::string_view name) {
  if (name == kCpuBackend) return {};
  return Fail(ErrorCode::kInvalidArgument, "there is no codec back end '{}'; there is: {}", name,
              kCpuBackend);
}

int64_t ThawedGroupBytes(FrozenKind kind, int64_t cols) {
  return kFrozenGroupRows * RowBytes(ThawedType(kind), cols);
}

void DecodeGroup(const TileDecoder& decoder, StreamCursor& cursor, std::byte* packed) {
  THAW_CHECK(cursor.group < cursor.stream.groups());
  if (cursor.stream.kind == FrozenKind::kEcq) {
    decoder.decode_ecq(cursor, packed);
    PatchEcq(cursor, packed);
    AddScales(cursor, packed);
  } else {
    decoder.decode_bf16(cursor, packed);
    PatchBf16(cursor, packed);
  }
  ++cursor.group;
}

Result<void> ThawTile(const TileDecoder& decoder, FrozenKind kind, int64_t cols,
                      int64_t rows_per_stream, int64_t rows, std::span<const std::byte> tile,
                      std::byte* packed) {
  const int64_t group_bytes = ThawedGroupBytes(kind, cols);
  return WalkTile(
      decoder, kind, cols, rows_per_stream, rows, tile,
      [&](int64_t group) { return packed + group * group_bytes; },
      [](const std::byte*) { return Result<void>(); });
}

Result<void> CheckTile(const TileDecoder& decoder, FrozenKind kind, int64_t cols,
                       int64_t rows_per_stream, int64_t rows, std::span<const std::byte> tile,
                       std::byte* group) {
  const auto place = [&](int64_t) { return group; };
  const auto look = [&](const std::byte* packed) -> Result<void> {
    // The order of numbers is of no concern here. Scales of ecq are finite by its format.
    if (kind == FrozenKind::kEcq ||
        !FindRowNotFinite(ElementType::kBF16, kFrozenGroupRows * cols, 1, packed)) {
      return {};
    }
    return Fail(ErrorCode::kCorrupt, "it holds a weight that is infinite or NaN");
  };
  return WalkTile(decoder, kind, cols, rows_per_stream, rows, tile, place, look);
}

}  // namespace thaw
