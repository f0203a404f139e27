#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/round_up.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

constexpr int64_t kTileRows = 96;

constexpr int64_t kMostShorts = 1024;

constexpr float kLog2E = 0x1.715476p+0f;

int64_t TileRows(int64_t group) { return AttentionTileTokens(group) * group; }

// What holds rows of queries, as floats or in int16.
int64_t QueryFloats(int64_t rows, int64_t head_dim) {
  return RoundUp(rows * std::max(head_dim, RoundedQueryStride(head_dim) / 2), 16);
}

// Where the numbers of a row that share a scale lie: 32 at a time, in elements of one number or
// two.
struct Places {
  int64_t first;         // bytes before the first element
  int64_t stride;        // from element to element
  int64_t group_stride;  // from 32 numbers to the next
};

// How a paired type stores the rows of a head: units of positions; of each, the scales of its rows
// precede the numbers that they are of.
struct PairedUnits {
  int64_t positions;      // of a unit
  int64_t block;          // numbers of a row that share a scale
  int64_t number_bytes;   // of each
  int64_t element_bytes;  // of a pair of numbers of a key, of a number of a value
  int64_t n;              // numbers of a row

  int64_t block_bytes() const { return positions * (2 + block * number_bytes); }
  // Of the unit that holds a position.
  int64_t Offset(int64_t position) const {
    return position / positions * (n / block) * block_bytes();
  }

  Places PlacesOf(int64_t position) const {
    const int64_t lane = position % positions;
    const int64_t pair_bytes = 2 * number_bytes;
    if (element_bytes == pair_bytes) {
      const int64_t stride = kKeyUnit * pair_bytes;
      return {positions * 2 + lane / kKeyUnit * (block / 2 * stride) + lane % kKeyUnit * pair_bytes,
              stride, kKvBlock / 2 * stride};
    }
    const int64_t pairs_bytes = kKvBlock * pair_bytes;  // of two positions
    return {positions * 2 + lane / 2 * pairs_bytes + lane % 2 * number_bytes, pair_bytes,
            kPairedUnit / 2 * pairs_bytes};
  }
  // In a block of a row as store_kv writes it.
  Places PlacesInRow() const { return {2, element_bytes, kKvBlock * number_bytes}; }
};

PairedUnits UnitsOfKeys(KvType type, int64_t n) {
  if (type == KvType::kI16) return {kPairedUnit, n, 2, 4, n};
  return {kKeyUnit, kKvBlock, 1, 2, n};
}

PairedUnits UnitsOfValues(KvType type, int64_t n) {
  if (type == KvType::kI16) return {kPairedUnit, n, 2, 2, n};
  return {kPairedUnit, kKvBlock, 1, 1, n};
}

template <int kBytes>
void CopyElements(const PairedUnits& units, const std::byte* from, const Places& from_places,
                  std::byte* to, const Places& to_places) {
  const int64_t elements = kKvBlock * units.number_bytes / kBytes;
  for (int64_t group = 0; group < units.block / kKvBlock; ++group) {
    const std::byte* source = from + from_places.first + group * from_places.group_stride;
    std::byte* target = to + to_places.first + group * to_places.group_stride;
    for (int64_t i = 0; i < elements; ++i) {
      std::memcpy(target + i * to_places.stride, source + i * from_places.stride, kBytes);
    }
  }
}

void CopyNumbers(const PairedUnits& units, const std::byte* from, const Places& from_places,
                 std::byte* to, const Places& to_places) {
  switch (units.element_bytes) {
    case 1:
      return CopyElements<1>(units, from, from_places, to, to_places);
    case 2:
      return CopyElements<2>(units, from, from_places, to, to_places);
    default:
      return CopyElements<4>(units, from, from_places, to, to_places);
  }
}

void StorePaired(const PairedUnits& units, const KernelTable& table, const float* x, KvType type,
                 int64_t position, std::byte* to) {
  std::byte* block = to + units.Offset(position);
  const Places places = units.PlacesOf(position);
  std::byte row[2 + 2 * kMostShorts];
  for (int64_t begin = 0; begin < units.n; begin += units.block) {
    table.store_kv(x + begin, units.block, type, row);
    std::memcpy(block + position % units.positions * 2, row, 2);
    CopyNumbers(units, row, units.PlacesInRow(), block, places);
    block += units.block_bytes();
  }
}

