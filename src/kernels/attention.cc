#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/round_up.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

constexpr int64_t kTileRows = 96;

constexpr float kLog2E = 0x1.715476p+0f;

int64_t TileRows(int64_t group) { return AttentionTileTokens(group) * group; }

// What holds rows of queries, as floats or in int16.
int64_t QueryFloats(int64_t rows, int64_t head_dim) {
  return RoundUp(rows * std::max(head_dim, RoundedQueryStride(head_dim) / 2), 16);
}

// Units of kQ8_0: their positions, and where number i of a block of one of them lies.
struct PairedUnits {
  int64_t positions;
  int64_t (*place)(int64_t lane, int64_t i);
};
constexpr PairedUnits kPairedKeys = {kKeyUnit, [](int64_t lane, int64_t i) {
                                       return (kKeyUnit + i / 2 * kKeyUnit + lane) * 2 + i % 2;
                                     }};
constexpr PairedUnits kPairedValues = {kPairedValueUnit, [](int64_t lane, int64_t i) {
                                         return (kPairedValueUnit + lane / 2 * kKvBlock + i) * 2 +
                                                lane % 2;
                                       }};

// Bytes before the first block of the unit of a position.
int64_t UnitOffset(const PairedUnits& units, int64_t n, int64_t position) {
  return position / units.positions * units.positions * KvRowBytes(KvType::kQ8_0, n);
}

void StorePaired(const PairedUnits& units, const KernelTable& table, const float* x, int64_t n,
                 int64_t position, std::byte* to) {
  std::byte* block = to + UnitOffset(units, n, position);
  const int64_t lane = position % units.positions;
  for (int64_t begin = 0; begin < n; begin += kKvBlock) {
    std::byte row[kKvBlockBytes];
    table.store_kv(x + begin, kKvBlock, KvType::kQ8_0, row);
    std::memcpy(block + lane * 2, row, 2);
    for (int64_t i = 0; i < kKvBlock; ++i) block[units.place(lane, i)] = row[2 + i];
    block += units.positions * kKvBlockBytes;
  }
}

void CopyPaired(const PairedUnits& units, int64_t n, const std::byte* from, int64_t from_position,
                std::byte* to, int64_t to_position) {
  from += UnitOffset(units, n, from_position);
  to += UnitOffset(units, n, to_position);
  const int64_t from_lane = from_position % units.positions;
  const int64_t to_lane = to_position % units.positions;
  for (int64_t begin = 0; begin < n; begin += kKvBlock) {
    std::memcpy(to + to_lane * 2, from + from_lane * 2, 2);
    for (int64_t i = 0; i < kKvBlock; ++i) {
      to[units.place(to_lane, i)] = from[units.place(from_lane, i)];
    }
    from += units.positions * kKvBlockBytes;
    to += units.positions * kKvBlockBytes;
  }
}

// Adds the state of a row's next span to that of the spans before.
void Merge(const float* next, int64_t v_head_dim, float* state) {
  const int64_t largest_at = PaddedValues(v_head_dim);
  const int64_t weight_at = largest_at + 1;
  const float largest = std::max(state[largest_at], next[largest_at]);
  const float old_factor = std::exp2(state[largest_at] - largest);
  const float next_factor = std::exp2(next[largest_at] - largest);
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
      break;
  }
  return "q8_0";
}

bool CanStoreKv(KvType type, int64_t n) { return type != KvType::kQ8_0 || n % kKvBlock == 0; }

int64_t KvRowBytes(KvType type, int64_t n) {
  switch (type) {
    case KvType::kF32:
      return n * 4;
    case KvType::kF16:
    case KvType::kBF16:
      return n * 2;
    case KvType::kQ8_0:
      break;
  }
  return (n + kKvBlock - 1) / kKvBlock * kKvBlockBytes;
}

int64_t KeyBytes(KvType type, int64_t head_dim, int64_t n_positions) {
  return RoundUp(n_positions, kKeyUnit) * KvRowBytes(type, head_dim);
}

int64_t ValueBytes(KvType type, int64_t v_head_dim, int64_t n_positions) {
  const int64_t unit = type == KvType::kQ8_0 ? kPairedValueUnit : 1;
  return RoundUp(n_positions, unit) * KvRowBytes(type, v_head_dim);
}

void StoreKey(const KernelTable& table, const float* x, int64_t n, KvType type, int64_t position,
              std::byte* keys) {
  if (type == KvType::kQ8_0) return StorePaired(kPairedKeys, table, x, n, position, keys);
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
  if (type == KvType::kQ8_0) return StorePaired(kPairedValues, table, x, n, position, values);
  table.store_kv(x, n, type, values + position * KvRowBytes(type, n));
}

void CopyKey(KvType type, int64_t n, const std::byte* from, int64_t from_position, std::byte* to,
             int64_t to_position) {
  if (type == KvType::kQ8_0) {
    return CopyPaired(kPairedKeys, n, from, from_position, to, to_position);
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
  if (type == KvType::kQ8_0) {
    return CopyPaired(kPairedValues, n, from, from_position, to, to_position);
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
  parts.powers = reinterpret_cast<float*>(parts.weights + RoundUp(rows * kWeightStride, 32));
  parts.keys = parts.powers + 4 * kAttentionBlock;
  parts.values = parts.keys + head_dim * kAttentionBlock;
  return parts;
}

int64_t SpanScratchBytes(int64_t rows, int64_t head_dim, int64_t v_head_dim) {
  const int64_t weights = RoundUp(rows * kWeightStride, 32);
  const int64_t floats = QueryFloats(rows, head_dim) +
                         (rows + 4 + head_dim + PaddedValues(v_head_dim)) * kAttentionBlock;
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
  const int64_t first_span = AttentionSpanOf(FirstVisible(a.window, a.first_position));
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
  const int64_t first_span = AttentionSpanOf(FirstVisible(a.window, a.first_position));
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
