// Products of a tile of attention (kernels/attention_tile.h) in integers: sums of products of
// int16, two by two, in integers of 32 bits.
//
// One factor is rounded to int16, row by row: queries, and weights times the scales of values. The
// other are keys or values of a paired type: int8 (kQ8_0) or int16 (kI16). Sums stay below 2^31: of
// up to 64 products with int8 below 2^28; with int16 a row of the first factor is rounded so that
// its magnitudes come to no more than 2^16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/lines_in_turn.h"
#include "kernels/vector_math.h"

namespace thaw::attention_tile {

// A factor: rows of int16, `stride` numbers apart.
struct PairRows {
  const int16_t* data;
  int64_t stride;
};

// The other: pairs of Int, [pairs][columns], of the columns from a vector on. What is asked for
// meanwhile: kInTurn, lines of four pages in turn (kernels/lines_in_turn.h), or what lies
// ahead_bytes ahead.
template <typename V, typename Int, bool kInTurn>
struct IntegerPairs {
  const std::byte* data;
  int64_t pair_bytes;    // from pair to pair
  int64_t column_bytes;  // from 16 columns to the next
  int64_t ahead_bytes;

  static constexpr int64_t kVectorBytes = V::kLanes * 2 * int64_t{sizeof(Int)};

  int64_t Offset(int64_t vector) const {
    const int64_t column = vector * V::kLanes;
    return column / kKeyUnit * column_bytes + column % kKeyUnit * (2 * int64_t{sizeof(Int)});
  }
  IntegerPairs From(int64_t vector) const {
    IntegerPairs pairs = *this;
    pairs.data += Offset(vector);
    return pairs;
  }
  typename V::Ints Load(int j) const {
    if constexpr (sizeof(Int) == 2) return V::LoadPairs(data + Offset(j));
    return V::WidenPairs(data + Offset(j));
  }
  // With the vectors of two pairs, kVectors of each.
  template <int kVectors>
  void AskInTurn() const {
    if constexpr (kInTurn) thaw::AskInTurn<2 * kVectors * kVectorBytes>(data);
  }
  // With a vector, the line that it begins.
  void Prefetch(int j) const {
    if constexpr (!kInTurn) {
      if (j * kVectorBytes % 64 == 0) V::PrefetchPairs(data + Offset(j) + ahead_bytes);
    }
  }
  void Next() { data += pair_bytes; }
};

// sums[kRows][kVectors] += a[kRows][2 * pairs] * b[pairs][kVectors * kLanes], of an even number of
// pairs: GCC 12 copies sums from register to register in a loop that may end between two, and where
// it unrolls one to its end.
template <typename V, int kRows, int kVectors, typename Pairs>
[[gnu::always_inline]] inline void AddPairs(PairRows a, Pairs b, int64_t pairs,
                                            typename V::Ints (&sums)[kRows][kVectors]) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < pairs; i += 2) {
    b.template AskInTurn<kVectors>();
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, b.Next()) {
      typename V::Ints numbers[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        numbers[j] = b.Load(j);
        b.Prefetch(j);
      }
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

// Keys of a paired type by blocks of kKvBlock numbers, 16 positions a column group.
template <typename V, typename Int, bool kInTurn>
struct PairedKeys {
  IntegerPairs<V, Int, kInTurn> first;  // of the first block
  int64_t block_bytes;                  // from block to block
  const std::byte* scales;              // of the first block, in bfloat16
  int64_t scale_block_bytes;            // from block to block; 0: all have the same
  int64_t scale_column_bytes;           // from 16 positions to the next

  // Of the positions from a vector on. Not a copy that is changed: GCC makes it wait (0006).
  IntegerPairs<V, Int, kInTurn> Block(int64_t block, int64_t vector) const {
    return {first.data + block * block_bytes + first.Offset(vector), first.pair_bytes,
            first.column_bytes, first.ahead_bytes};
  }
  typename V::Type Scales(int64_t block, int64_t vector) const {
    const int64_t column = vector * V::kLanes;
    return V::LoadBF16(scales + block * scale_block_bytes + column / kKeyUnit * scale_column_bytes +
                       column % kKeyUnit * 2);
  }
};

// Scores of rows of queries with keys of whole blocks, by which integers are summed.
template <typename V, typename Keys>
struct PairedScores {
  PairRows queries;
  const Keys& keys;
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
    for (int64_t begin = 0; begin < head_dim; begin += kKvBlock) {
      typename V::Ints sums[kRows][kVectors];
      SetToZero<V>(sums);
      AddPairs<V>(a, keys.Block(begin / kKvBlock, first), kKvBlock / 2, sums);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        const typename V::Type of_keys = keys.Scales(begin / kKvBlock, first + j);
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