void CopyPaired(const PairedUnits& units, const std::byte* from, int64_t from_position,
                std::byte* to, int64_t to_position) {
  const std::byte* source = from + units.Offset(from_position);
  std::byte* target = to + units.Offset(to_position);
  const Places from_places = units.PlacesOf(from_position);
  const Places to_places = units.PlacesOf(to_position);
  for (int64_t begin = 0; begin < units.n; begin += units.block) {
    std::memcpy(target + to_position % units.positions * 2,
                source + from_position % units.positions * 2, 2);
    CopyNumbers(units, source, from_places, target, to_places);
    source += units.block_bytes();
    target += units.block_bytes();
  }
}

// Adds the state of a row's next span to that of the spans before.
void Merge(const float* next, int64_t v_head_dim, float* state) {
  const int64_t largest_at = PaddedValues(v_head_dim);
  const int64_t weight_at = largest_at + 1;
  const float largest = std::max(state[largest_at], next[largest_at]);
  // One of them is 1.
  const float smaller = std::exp2(std::min(state[largest_at], next[largest_at]) - largest);
  const bool is_raised = next[largest_at] > state[largest_at];
  const float old_factor = is_raised ? smaller : 1;
  const float next_factor = is_raised ? 1 : smaller;
  for (int64_t i = 0; i < v_head_dim; ++i) {
    state[i] = state[i] * old_factor + next[i] * next_factor;
  }
  state[weight_at] = state[weight_at] * old_factor + next[weight_at] * next_factor;
  state[largest_at] = largest;
}

// The mean of the values of a head by their weights.
void Finish(const AttentionArguments& a, int64_t head, const float* state, float* out) {
  const int64_t v_head_dim = a.v_head_dim;
  const float largest = state[PaddedValues(v_head_dim)];
  float weight = state[PaddedValues(v_head_dim) + 1];
  if (a.sinks != nullptr) weight += std::exp2(a.sinks[head] * kLog2E - largest);
  const float factor = 1 / weight;
  for (int64_t i = 0; i < v_head_dim; ++i) out[i] = state[i] * factor;
}

}  // namespace

std::string_view KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
    case KvType::kQ8_0:
      return "q8_0";
    case KvType::kI16:
      break;
  }
  return "i16";
}

bool CanStoreKv(KvType type, int64_t n) {
  if (!IsPaired(type)) return true;
  return n % kKvBlock == 0 && (type == KvType::kQ8_0 || n <= kMostShorts);
}

int64_t KvRowBytes(KvType type, int64_t n) {
  switch (type) {
    case KvType::kF32:
      return n * 4;
    case KvType::kF16:
    case KvType::kBF16:
      return n * 2;
    case KvType::kI16:
      return 2 + n * 2;
    case KvType::kQ8_0:
      break;
  }
  return (n + kKvBlock - 1) / kKvBlock * kKvBlockBytes;
}

int64_t KeyBytes(KvType type, int64_t head_dim, int64_t n_positions) {
  const int64_t unit = type == KvType::kI16 ? kPairedUnit : kKeyUnit;
  return RoundUp(n_positions, unit) * KvRowBytes(type, head_dim);
}

int64_t ValueBytes(KvType type, int64_t v_head_dim, int64_t n_positions) {
  const int64_t unit = IsPaired(type) ? kPairedUnit : 1;
  return RoundUp(n_positions, unit) * KvRowBytes(type, v_head_dim);
}

void StoreKey(const KernelTable& table, const float* x, int64_t n, KvType type, int64_t position,
              std::byte* keys) {
  if (IsPaired(type)) return StorePaired(UnitsOfKeys(type, n), table, x, type, position, keys);
  std::byte* unit = keys + position / kKeyUnit * kKeyUnit * KvRowBytes(type, n);
  const int64_t lane = position % kKeyUnit;
  const int64_t size = type == KvType::kF32 ? 4 : 2;
  constexpr int64_t kPart = 32;
  std::byte row[kPart * sizeof(float)];  // a part of the key as a row
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = std::min(kPart, n - begin);
    table.store_kv(x + begin, count, type, row);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(unit + ((begin + i) * kKeyUnit + lane) * size, row + i * size,
                  static_cast<size_t>(size));
    }
  }
}

void StoreValue(const KernelTable& table, const float* x, int64_t n, KvType type, int64_t position,
                std::byte* values) {
  if (IsPaired(type)) return StorePaired(UnitsOfValues(type, n), table, x, type, position, values);
  table.store_kv(x, n, type, values + position * KvRowBytes(type, n));
}

