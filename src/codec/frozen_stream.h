// One stream of a frozen tile, looked at where it lies (docs/format.md, section 3), and the cursor
// by which decoders walk through it.
//
// Views into bytes that must outlive them. Parsing looks at the head of the stream, at its shifts,
// scales and the places of its patches, not at what is coded; a decoder given a stream that was
// parsed never reads outside of it, whatever its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/result.h"
#include "codec/frozen_format.h"

namespace thaw {

struct FrozenStream {
  FrozenKind kind = FrozenKind::kEcq;
  int64_t cols = 0;
  int64_t rows = 0;
  uint64_t bytes = 0;  // of the whole stream
  FrozenStreamHeader header = {};
  const std::byte* raw = nullptr;     // 8 raw_planes a vector
  const std::byte* shifts = nullptr;  // u32
  const std::byte* scales = nullptr;  // f16, [rows] of ecq
  const std::byte* gaps = nullptr;    // u16, of patches
  const std::byte* values = nullptr;  // i8 or u8, of patches
  const std::byte* coded = nullptr;
  const std::byte* states = nullptr;

  int64_t groups() const { return rows / kFrozenGroupRows; }
  int64_t blocks() const { return cols / kFrozenBlock; }  // of a row
};

// The stream at the front of `bytes`, which go on to the end of the tile; it must hold `rows` rows.
// kCorrupt says what was expected and found, without naming file or tensor.
Result<FrozenStream> ParseFrozenStream(FrozenKind kind, int64_t cols, int64_t rows,
                                       std::span<const std::byte> bytes);

// The same for a stream that was parsed before from these bytes: checks nothing.
FrozenStream TrustedFrozenStream(FrozenKind kind, int64_t cols, const std::byte* bytes);

// What decoders look up by the slot of a state, 128 bytes each.
struct SlotTables {
  // A symbol's frequency, doubled: twice as many fit a byte, and vectors shift by 8.
  alignas(64) uint8_t doubled_frequency[kFrozenSlots];
  // slot - start - frequency * slot / 128, a signed number: x' = frequency * x / 128 + bias, with
  // the product divided as a whole.
  alignas(64) int8_t bias[kFrozenSlots];
  // ecq: the number m of raw bits 0, as 2 m + its lowest bit (a signed number). bf16: the symbol.
  alignas(64) uint8_t symbol[kFrozenSlots];
};

// The states of one set, by lanes.
struct StateSet {
  alignas(64) uint8_t low[kFrozenLanes];
  alignas(64) uint8_t high[kFrozenLanes];
};

// A place in a stream, between two groups.
struct StreamCursor {
  StateSet states[kFrozenStateSets];
  SlotTables tables;
  FrozenStream stream;
  const std::byte* raw = nullptr;
  const std::byte* coded = nullptr;
  // `coded` was beyond its section before some 8 vectors, where it was held back: the stream is
  // broken.
  bool was_held_back = false;
  bool has_wide_patch = false;  // a patched integer does not fit 8 bits
  uint32_t shifts_done = 0;
  uint32_t patches_done = 0;
  int64_t last_patched = 0;  // the weight of the patch before, in the order of coding
  int64_t group = 0;         // that comes next

  explicit StreamCursor(const FrozenStream& of);

  // Before each 8 vectors, which take less than what stands behind the sections.
  void HoldBack() {
    if (coded > stream.states) [[unlikely]] {
      was_held_back = true;
      coded = stream.states;
    }
  }
};

// The gap of a patch. Always inlined, as TakePatches is: files that are compiled for an instruction
// set of their own call them, and their copies must not become everybody's.
[[gnu::always_inline]] inline int64_t GapOf(const FrozenStream& stream, uint32_t patch) {
  uint16_t gap;
  std::memcpy(&gap, stream.gaps + sizeof(gap) * uint64_t{patch}, sizeof(gap));
  return gap;
}

// Calls `take(weight, value)` for the patches of the cursor's group that are left among the first
// `weights`, with the number of the weight in the group in the order of coding, and moves the
// cursor behind them.
template <typename Take>
[[gnu::always_inline]] inline void TakePatches(StreamCursor& cursor, int64_t weights, Take take) {
  const FrozenStream& stream = cursor.stream;
  const int64_t begin = cursor.group * kFrozenGroupRows * stream.cols;
  int64_t last = cursor.last_patched - begin;
  uint32_t patch = cursor.patches_done;
  for (; patch < stream.header.patches; ++patch) {
    const int64_t weight = last + GapOf(stream, patch);
    if (weight >= weights) break;
    take(weight, static_cast<uint8_t>(stream.values[patch]));
    last = weight;
  }
  cursor.last_patched = begin + last;
  cursor.patches_done = patch;
}

// Whether a cursor that has gone through all groups has found the stream whole: all states at their
// end, all coded bytes taken, no patch out of range. kCorrupt says what is not.
Result<void> CheckStreamEnd(const StreamCursor& cursor);

}  // namespace thaw
