#include "kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/load.h"
#include "kernels/portable/int8_block.h"
#include "kernels/portable/portable.h"
#include "tensor/half.h"

namespace thaw {

namespace portable {
namespace {

// Below this the scale, amax / 127, is no normal number, and so neither as exact as the others nor
// sure to have a reciprocal; next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-119f;

// The same of amax / 32767.
constexpr float kSmallestAmaxOfShorts = 0x1p-111f;

constexpr uint16_t kBF16NaN = 0x7fc0;

// Number i of a float type.
float LoadFloat(const std::byte* from, int64_t i, KvType type) {
  if (type == KvType::kF32) return LoadAs<float>(from + i * 4);
  const auto bits = LoadAs<uint16_t>(from + i * 2);
  return type == KvType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
}

// Of the paired types (kernels/attention.h): the scale of a lane of a block of a unit, times the
// number at `place` in the order of memory.
float LoadPaired(KvType type, const std::byte* block, int64_t lanes, int64_t lane, int64_t place) {
  const float scale = BF16ToF32(LoadAs<uint16_t>(block + 2 * lane));
  const std::byte* numbers = block + 2 * lanes;
  if (type == KvType::kI16) {
    return scale * static_cast<float>(LoadAs<int16_t>(numbers + 2 * place));
  }
  return scale * static_cast<float>(LoadAs<int8_t>(numbers + place));
}

// Number i of the value at a place.
float LoadValue(const AttentionArguments& a, int64_t place, int64_t i) {
  const int64_t row_bytes = KvRowBytes(a.kv_type, a.v_head_dim);
  if (!IsPaired(a.kv_type)) return LoadFloat(a.v + place * row_bytes, i, a.kv_type);
  const int64_t lane = place % kPairedUnit;
  const std::byte* unit = a.v + (place - lane) * row_bytes;
  const auto place_in = [&](int64_t pair) {
    return (pair * kKvBlock + i % kKvBlock) * 2 + lane % 2;
  };
  if (a.kv_type == KvType::kI16) {
    return LoadPaired(a.kv_type, unit, kPairedUnit, lane,
                      place_in(i / kKvBlock * (kPairedUnit / 2) + lane / 2));
  }
  return LoadPaired(a.kv_type, unit + i / kKvBlock * kKvBlockBytes * kPairedUnit, kPairedUnit, lane,
                    place_in(lane / 2));
}

// Number i of the key at a place.
float LoadKey(const AttentionArguments& a, int64_t place, int64_t i) {
  const int64_t row_bytes = KvRowBytes(a.kv_type, a.head_dim);
  const int64_t lane = place % kKeyUnit;
  const auto place_in = [&](int64_t pair) { return (pair * kKeyUnit + lane) * 2 + i % 2; };
  if (a.kv_type == KvType::kI16) {
    const int64_t of_unit = place % kPairedUnit;
    return LoadPaired(a.kv_type, a.k + (place - of_unit) * row_bytes, kPairedUnit, of_unit,
                      place_in(of_unit / kKeyUnit * (a.head_dim / 2) + i / 2));
  }
  const std::byte* unit = a.k + (place - lane) * row_bytes;
  if (!IsPaired(a.kv_type)) return LoadFloat(unit, i * kKeyUnit + lane, a.kv_type);
  return LoadPaired(a.kv_type, unit + i / kKvBlock * kKvBlockBytes * kKeyUnit, kKeyUnit, lane,
                    place_in(i % kKvBlock / 2));
}

// Scores below this have the weight of this, the smallest that is a normal number.
constexpr float kSmallestExponent = -126;

// 2^x for x <= 0.
float Weight(float x) { return std::exp2(x < kSmallestExponent ? kSmallestExponent : x); }

void StoreBlock(const float* x, std::byte* out) {
  const float amax = LargestMagnitude(x, kKvBlock);
  uint16_t scale = 0;
  int8_t quants[kKvBlock] = {};
  if (!IsFiniteMagnitude(amax)) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = F32ToBF16(amax / 127.0f);
    const float inverse = 1.0f / BF16ToF32(scale);
    for (int64_t i = 0; i < kKvBlock; ++i) {
      quants[i] = static_cast<int8_t>(RoundToInt(x[i] * inverse));
    }
  }
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), quants, sizeof(quants));
}

