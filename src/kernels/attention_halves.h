// Keys and values in float16 as factors of products in integers (kernels/attention_pairs.h).
//
// The numbers of a key, or of a value, share a power of two: with e the exponent field of the
// largest, number = integer * 2^(e - 29), below 2^15 in magnitude. float16 has 11 bits, so numbers
// down to a 16th of the largest are exact, and the others off by at most half of the power, a
// 2^-15th of the largest. Adding 1.5 * 2^23 times the power to a number in float32 rounds it so, to
// nearest, and leaves the integer in the low bits. Where the largest is infinite or a NaN, the
// power to multiply with is a NaN.
//
// The power of a key or a value depends on its own numbers alone, which keeps rows invariant.
//
// V (kernels/attention_tile.h) has 16 lanes here and
//   LargerMagnitudes(most, from)   of 32 float16, their bits without signs, those that are larger
//   LargerMagnitudesOfFirst        the same of the first n
//   LargestByLane                  of 16 pairs, lane and lane + 16
//   LargestOfEach                  of 16 such vectors
//   PowerToAdd, PowerOf            of such bits in lanes of 32 bits: 1.5 * 2^23 times the power,
//                                  which is 2^(e - 29), and the power itself
//   FixedPairs(a, add_a, b, add_b) 16 float16 from a and 16 from b as pairs of integers
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/attention_pairs.h"

namespace thaw::attention_tile {

// What makes integers of the keys or the values of a block, by position.
struct HalfPowers {
  float* add;    // [kAttentionBlock]
  float* power;  // [kAttentionBlock]
};

// Units of keys, converted as they are loaded.
template <typename V>
struct HalfKeys {
  struct Pairs {
    const std::byte* data;
    const float* add;
    int64_t unit_bytes;

    typename V::Ints Load(int j) const {
      const std::byte* at = data + j * unit_bytes;
      const typename V::Type of_keys = V::Load(add + j * kKeyUnit);
      return V::FixedPairs(at, of_keys, at + 2 * kKeyUnit, of_keys);
    }
    void Prefetch() const { V::PrefetchBlock(data + kAttentionBlock / kKeyUnit * unit_bytes); }
    void Next() { data += 4 * kKeyUnit; }
  };

  const std::byte* units;
  int64_t unit_bytes;
  HalfPowers powers;

  HalfKeys From(int64_t unit) const {
    return {.units = units + unit * unit_bytes,
            .unit_bytes = unit_bytes,
            .powers = {powers.add + unit * kKeyUnit, powers.power + unit * kKeyUnit}};
  }
  Pairs Block(int64_t block) const {
    return {units + block * (2 * kKvBlock * kKeyUnit), powers.add, unit_bytes};
  }
  typename V::Type Scales(int64_t /*block*/, int j) const {
    return V::Load(powers.power + j * kKeyUnit);
  }

  void FindPowers(int64_t n_units) const {
    for (int64_t unit = 0; unit < n_units; ++unit) {
      const std::byte* from = units + unit * unit_bytes;
      typename V::Ints most = V::ZeroInts();
      for (int64_t i = 0; i < unit_bytes; i += 4 * kKeyUnit) {
        most = V::LargerMagnitudes(most, from + i);
      }
      const typename V::Ints largest = V::LargestByLane(most);
      V::Store(powers.add + unit * kKeyUnit, V::PowerToAdd(largest));
      V::Store(powers.power + unit * kKeyUnit, V::PowerOf(largest));
    }
  }
};

// The same as integers, [head_dim / 2][kKeyUnit] pairs for each unit.
template <typename V>
struct ShortKeys {
  const int16_t* units;
  int64_t unit_shorts;
  const float* powers;

  ShortKeys From(int64_t unit) const {
    return {units + unit * unit_shorts, unit_shorts, powers + unit * kKeyUnit};
  }
  ShortPairs<V> Block(int64_t block) const {
    return {units + block * (kKvBlock * kKeyUnit), 2 * kKeyUnit, unit_shorts};
  }
  typename V::Type Scales(int64_t /*block*/, int j) const { return V::Load(powers + j * kKeyUnit); }
};

// Rows of values, of which the first n are seen, converted as they are loaded.
template <typename V>
struct HalfValues {
  const std::byte* rows;
  int64_t row_bytes;
  int64_t n;
  HalfPowers powers;

