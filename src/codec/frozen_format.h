// The layout of frozen tensors, byte for byte: docs/format.md says what every field means.
//
// Constants and plain structs as they lie in files, little-endian as the host; no code. Field names
// are those of the document.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/element_type.h"

namespace thaw {

inline constexpr uint32_t kFrozenVersion = 2;
inline constexpr std::string_view kFrozenVersionKey = "thaw.frozen.version";

enum class FrozenKind : uint32_t { kEcq = 1, kBf16 = 2 };

inline constexpr FrozenKind kAllFrozenKinds[] = {FrozenKind::kEcq, FrozenKind::kBf16};

// "ecq", "bf16"
constexpr std::string_view FrozenKindName(FrozenKind kind) {
  return kind == FrozenKind::kEcq ? "ecq" : "bf16";
}

// What rows of a kind are once they are thawed.
constexpr ElementType ThawedType(FrozenKind kind) {
  return kind == FrozenKind::kEcq ? ElementType::kQ8_0 : ElementType::kBF16;
}

struct FrozenHeader {
  char magic[8];
  uint32_t version;
  uint32_t kind;
  uint64_t cols;
  uint64_t rows;
  uint64_t matrices;
  uint32_t rows_per_stream;
  uint32_t streams_per_tile;
  uint32_t tiles;
  uint32_t dimensions;
  uint64_t hash;
};
static_assert(sizeof(FrozenHeader) == 64);

inline constexpr char kFrozenMagic[8] = {'T', 'H', 'A', 'W', 'T', 'I', 'L', 'E'};

struct FrozenTileEntry {
  uint64_t offset;
  uint64_t bytes;
  uint64_t hash;
};
static_assert(sizeof(FrozenTileEntry) == 24);

inline constexpr int kFrozenMaxSymbols = 44;

struct FrozenStreamHeader {
  uint32_t rows;
  uint32_t coded_bytes;
  uint32_t patches;
  uint32_t shifts;
  uint8_t raw_planes;
  uint8_t symbols;
  uint8_t first_symbol;
  uint8_t zero;
  uint8_t frequencies[kFrozenMaxSymbols];
};
static_assert(sizeof(FrozenStreamHeader) == 64);

inline constexpr int64_t kFrozenAlignment = 64;
inline constexpr int64_t kFrozenGroupRows = 16;
inline constexpr int64_t kFrozenLanes = 64;  // of a vector
inline constexpr int64_t kFrozenColsOfVector = 4;
inline constexpr int64_t kFrozenStateSets = 8;
inline constexpr int64_t kFrozenStates = kFrozenStateSets * kFrozenLanes;
inline constexpr int64_t kFrozenBlock = 32;  // columns of a multiple, and those that share a shift
inline constexpr int kFrozenSlots = 128;
inline constexpr uint32_t kFrozenLowestState = 256;

// Limits.
inline constexpr uint64_t kFrozenMaxCols = uint64_t{1} << 20;
inline constexpr uint64_t kFrozenMaxRows = uint64_t{1} << 32;
inline constexpr uint64_t kFrozenMaxMatrices = uint64_t{1} << 16;
inline constexpr uint32_t kFrozenMaxStreamsPerTile = 64;
inline constexpr uint64_t kFrozenMaxWeightsOfStream = uint64_t{1} << 24;
inline constexpr uint64_t kFrozenMaxTileBytes = uint64_t{1} << 28;

// The gap of a patch of the value 0, and the longest there is.
inline constexpr int64_t kFrozenLongestGap = 65535;

// What a patch of the value 1 adds to an integer q of ecq.
inline constexpr int kFrozenPatchUnit = 4;

// A block's shift: its number in the stream above, how far below.
inline constexpr uint32_t kFrozenShiftBits = 4;

// The row and column of a vector that a lane holds.
struct LanePlace {
  int64_t row;
  int64_t col;
};
constexpr LanePlace PlaceOfLane(FrozenKind kind, int64_t lane) {
  if (kind == FrozenKind::kEcq) return {lane / 4, lane % 4};
  const int64_t within = lane % 16;
  return {4 * (lane / 16) + within % 8 / 2, 2 * (within / 8) + within % 2};
}

// The trellis of one lane within a group: `numbers` m in, and the bit z of each. z is the lowest
// bit of the weight's integer q = 2 m + z.
class Trellis {
 public:
  int bit() const { return z_[0] ^ z_[2] ^ parity_[1]; }
  // Goes on from a number whose lowest bit is `parity`.
  void Step(int parity) {
    const int z = bit();
    z_[2] = z_[1];
    z_[1] = z_[0];
    z_[0] = z;
    parity_[1] = parity_[0];
    parity_[0] = parity;
  }

 private:
  int z_[3] = {0, 0, 0};  // of the one before, of the one before that, ...
  int parity_[2] = {0, 0};
};

}  // namespace thaw