void StoreShorts(const float* x, int64_t n, std::byte* out) {
  const float amax = LargestMagnitude(x, n);
  uint16_t scale = 0;
  float inverse = 0;
  if (!IsFiniteMagnitude(amax)) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmaxOfShorts) {
    scale = static_cast<uint16_t>((std::bit_cast<uint32_t>(amax / 32767.0f) + 0xffff) >> 16);
    inverse = 1.0f / BF16ToF32(scale);
  }
  std::memcpy(out, &scale, sizeof(scale));
  for (int64_t i = 0; i < n; ++i) {
    const auto number = static_cast<int16_t>(inverse == 0 ? 0 : RoundToInt(x[i] * inverse));
    std::memcpy(out + sizeof(scale) + i * int64_t{sizeof(number)}, &number, sizeof(number));
  }
}

void StoreHalves(const float* x, int64_t n, KvType type, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = type == KvType::kF16 ? F32ToF16(x[i]) : F32ToBF16(x[i]);
    std::memcpy(out + i * int64_t{sizeof(bits)}, &bits, sizeof(bits));
  }
}

// A row's state (kernels/attention.h), empty at first.
struct State {
  State(float* state, int64_t v_head_dim)
      : sums(state),
        largest(state[PaddedValues(v_head_dim)]),
        weight(state[PaddedValues(v_head_dim) + 1]) {
    std::fill_n(sums, v_head_dim, 0.0f);
    largest = kLowestScore;
    weight = 0;
  }

  float* sums;
  float& largest;
  float& weight;
};

// What a product of a query and a key comes to before the softmax, in units of log2(e); `head` of
// the group, and the key's position less the token's.
float Score(const AttentionArguments& a, float dot, int64_t head, int64_t distance) {
  float score = a.soft_cap == 0 ? dot : a.soft_cap * std::tanh(dot / a.soft_cap);
  if (a.slopes != nullptr) score += a.slopes[head] * static_cast<float>(distance);
  return score * std::numbers::log2e_v<float>;
}

// Adds positions [begin, begin + count) of one block to the state of a row of the tile.
void AttendBlock(const AttentionArguments& a, int64_t row, int64_t begin, int64_t count,
                 State& state) {
  const int64_t token = row / a.group;
  const int64_t head = row % a.group;
  const float* q = a.q + token * a.q_stride + head * a.head_dim;
  float scores[kAttentionBlock];
  float largest = state.largest;
  for (int64_t j = 0; j < count; ++j) {
    float dot = 0;
    const int64_t place = PlaceInRing(a.ring, begin + j);
    for (int64_t i = 0; i < a.head_dim; ++i) dot += q[i] * a.scale * LoadKey(a, place, i);
    scores[j] = Score(a, dot, head, begin + j - (a.first_position + token));
    largest = std::max(largest, scores[j]);
  }
  const float factor = Weight(state.largest - largest);
  state.largest = largest;
  state.weight *= factor;
  for (int64_t i = 0; i < a.v_head_dim; ++i) state.sums[i] *= factor;
  for (int64_t j = 0; j < count; ++j) {
    const float weight = Weight(scores[j] - largest);
    state.weight += weight;
    const int64_t place = PlaceInRing(a.ring, begin + j);
    for (int64_t i = 0; i < a.v_head_dim; ++i) state.sums[i] += weight * LoadValue(a, place, i);
  }
}

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      break;
    case KvType::kF16:
    case KvType::kBF16:
      StoreHalves(x, n, type, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) StoreBlock(x + i, out);
      break;
    case KvType::kI16:
      StoreShorts(x, n, out);
      break;
  }
}

void AttendSpan(const AttentionArguments& a, int64_t span, float* states, std::byte* /*scratch*/) {
  for (int64_t row = 0; row < a.n_tokens * a.group; ++row) {
    const int64_t token = row / a.group;
    float* state = states + row * AttentionStateFloats(a.v_head_dim);
    State sums(state, a.v_head_dim);
    const int64_t position = a.first_position + token;
    const int64_t first = FirstVisible(a.window, position);
    const int64_t end = std::min((span + 1) * kAttentionSpan, position + 1);
    for (int64_t block = span * kAttentionSpan; block < end; block += kAttentionBlock) {
      const int64_t begin = std::max(block, first);
      const int64_t block_end = std::min(block + kAttentionBlock, end);
      if (begin < block_end) AttendBlock(a, row, begin, block_end - begin, sums);
    }
  }
}

}  // namespace portable
}  // namespace thaw
