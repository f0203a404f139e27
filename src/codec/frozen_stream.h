// One stream of a frozen tile, looked at where it lies (docs/format.md, section 3), and the cursor
// by which decoders walk through it.
//
// Views into bytes that must outlive them. Parsing looks at the head of the stream and at its
// shifts and scales, not at what is coded; a decoder given a stream that was parsed never reads
// outside of it, whatever its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
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
  const std::byte* escapes = nullptr;
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
  // ecq: the number m of raw bits 0, as 2 m + its lowest bit (a signed number); the escape 1, which
  // no number gives. bf16: the symbol; the escape is escape_symbol.
  alignas(64) uint8_t symbol[kFrozenSlots];
  uint8_t escape_symbol = 1;
};

// A place in a stream, between two groups.
struct StreamCursor {
  alignas(64) uint16_t states[kFrozenStates];
  SlotTables tables;
  FrozenStream stream;
  const std::byte* raw = nullptr;
  const std::byte* escapes = nullptr;
  const std::byte* coded = nullptr;
  // A place was beyond its section before some 8 vectors, where it was held back: it is broken.
  bool was_held_back = false;
  uint32_t shifts_done = 0;
  int64_t group = 0;  // that comes next

  explicit StreamCursor(const FrozenStream& of);

  // Before each 8 vectors, which take less than what stands behind the sections.
  void HoldBack() {
    if (coded > stream.states || escapes > stream.coded) [[unlikely]] {
      was_held_back = true;
      coded = coded < stream.states ? coded : stream.states;
      escapes = escapes < stream.coded ? escapes : stream.coded;
    }
  }
};

// Whether a cursor that has gone through all groups has found the stream whole: all states at their
// end, all escapes and coded bytes taken. kCorrupt says what is not.
Result<void> CheckStreamEnd(const StreamCursor& cursor);

}  // namespace thaw
