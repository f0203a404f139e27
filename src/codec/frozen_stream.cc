#include "codec/frozen_stream.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/load.h"
#include "base/round_up.h"
#include "tensor/half.h"

namespace thaw {
namespace {

constexpr uint64_t kStateBytes = kFrozenStateSets * sizeof(StateSet);
constexpr uint16_t kInfinity = 0x7c00;

uint64_t VectorsOf(const FrozenStream& s) {
  return static_cast<uint64_t>(s.groups() * (s.cols / kFrozenColsOfVector));
}

// Sets the sections' places from the header.
void Place(FrozenStream& s, const std::byte* bytes) {
  const FrozenStreamHeader& h = s.header;
  s.raw = bytes + sizeof(h);
  s.shifts = s.raw + 8 * h.raw_planes * VectorsOf(s);
  s.scales = s.shifts + sizeof(uint32_t) * uint64_t{h.shifts};
  s.gaps = s.scales + (s.kind == FrozenKind::kEcq ? 2 * static_cast<uint64_t>(s.rows) : 0);
  s.values = s.gaps + sizeof(uint16_t) * uint64_t{h.patches};
  s.coded = s.values + h.patches;
  s.states = s.coded + h.coded_bytes;
  const auto end = static_cast<uint64_t>(s.states + kStateBytes - bytes);
  s.bytes = RoundUp(end, kFrozenAlignment);
}

Result<void> CheckCounts(const FrozenStream& s, int64_t rows) {
  const FrozenStreamHeader& h = s.header;
  if (h.rows != static_cast<uint64_t>(rows)) {
    return Fail(ErrorCode::kCorrupt, "its rows are {}, expected {}", h.rows, rows);
  }
  const uint64_t weights = VectorsOf(s) * kFrozenLanes;
  if (h.coded_bytes > weights || h.patches > weights) {
    return Fail(ErrorCode::kCorrupt,
                "it has {} coded bytes and {} patches, expected at most one a weight, {}",
                h.coded_bytes, h.patches, weights);
  }
  const bool is_ecq = s.kind == FrozenKind::kEcq;
  const uint64_t most_shifts = is_ecq ? weights / kFrozenBlock : 0;
  if (h.shifts > most_shifts) {
    return Fail(ErrorCode::kCorrupt, "it has {} shifts, expected at most {}", h.shifts,
                most_shifts);
  }
  if (is_ecq ? h.raw_planes > 2 : h.raw_planes != 8) {
    return Fail(ErrorCode::kCorrupt, "its raw planes are {}, expected {}", h.raw_planes,
                is_ecq ? "0 to 2" : "8");
  }
  return {};
}

Result<void> CheckSymbols(FrozenKind kind, const FrozenStreamHeader& h) {
  if (h.symbols < 2 || h.symbols > kFrozenMaxSymbols) {
    return Fail(ErrorCode::kCorrupt, "its symbols are {}, expected 2 to {}", h.symbols,
                kFrozenMaxSymbols);
  }
  const bool is_ecq = kind == FrozenKind::kEcq;
  const int first = is_ecq ? static_cast<int8_t>(h.first_symbol) : h.first_symbol;
  const int last = first + h.symbols - 1;
  const int least = is_ecq ? -64 >> h.raw_planes : 0;
  const int most = is_ecq ? 63 >> h.raw_planes : 255;
  if (first < least || last > most) {
    return Fail(ErrorCode::kCorrupt, "its symbols go from {} to {}, expected within {} and {}",
                first, last, least, most);
  }
  int sum = 0;
  for (int i = 0; i < kFrozenMaxSymbols; ++i) {
    const int frequency = h.frequencies[i];
    sum += frequency;
    if (frequency >= kFrozenSlots || (i >= h.symbols && frequency != 0)) {
      return Fail(ErrorCode::kCorrupt, "frequency {} is {}, expected {}", i, frequency,
                  i >= h.symbols ? "0 behind those of the symbols" : "at most 127");
    }
  }
  if (sum != kFrozenSlots || h.zero != 0) {
    return Fail(ErrorCode::kCorrupt,
                "its frequencies add up to {}, and byte 19 is {}; expected 128 and 0", sum, h.zero);
  }
  return {};
}

// Scales are finite and not negative, with and without shift.
Result<void> CheckScales(const FrozenStream& s) {
  for (int64_t row = 0; row < s.rows; ++row) {
    const auto scale = LoadAs<uint16_t>(s.scales + 2 * row);
    if (scale >= kInfinity) {
      return Fail(
          ErrorCode::kCorrupt,
          "the scale of its row {} is {:#06x}, expected a finite number that is not negative", row,
          scale);
    }
  }
  int64_t previous = -1;
  for (uint32_t i = 0; i < s.header.shifts; ++i) {
    const auto shift = LoadAs<uint32_t>(s.shifts + 4 * uint64_t{i});
    const int64_t block = shift >> kFrozenShiftBits;
    const int64_t of_group = s.blocks() * kFrozenGroupRows;
    const int by = static_cast<int>(shift & ((1U << kFrozenShiftBits) - 1));
    if (block <= previous || block >= s.groups() * of_group || by == 0) {
      return Fail(
          ErrorCode::kCorrupt,
          "shift {} is {} for block {}, expected 1 to 15 for a block behind {} and below {}", i, by,
          block, previous, s.groups() * of_group);
    }
    previous = block;
    const int64_t row = block / of_group * kFrozenGroupRows + block % kFrozenGroupRows;
    const float scale = F16ToF32(LoadAs<uint16_t>(s.scales + 2 * row));
    if (F32ToF16(scale * static_cast<float>(1 << by)) >= kInfinity) {
      return Fail(ErrorCode::kCorrupt, "the scale of its block {}, {} times 2^{}, is not finite",
                  block, scale, by);
    }
  }
  return {};
}

// Patches lie within the stream, one behind the other.
Result<void> CheckPatches(const FrozenStream& s) {
  const auto weights = static_cast<int64_t>(VectorsOf(s) * kFrozenLanes);
  int64_t last = 0;
  for (uint32_t i = 0; i < s.header.patches; ++i) {
    const int64_t gap = GapOf(s, i);
    const bool is_of_nothing = s.values[i] == std::byte{0};
    last += gap;
    if (last < weights && (gap > 0 || i == 0) && (!is_of_nothing || gap == kFrozenLongestGap)) {
      continue;
    }
    return Fail(ErrorCode::kCorrupt,
                "patch {}, of the value {}, is {} weights behind the one before it, at weight {}; "
                "expected 1 or more ({} where the value is 0) and a weight below {}",
                i, std::to_integer<int>(s.values[i]), gap, last, kFrozenLongestGap, weights);
  }
  return {};
}

}  // namespace

Result<FrozenStream> ParseFrozenStream(FrozenKind kind, int64_t cols, int64_t rows,
                                       std::span<const std::byte> bytes) {
  FrozenStream s{.kind = kind, .cols = cols, .rows = rows};
  if (bytes.size() < sizeof(s.header)) {
    return Fail(ErrorCode::kCorrupt, "it has {} bytes, expected {} or more", bytes.size(),
                sizeof(s.header));
  }
  std::memcpy(&s.header, bytes.data(), sizeof(s.header));
  THAW_TRY(CheckCounts(s, rows));
  THAW_TRY(CheckSymbols(kind, s.header));
  Place(s, bytes.data());
  if (s.bytes > bytes.size()) {
    return Fail(ErrorCode::kCorrupt, "it takes {} bytes, expected at most {} up to its tile's end",
                s.bytes, bytes.size());
  }
  const std::byte* end = s.states + kStateBytes;
  if (std::any_of(end, bytes.data() + s.bytes, [](std::byte b) { return b != std::byte{0}; })) {
    return Fail(ErrorCode::kCorrupt, "the bytes behind its states are not 0");
  }
  if (kind == FrozenKind::kEcq) THAW_TRY(CheckScales(s));
  THAW_TRY(CheckPatches(s));
  return s;
}

FrozenStream TrustedFrozenStream(FrozenKind kind, int64_t cols, const std::byte* bytes) {
  FrozenStream s{.kind = kind, .cols = cols};
  std::memcpy(&s.header, bytes, sizeof(s.header));
  s.rows = s.header.rows;
  Place(s, bytes);
  return s;
}

StreamCursor::StreamCursor(const FrozenStream& of) : stream(of), raw(of.raw), coded(of.coded) {
  std::memcpy(states, of.states, sizeof(states));
  const FrozenStreamHeader& h = of.header;
  const bool is_ecq = of.kind == FrozenKind::kEcq;
  int slot = 0;
  for (int i = 0; i < h.symbols; ++i) {
    const int frequency = h.frequencies[i];
    int symbol = static_cast<uint8_t>(h.first_symbol + i);
    if (is_ecq) {
      const int m = static_cast<int8_t>(symbol) * (1 << h.raw_planes);
      symbol = 2 * m | (m & 1);
    }
    for (int j = 0; j < frequency; ++j, ++slot) {
      tables.doubled_frequency[slot] = static_cast<uint8_t>(2 * frequency);
      tables.bias[slot] = static_cast<int8_t>(j - frequency * slot / kFrozenSlots);
      tables.symbol[slot] = static_cast<uint8_t>(symbol);
    }
  }
  THAW_CHECK(slot == kFrozenSlots);
}

Result<void> CheckStreamEnd(const StreamCursor& cursor) {
  const FrozenStream& s = cursor.stream;
  THAW_CHECK(cursor.group == s.groups());
  if (cursor.was_held_back) {
    return Fail(ErrorCode::kCorrupt, "its weights take more than its {} coded bytes",
                s.header.coded_bytes);
  }
  if (cursor.coded != s.states) {
    return Fail(ErrorCode::kCorrupt, "its weights take {} coded bytes, expected {}",
                cursor.coded - s.coded, s.header.coded_bytes);
  }
  for (int64_t i = 0; i < kFrozenStates; ++i) {
    const StateSet& set = cursor.states[i / kFrozenLanes];
    const int x = 256 * set.high[i % kFrozenLanes] + set.low[i % kFrozenLanes];
    if (x == kFrozenLowestState) continue;
    return Fail(ErrorCode::kCorrupt, "state {} ends at {}, expected {}", i, x, kFrozenLowestState);
  }
  if (cursor.has_wide_patch) {
    return Fail(ErrorCode::kCorrupt, "a patch takes an integer beyond -128 or 127");
  }
  return {};
}

}  // namespace thaw
