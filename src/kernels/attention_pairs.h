// Products of a tile of attention (kernels/attention_tile.h) with keys and values of kQ8_0: sums of
// products of int16 and int8, two by two, in integers of 32 bits.
//
// One factor is rounded to int16, row by row: queries, and weights times the scales of a block of
// values. With magnitudes up to 32767 and 127, the 64 products that are summed at most stay below
// 2^28.
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

// The other: pairs of int8, [pairs][columns], of the columns from a vector on.
template <typename V>
struct PairColumns {
  const std::byte* data;
  int64_t pair_bytes;    // from pair to pair
  int64_t column_bytes;  // from 16 columns to the next
  int64_t ahead_bytes;   // what is asked for meanwhile

  // A scale takes as much as a pair, so this holds for scales of columns as well.
  int64_t Offset(int64_t vector) const {
    const int64_t column = vector * V::kLanes;
    return column / kKeyUnit * column_bytes + column % kKeyUnit * 2;
  }
};

// sums[kRows][kVectors] += a[kRows][2 * pairs] * b[pairs][kVectors * kLanes].
template <typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void AddPairs(const PairRows& a, const PairColumns<V>& b,
                                            int64_t pairs,
                                            typename V::Ints (&sums)[kRows][kVectors]) {
  const std::byte* at = b.data;
#pragma GCC unroll 2
  for (int64_t i = 0; i < pairs; ++i, at += b.pair_bytes) {
    typename V::Ints numbers[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) numbers[j] = V::WidenPairs(at + b.Offset(j));
    V::Prefetch(at + b.ahead_bytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Ints factor = V::SetPair(a.data + r * a.stride + 2 * i);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        sums[r][j] = V::AddProducts(sums[r][j], factor, numbers[j]);
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

// Scores of rows of queries with keys, whose scales lie before the pairs of their blocks: `keys`
// are those of the first block.
template <typename V>
struct PairedScores {
  PairRows queries;
  PairColumns<V> keys;
  int64_t blocks;       // of a head
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
    PairColumns<V> b = keys;
    b.data += b.Offset(first);
    for (int64_t block = 0; block < blocks; ++block) {
      typename V::Ints sums[kRows][kVectors];
      SetToZero<V>(sums);
      AddPairs<V>(a, b, kKvBlock / 2, sums);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        const typename V::Type of_keys = V::LoadBF16(b.data + b.Offset(j) - kKeyUnit * 2);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          totals[r][j] = V::Fma(of_keys, V::ToFloats(sums[r][j]), totals[r][j]);
        }
      }
      a.data += kKvBlock;
      b.data += kKvBlockBytes * kKeyUnit;
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
template <typename V>
struct PairedSums {
  PairRows weights;
  PairColumns<V> values;
  int64_t pairs;        // of positions
  const float* scales;  // of the weights
  float* sums;
  int64_t stride;  // of both

  template <int kRows, int kVectors>
  void Run(int64_t first) const {
    typename V::Ints totals[kRows][kVectors];
    SetToZero<V>(totals);
    PairColumns<V> b = values;
    b.data += b.Offset(first);
    AddPairs<V>(weights, b, pairs, totals);
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
