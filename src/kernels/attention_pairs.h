// Products of a tile of attention (kernels/attention_tile.h) in integers: sums of products of
// int16, two by two, in integers of 32 bits.
//
// One factor is rounded to int16, row by row: queries, and weights times the scales of values. The
// other are keys or values: the int8 of kQ8_0, or float16 as integers (kernels/attention_halves.h).
// Sums stay below 2^31: of up to 64 products with int8 below 2^28; with the integers of float16 a
// row of the first factor is rounded so that its magnitudes come to no more than 2^16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/vector_math.h"

namespace thaw::attention_tile {

// A factor: rows of int16, `stride` numbers apart.
struct PairRows {
  const int16_t* data;
  int64_t stride;
};

// The other: pairs, [pairs][columns], of the columns from a vector on. Here pairs of int8.
template <typename V>
struct QuantPairs {
  const std::byte* data;
  int64_t pair_bytes;    // from pair to pair
  int64_t column_bytes;  // from 16 columns to the next
  int64_t ahead_bytes;   // what is asked for meanwhile

  // A scale takes as much as a pair, so this holds for scales of columns as well.
  int64_t Offset(int64_t vector) const {
    const int64_t column = vector * V::kLanes;
    return column / kKeyUnit * column_bytes + column % kKeyUnit * 2;
  }
  QuantPairs From(int64_t vector) const {
    QuantPairs pairs = *this;
    pairs.data += Offset(vector);
    return pairs;
  }
  typename V::Ints Load(int j) const { return V::WidenPairs(data + Offset(j)); }
  void Prefetch() const { V::Prefetch(data + ahead_bytes); }
  void Next() { data += pair_bytes; }
};

// Pairs of int16 in the order of products.
template <typename V>
struct ShortPairs {
  const int16_t* data;
  int64_t pair_shorts;    // from pair to pair
  int64_t column_shorts;  // from 16 columns to the next

  ShortPairs From(int64_t vector) const {
    ShortPairs pairs = *this;
    pairs.data += vector * V::kLanes / kKeyUnit * column_shorts;
    return pairs;
  }
  typename V::Ints Load(int j) const {
    return V::LoadInts(data + j * V::kLanes / kKeyUnit * column_shorts);
  }
  void Prefetch() const {}
  void Next() { data += pair_shorts; }
};

// sums[kRows][kVectors] += a[kRows][2 * pairs] * b[pairs][kVectors * kLanes], of an even number of
// pairs: GCC 12 copies sums from register to register in a loop that may end between two.
template <typename V, int kRows, int kVectors, typename Pairs>
[[gnu::always_inline]] inline void AddPairs(PairRows a, Pairs b, int64_t pairs,
                                            typename V::Ints (&sums)[kRows][kVectors]) {
  for (int64_t i = 0; i < pairs; i += 2) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, b.Next()) {
      typename V::Ints numbers[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) numbers[j] = b.Load(j);
      b.Prefetch();
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename V::Ints factor = V::SetPair(a.data + r * a.stride + 2 * (i + half));
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          sums[r][j] = V::AddProducts(sums[r][j], factor, numbers[j]);
        }
      }
    }
  }
}

template <typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void SetToZero(typename V::Ints (&sums)[kRows][kVectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sums[r][j] = V::ZeroInts();
  }
}

// The keys of kQ8_0, whose scales lie before the pairs of their blocks: `first` are those of the
// first block.
template <typename V>
struct QuantKeys {
  QuantPairs<V> first;

  QuantKeys From(int64_t vector) const { return {first.From(vector)}; }
  QuantPairs<V> Block(int64_t block) const {
    QuantPairs<V> pairs = first;
    pairs.data += block * kKvBlockBytes * kKeyUnit;
    return pairs;
  }
  typename V::Type Scales(int64_t block, int j) const {
    const QuantPairs<V> pairs = Block(block);
    return V::LoadBF16(pairs.data + pairs.Offset(j) - kKeyUnit * 2);
  }
};

// Scores of rows of queries with keys. Integers are summed by blocks of kKvBlock numbers.
template <typename V, typename Keys>
struct PairedScores {
  PairRows queries;
  Keys keys;
  int64_t head_dim;
  const float* scales;  // of the queries
  int64_t scale_stride;
  float* scores;
  int64_t score_stride;

  template <int kRows, int kVectors>
  void Run(int64_t first) const {
    typename V::Type totals[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) totals[r][j] = V::Zero();
    }
    PairRows a = queries;
    const Keys b = keys.From(first);
    for (int64_t begin = 0; begin < head_dim; begin += kKvBlock) {
      const int64_t rest = head_dim - begin;
      typename V::Ints sums[kRows][kVectors];
      SetToZero<V>(sums);
      AddPairs<V>(a, b.Block(begin / kKvBlock), (rest < kKvBlock ? rest : kKvBlock) / 2, sums);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        const typename V::Type of_keys = b.Scales(begin / kKvBlock, j);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          totals[r][j] = V::Fma(of_keys, V::ToFloats(sums[r][j]), totals[r][j]);
        }
      }
      a.data += kKvBlock;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Type of_query = V::Set(scales[r * scale_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        V::Store(scores + r * score_stride + (first + j) * V::kLanes,
                 V::Mul(of_query, totals[r][j]));
      }
    }
  }
};

// Adds a block of values to the sums of rows, by their weights.
template <typename V, typename Values>
struct PairedSums {
  PairRows weights;
  Values values;
  int64_t pairs;        // of positions
  const float* scales;  // of the weights
  float* sums;
  int64_t stride;  // of both

  template <int kRows, int kVectors>
  void Run(int64_t first) const {
    typename V::Ints totals[kRows][kVectors];
    SetToZero<V>(totals);
    AddPairs<V>(weights, values.From(first), pairs, totals);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Type scale = V::Set(scales[r * stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        float* sum = sums + r * stride + (first + j) * V::kLanes;
        V::Store(sum, V::Fma(scale, V::ToFloats(totals[r][j]), V::Load(sum)));
      }
    }
  }
};

template <int kRows, int kVectors, typename Product>
void RunRows(const Product& product, int64_t rows, int64_t first) {
  if (rows == kRows) {
    product.template Run<kRows, kVectors>(first);
  } else if constexpr (kRows > 1) {
    RunRows<kRows - 1, kVectors>(product, rows, first);
  }
}

// A product for up to kRows rows and any number of vectors, up to kVectors at a time.
template <int kRows, int kVectors, typename Product>
void RunAll(const Product& product, int64_t rows, int64_t vectors, int64_t first = 0) {
  for (; vectors - first >= kVectors; first += kVectors) {
    RunRows<kRows, kVectors>(product, rows, first);
  }
  if constexpr (kVectors > 1) {
    if (first < vectors) RunAll<kRows, kVectors - 1>(product, rows, vectors, first);
  }
}

}  // namespace thaw::attention_tile