  HalfValues From(int64_t vector) const {
    HalfValues values = *this;
    values.rows += vector * (2 * V::kLanes);
    return values;
  }
  typename V::Ints Load(int j) const {
    const std::byte* from = rows + j * (2 * V::kLanes);
    return V::FixedPairs(from, V::Set(powers.add[0]), from + row_bytes, V::Set(powers.add[1]));
  }
  void Prefetch() const {
    V::PrefetchBlock(rows + kAttentionBlock * row_bytes);
    V::PrefetchBlock(rows + (kAttentionBlock + 1) * row_bytes);
  }
  void Next() {
    rows += 2 * row_bytes;
    powers.add += 2;
  }

  void FindPowers() const {
    for (int64_t begin = 0; begin < n; begin += V::kLanes) {
      typename V::Ints most[V::kLanes];
#pragma GCC unroll 16
      for (int64_t r = 0; r < V::kLanes; ++r) {
        most[r] = LargestOfRow(begin + r < n ? begin + r : n - 1);
      }
      const typename V::Ints largest = V::LargestOfEach(most);
      V::Store(powers.add + begin, V::PowerToAdd(largest));
      V::Store(powers.power + begin, V::PowerOf(largest));
    }
  }

  typename V::Ints LargestOfRow(int64_t row) const {
    const std::byte* from = rows + row * row_bytes;
    typename V::Ints most = V::ZeroInts();
    int64_t i = 0;
    for (; i + 4 * V::kLanes <= row_bytes; i += 4 * V::kLanes) {
      most = V::LargerMagnitudes(most, from + i);
    }
    if (i < row_bytes) most = V::LargerMagnitudesOfFirst(most, from + i, (row_bytes - i) / 2);
    return most;
  }
};

// The integers of n_units units of keys go to `out`.
template <typename V>
void ConvertKeys(const HalfKeys<V>& keys, int64_t n_units, int16_t* out) {
  for (int64_t unit = 0; unit < n_units; ++unit) {
    typename HalfKeys<V>::Pairs pairs = keys.From(unit).Block(0);
    for (int64_t i = 0; i < keys.unit_bytes; i += 4 * kKeyUnit, out += 2 * V::kLanes) {
      V::StoreInts(out, pairs.Load(0));
      pairs.Next();
    }
  }
}

// Those of values, with zeros up to whole vectors: [n / 2, rounded up][padded] pairs. The last of
// an odd number is its own partner; that one has no weight.
template <typename V>
void ConvertValues(const HalfValues<V>& values, int64_t padded, int16_t* out) {
  for (int64_t position = 0; position < values.n; position += 2) {
    const std::byte* first = values.rows + position * values.row_bytes;
    const bool is_last = position + 1 == values.n;
    const std::byte* second = is_last ? first : first + values.row_bytes;
    const typename V::Type add_first = V::Set(values.powers.add[position]);
    const typename V::Type add_second = V::Set(values.powers.add[position + (is_last ? 0 : 1)]);
    int64_t at = 0;
    for (; at + 2 * V::kLanes <= values.row_bytes; at += 2 * V::kLanes, out += 2 * V::kLanes) {
      V::StoreInts(out, V::FixedPairs(first + at, add_first, second + at, add_second));
    }
    if (at == 2 * padded) continue;
    std::byte rest[2][2 * V::kLanes] = {};
    std::memcpy(rest[0], first + at, static_cast<size_t>(values.row_bytes - at));
    std::memcpy(rest[1], second + at, static_cast<size_t>(values.row_bytes - at));
    V::StoreInts(out, V::FixedPairs(rest[0], add_first, rest[1], add_second));
    out += 2 * V::kLanes;
  }
}

}  // namespace thaw::attention_tile