void CopyKey(KvType type, int64_t n, const std::byte* from, int64_t from_position, std::byte* to,
             int64_t to_position) {
  if (IsPaired(type)) {
    return CopyPaired(UnitsOfKeys(type, n), from, from_position, to, to_position);
  }
  const int64_t size = type == KvType::kF32 ? 4 : 2;
  const auto offset = [&](int64_t position) {
    return position / kKeyUnit * kKeyUnit * KvRowBytes(type, n) + position % kKeyUnit * size;
  };
  from += offset(from_position);
  to += offset(to_position);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * kKeyUnit * size, from + i * kKeyUnit * size, static_cast<size_t>(size));
  }
}

void CopyValue(KvType type, int64_t n, const std::byte* from, int64_t from_position, std::byte* to,
               int64_t to_position) {
  if (IsPaired(type)) {
    return CopyPaired(UnitsOfValues(type, n), from, from_position, to, to_position);
  }
  const int64_t row = KvRowBytes(type, n);
  std::memcpy(to + to_position * row, from + from_position * row, static_cast<size_t>(row));
}

int64_t AttentionTileTokens(int64_t group) { return std::max<int64_t>(1, kTileRows / group); }

SpanScratch LayOutSpanScratch(int64_t rows, int64_t head_dim, std::byte* scratch) {
  SpanScratch parts;
  parts.q = reinterpret_cast<float*>(scratch);
  parts.scores = parts.q + QueryFloats(rows, head_dim);
  parts.weights = reinterpret_cast<int16_t*>(parts.scores + rows * kAttentionBlock);
  parts.keys = reinterpret_cast<float*>(parts.weights + RoundUp(rows * kWeightStride, 32));
  parts.values = parts.keys + head_dim * kAttentionBlock;
  return parts;
}

int64_t SpanScratchBytes(int64_t rows, int64_t head_dim, int64_t v_head_dim) {
  const int64_t weights = RoundUp(rows * kWeightStride, 32);
  const int64_t floats =
      QueryFloats(rows, head_dim) + (rows + head_dim + PaddedValues(v_head_dim)) * kAttentionBlock;
  return weights * int64_t{sizeof(int16_t)} + floats * int64_t{sizeof(float)};
}

int64_t AttentionScratchBytes(int64_t group, int64_t head_dim, int64_t v_head_dim) {
  // The states of a span and of those before it; then what attend_span takes.
  const int64_t rows = TileRows(group);
  return 2 * rows * AttentionStateFloats(v_head_dim) * int64_t{sizeof(float)} +
         SpanScratchBytes(rows, head_dim, v_head_dim);
}

void Attend(const KernelTable& table, const AttentionArguments& a, std::byte* scratch) {
  const int64_t stride = AttentionStateFloats(a.v_head_dim);
  const int64_t rows = a.n_tokens * a.group;
  auto* states = reinterpret_cast<float*>(scratch);
  float* next = states + TileRows(a.group) * stride;
  auto* span_scratch = reinterpret_cast<std::byte*>(next + TileRows(a.group) * stride);
  const int64_t first_span = FirstSpanOf(a);
  table.attend_span(a, first_span, states, span_scratch);
  const int64_t n_spans = AttentionSpanOf(a.first_position + a.n_tokens - 1) + 1;
  for (int64_t span = first_span + 1; span < n_spans; ++span) {
    table.attend_span(a, span, next, span_scratch);
    const int64_t first_token = std::max<int64_t>(0, span * kAttentionSpan - a.first_position);
    for (int64_t row = first_token * a.group; row < rows; ++row) {
      Merge(next + row * stride, a.v_head_dim, states + row * stride);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    Finish(a, row % a.group, states + row * stride,
           a.out + row / a.group * a.out_stride + row % a.group * a.v_head_dim);
  }
}

void MergeSpans(const AttentionArguments& a, float* states) {
  const int64_t stride = AttentionStateFloats(a.v_head_dim);
  const int64_t first_span = FirstSpanOf(a);
  const int64_t last_span = AttentionSpanOf(a.first_position);
  for (int64_t row = 0; row < a.group; ++row) {
    float* of_row = states + row * stride;
    float* state = of_row + first_span * a.group * stride;
    for (int64_t span = first_span + 1; span <= last_span; ++span) {
      Merge(of_row + span * a.group * stride, a.v_head_dim, state);
    }
    Finish(a, row, state, a.out + row * a.v_head_dim);
  }
}

}  // namespace thaw
