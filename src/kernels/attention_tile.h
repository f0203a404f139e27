// Attention of a tile to a span of positions (KernelTable::attend_span), for vectors of any width.
//
// Each file that includes this passes a class of vector operations, V, from its own anonymous
// namespace. That makes every instance of these templates local to the file, as the rule of
// x86/avx2.h asks. V has what kernels/vector_math.h names and
//   kKeyRows                       rows of a product with keys, one unit at a time, that are
//                                  converted as they are loaded
//   kValueRows, kValueVectors      rows and vectors of a product with such values
//   kPanelRows, kPanelVectors      rows and vectors of products with what is float32 already
//   kPairRows, kPairVectors        the same of products of int16
//   Ints, ZeroInts, ToFloats       kLanes integers of 32 bits; as floats
//   LoadPairs, WidenPairs          kLanes pairs of int16; of int8, as pairs of int16
//   MaxOrNan(a, b), LargestOrNan   the largest of numbers that are not negative, by lanes and of
//                                  all lanes; NaN where one is
//   SetPair                        a pair of int16 in every lane
//   AddProducts(sum, a, b)         sum + a[0] b[0] + a[1] b[1], of pairs
//   StoreShorts(to, a, b)          two vectors of floats, rounded to the nearest int16
//   AheadBytes, Prefetch           how far ahead a token that stands alone asks for memory, by the
//                                  bytes of a block; asks for a line
//   PairsAheadBytes, PrefetchPairs the same of the paired types
//   AsksInTurn(), kAsksForShorts   whether kI16 is asked for by lines_in_turn.h, or block by block
//
// Row invariance: a score is one chain of fma over the numbers of a head, a sum of values one chain
// over positions, whatever shares the registers; conversion to float32 is exact. So are sums of
// integers, and what a row of them is rounded to depends on that row and the block alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/attention_pairs.h"
#include "kernels/vector_math.h"

namespace thaw::attention_tile {

// How far ahead of the loads of a token that stands alone its operand is asked for where the
// processor's own prefetchers run ahead, so little that it only leads them: 4 KiB ahead gives half
// of the rate on a Zen 4.
constexpr int64_t kLeadBytes = 256;

template <KvType type>
constexpr int64_t kNumberBytes = type == KvType::kF32 ? 4 : 2;

// A vector of numbers of a float type, one after the other.
template <typename V, KvType type>
typename V::Type LoadNumbers(const std::byte* from) {
  if constexpr (type == KvType::kF32) {
    return V::Load(reinterpret_cast<const float*>(from));
  } else {
    return type == KvType::kF16 ? V::LoadF16(from) : V::LoadBF16(from);
  }
}

// Operand of a product, [depth][columns]: keys of the positions from a multiple of kKeyUnit on, a
// column for each; depth counts the numbers of a head.
template <typename V, KvType type>
class KeyColumns {
 public:
  KeyColumns(const std::byte* units, int64_t unit_bytes, int64_t ahead_bytes = kLeadBytes)
      : data_(units), unit_bytes_(unit_bytes), ahead_bytes_(ahead_bytes) {}

  KeyColumns From(int64_t vector) const {
    KeyColumns columns = *this;
    columns.data_ += Offset(vector);
    return columns;
  }

  typename V::Type Load(int64_t i, int j) const {
    return LoadNumbers<V, type>(data_ + i * kKeyUnit * kNumberBytes<type> + Offset(j));
  }

  void Prefetch(int64_t i) const {
    V::Prefetch(data_ + i * kKeyUnit * kNumberBytes<type> + ahead_bytes_);
  }

 private:
  int64_t Offset(int64_t vector) const {
    return vector * V::kLanes / kKeyUnit * unit_bytes_ +
           vector * V::kLanes % kKeyUnit * kNumberBytes<type>;
  }

  const std::byte* data_;
  int64_t unit_bytes_;
  int64_t ahead_bytes_;
};

// Operand of a product, [depth][columns]: rows of values; depth counts the positions.
template <typename V, KvType type>
class ValueRows {
 public:
  ValueRows(const std::byte* rows, int64_t row_bytes, int64_t ahead_bytes = kLeadBytes)
      : data_(rows), row_bytes_(row_bytes), ahead_bytes_(ahead_bytes) {}

  ValueRows From(int64_t vector) const {
    ValueRows rows = *this;
    rows.data_ += vector * V::kLanes * kNumberBytes<type>;
    return rows;
  }

  ValueRows Skip(int64_t count) const {
    ValueRows rows = *this;
    rows.data_ += count * row_bytes_;
    return rows;
  }

  typename V::Type Load(int64_t i, int j) const {
    return LoadNumbers<V, type>(data_ + i * row_bytes_ + j * V::kLanes * kNumberBytes<type>);
  }

  void Prefetch(int64_t i) const { V::Prefetch(data_ + i * row_bytes_ + ahead_bytes_); }

 private:
  const std::byte* data_;
  int64_t row_bytes_;
  int64_t ahead_bytes_;
};

// One factor of a product and where it goes: rows of a and c, a_stride and c_stride numbers apart.
struct Product {
  const float* a;
  int64_t a_stride;
  float* c;
  int64_t c_stride;
  int64_t depth;
  bool add;  // to what c holds
};

// c[kRows][kVectors * kLanes] = a[kRows][depth] * b[depth][kVectors * kLanes].
template <typename V, int kRows, int kVectors, typename Operand>
void MultiplyInRegisters(const Product& p, Operand b) {
  typename V::Type total[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      total[r][j] = p.add ? V::Load(p.c + r * p.c_stride + j * V::kLanes) : V::Zero();
    }
  }
  for (int64_t i = 0; i < p.depth; ++i) {
    typename V::Type numbers[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) numbers[j] = b.Load(i, j);
    b.Prefetch(i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Type factor = V::Set(p.a[r * p.a_stride + i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) total[r][j] = V::Fma(factor, numbers[j], total[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      V::Store(p.c + r * p.c_stride + j * V::kLanes, total[r][j]);
    }
  }
}

template <typename V, int kRows, int kVectors, typename Operand>
void MultiplyRows(const Product& p, const Operand& b, int64_t rows) {
  if (rows == kRows) {
    MultiplyInRegisters<V, kRows, kVectors>(p, b);
  } else if constexpr (kRows > 1) {
    MultiplyRows<V, kRows - 1, kVectors>(p, b, rows);
  }
}

// The same for up to kRows rows and any number of vectors, up to kVectors at a time.
template <typename V, int kRows, int kVectors, typename Operand>
void Multiply(Product p, const Operand& b, int64_t rows, int64_t first, int64_t vectors) {
  for (; vectors - first >= kVectors; first += kVectors) {
    MultiplyRows<V, kRows, kVectors>(p, b.From(first), rows);
    p.c += kVectors * V::kLanes;
  }
  if constexpr (kVectors > 1) {
    if (first < vectors) Multiply<V, kRows, kVectors - 1>(p, b, rows, first, vectors);
  }
}

// A tile on its way through the blocks of a span.
template <typename V, KvType type>
class Tile {
 public:
  Tile(const AttentionArguments& a, float* states, const SpanScratch& scratch)
      : a_(a),
        rows_(a.n_tokens * a.group),
        padded_(PaddedValues(a.v_head_dim)),
        stride_(padded_ + kStateTail),
        key_row_bytes_(KvRowBytes(type, a.head_dim)),
        value_row_bytes_(KvRowBytes(type, a.v_head_dim)),
        few_rows_(rows_ <= kFewRows),
        states_(states),
        scratch_(scratch) {
    const float scale = a.soft_cap == 0 ? a.scale * kLog2E : a.scale / a.soft_cap;
    for (int64_t row = 0; row < rows_; ++row) {
      const float* q = a.q + row / a.group * a.q_stride + row % a.group * a.head_dim;
      float* state = states + row * stride_;
      for (int64_t i = 0; i < stride_; ++i) state[i] = 0;
      state[padded_] = kLowestScore;
      if constexpr (kIsPaired) {
        state[padded_ + kQueryScale] = RoundQuery(q, queries() + row * QueryStride()) * scale;
      } else {
        float* scaled = scratch.q + row * a.head_dim;
        for (int64_t i = 0; i < a.head_dim; ++i) scaled[i] = q[i] * scale;
      }
    }
  }

  void Attend(int64_t span) {
    const int64_t last = a_.first_position + a_.n_tokens - 1;
    const int64_t first = FirstVisible(a_.window, a_.first_position);
    for (int64_t i = 0; i < kAttentionSpan; i += kAttentionBlock) {
      begin_ = span * kAttentionSpan + i;
      if (begin_ > last) break;
      if (begin_ + kAttentionBlock <= first) continue;
      const int64_t blind_tokens = begin_ - a_.first_position;
      first_row_ = blind_tokens > 0 ? blind_tokens * a_.group : 0;
      AttendBlock();
    }
    for (int64_t row = 0; row < rows_; ++row) {
      float* tail = states_ + row * stride_ + padded_;
      tail[1] = V::SumOfLanes(V::Load(tail + kStateLanes));
    }
  }

 private:
  static constexpr float kLog2E = 0x1.715476p+0f;

  // Numbers of the paired types behind a state's sums.
  static constexpr int64_t kQueryScale = 2;
  static constexpr int64_t kWeightScale = 3;

  static constexpr int64_t kUnitVectors = kKeyUnit / V::kLanes;

  // Of the 32 columns of paired values: at least two, so that a factor is loaded for two products,
  // and with 16 lanes whole lines are read in the order of memory.
  static constexpr int64_t kColumnVectors = kUnitVectors < 2 ? 2 : kUnitVectors;

  // Rows that share a load of a narrow number without a copy in float32: they fit the registers at
  // once or in two parts.
  static constexpr int64_t kFewRows = 8;

  static constexpr bool kIsPaired = IsPaired(type);
  static constexpr bool kIsShort = type == KvType::kI16;
  using Int = std::conditional_t<kIsShort, int16_t, int8_t>;

  // Positions of the block that a row sees.
  int64_t Visible(int64_t row) const {
    const int64_t n = a_.first_position + row / a_.group + 1 - begin_;
    return n < kAttentionBlock ? n : kAttentionBlock;
  }

  // Positions at the begin of the block that have left the window of a row.
  int64_t Hidden(int64_t row) const {
    const int64_t n = FirstVisible(a_.window, a_.first_position + row / a_.group) - begin_;
    if (n <= 0) return 0;
    return n < kAttentionBlock ? n : kAttentionBlock;
  }

  // Calls body(row, rows) for parts of the visible rows, at most `most` each and of even length.
  template <typename Body>
  void ForEachPart(int64_t most, const Body& body) {
    const int64_t count = rows_ - first_row_;
    const int64_t parts = (count + most - 1) / most;
    int64_t row = first_row_;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t rows = (rows_ - row + parts - part - 1) / (parts - part);
      body(row, rows);
      row += rows;
    }
  }

  void AttendBlock() {
    const int64_t place = PlaceInRing(a_.ring, begin_);
    const std::byte* units = a_.k + place * key_row_bytes_;
    const std::byte* values = a_.v + place * value_row_bytes_;
    if constexpr (kIsPaired) {
      if constexpr (kIsShort) {
        if (few_rows_ && V::AsksInTurn()) return AttendPairedBlock<true>(units, values);
      }
      AttendPairedBlock<false>(units, values);
    } else {
      AttendFloatBlock(units, values);
    }
  }

  void AttendFloatBlock(const std::byte* units, const std::byte* values) {
    if (few_rows_) {
      const KeyColumns<V, type> keys(units, kKeyUnit * key_row_bytes_,
                                     V::AheadBytes(kAttentionBlock * key_row_bytes_));
      ScoreRows<V::kKeyRows, kUnitVectors>(keys);
    } else if constexpr (type == KvType::kF32) {
      const KeyColumns<V, type> keys(units, kKeyUnit * key_row_bytes_);
      ScoreRows<V::kPanelRows, V::kPanelVectors>(keys);
    } else {
      WidenKeys(units);
      const KeyColumns<V, KvType::kF32> keys(reinterpret_cast<const std::byte*>(scratch_.keys),
                                             kKeyUnit * a_.head_dim * 4);
      ScoreRows<V::kPanelRows, V::kPanelVectors>(keys);
    }
    for (int64_t row = first_row_; row < rows_; ++row) TakeWeights(row);
    const bool whole_vectors = a_.v_head_dim == padded_;
    if (few_rows_ && whole_vectors) {
      const ValueRows<V, type> rows(values, value_row_bytes_,
                                    V::AheadBytes(kAttentionBlock * value_row_bytes_));
      WeighRows<V::kValueRows, V::kValueVectors>(rows);
      return;
    }
    if constexpr (type == KvType::kF32) {
      if (whole_vectors) {
        const ValueRows<V, type> rows(values, value_row_bytes_);
        WeighRows<V::kPanelRows, V::kPanelVectors>(rows);
        return;
      }
    }
    WidenValues(values);
    const ValueRows<V, KvType::kF32> rows(reinterpret_cast<const std::byte*>(scratch_.values),
                                          padded_ * 4);
    WeighRows<V::kPanelRows, V::kPanelVectors>(rows);
  }

  // The scores of all rows with the block's positions, in whole vectors.
  template <int kRows, int kVectors, typename Keys>
  void ScoreRows(const Keys& keys) {
    ForEachPart(kRows, [&](int64_t row, int64_t rows) {
      const Product product = {.a = scratch_.q + row * a_.head_dim,
                               .a_stride = a_.head_dim,
                               .c = scratch_.scores + row * kAttentionBlock,
                               .c_stride = kAttentionBlock,
                               .depth = a_.head_dim,
                               .add = false};
      const int64_t vectors =
          (Visible(row + rows - 1) + kKeyUnit - 1) / kKeyUnit * (kKeyUnit / V::kLanes);
      Multiply<V, kRows, kVectors>(product, keys, rows, 0, vectors);
    });
  }

  // Turns the scores of a row into weights, and its state to what they are relative to.
  void TakeWeights(int64_t row) {
    const int64_t n = Visible(row);
    const int64_t hidden = Hidden(row);
    if (a_.soft_cap != 0) CapScores(row, n);
    if (a_.slopes != nullptr) AddSlopes(row, n);
    if (n == kAttentionBlock && hidden == 0) {
      TakeWeightsOf<true>(row, 0, n);
    } else {
      TakeWeightsOf<false>(row, hidden, n);
    }
  }

  // Scores / c to c tanh(score / c), in units of log2(e). tanh is odd, and (e^2x - 1) / (e^2x + 1)
  // for x <= 0, where it cannot overflow; for the other sign it is 0.
  void CapScores(int64_t row, int64_t n) {
    float* scores = scratch_.scores + row * kAttentionBlock;
    const auto tanh_of_negative = [](typename V::Type minus_x) {
      const typename V::Type square =
          Exp2<V>(V::Mul(V::Set(-2 * kLog2E), V::Max(minus_x, V::Zero())));
      return V::Div(V::Sub(square, V::Set(1)), V::Add(square, V::Set(1)));
    };
    for (int64_t i = 0; i < n; i += V::kLanes) {
      const typename V::Type x = V::Load(scores + i);
      const typename V::Type tanh =
          V::Sub(tanh_of_negative(V::Sub(V::Zero(), x)), tanh_of_negative(x));
      V::Store(scores + i, V::Mul(V::Set(a_.soft_cap * kLog2E), tanh));
    }
  }

  // Adds what the distances to the keys come to; they are exact below 2^24 positions.
  void AddSlopes(int64_t row, int64_t n) {
    static constexpr float kLaneNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float* scores = scratch_.scores + row * kAttentionBlock;
    const typename V::Type slope = V::Set(a_.slopes[row % a_.group] * kLog2E);
    const typename V::Type lanes = V::Load(kLaneNumbers);
    const int64_t first = begin_ - (a_.first_position + row / a_.group);
    for (int64_t i = 0; i < n; i += V::kLanes) {
      const typename V::Type distance = V::Add(V::Set(static_cast<float>(first + i)), lanes);
      V::Store(scores + i, V::Fma(slope, distance, V::Load(scores + i)));
    }
  }

  // Of positions [hidden, n), those that the row sees; kAll: they are the whole block. The others
  // up to n get a weight of 0.
  template <bool kAll>
  void TakeWeightsOf(int64_t row, int64_t hidden, int64_t n) {
    constexpr int64_t kVectors = kAttentionBlock / V::kLanes;
    const int64_t vectors = kAll ? kVectors : (n + V::kLanes - 1) / V::kLanes;
    float* scores = scratch_.scores + row * kAttentionBlock;
    float* state = states_ + row * stride_;
    float* weights = state + padded_ + kStateLanes;
    const auto keep = [&](int64_t j, typename V::Type v, typename V::Type other) {
      if constexpr (kAll) return v;
      const int64_t before = hidden - j * V::kLanes;
      return V::KeepFirst(before > 0 ? before : 0, other,
                          V::KeepFirst(n - j * V::kLanes, v, other));
    };
    typename V::Type most = V::Set(kLowestScore);
    for (int64_t j = 0; j < vectors; ++j) {
      const typename V::Type v = V::Load(scores + j * V::kLanes);
      most = V::Max(most, keep(j, v, most));
    }
    float largest = V::LargestLane(most);
    if (largest <= state[padded_]) {
      largest = state[padded_];
    } else {
      const typename V::Type factor = Exp2<V>(V::Set(state[padded_] - largest));
      for (int64_t i = 0; i < padded_; i += V::kLanes) {
        V::Store(state + i, V::Mul(V::Load(state + i), factor));
      }
      V::Store(weights, V::Mul(V::Load(weights), factor));
      state[padded_] = largest;
    }
    typename V::Type sum = V::Load(weights);
    for (int64_t j = 0; j < vectors; ++j) {
      const typename V::Type v = V::Load(scores + j * V::kLanes);
      const typename V::Type weight = keep(j, Exp2<V>(V::Sub(v, V::Set(largest))), V::Zero());
      sum = V::Add(sum, weight);
      V::Store(scores + j * V::kLanes, weight);
    }
    V::Store(weights, sum);
  }

  // Adds the values of the positions that each row sees, by their weights: together those that all
  // rows of a part see, then the rest row by row.
  template <int kRows, int kVectors, typename Values>
  void WeighRows(const Values& values) {
    const int64_t vectors = padded_ / V::kLanes;
    ForEachPart(kRows, [&](int64_t row, int64_t rows) {
      const int64_t together = Visible(row);
      Product product = {.a = scratch_.scores + row * kAttentionBlock,
                         .a_stride = kAttentionBlock,
                         .c = states_ + row * stride_,
                         .c_stride = stride_,
                         .depth = together,
                         .add = true};
      Multiply<V, kRows, kVectors>(product, values, rows, 0, vectors);
      for (int64_t r = 1; r < rows; ++r) {
        product.depth = Visible(row + r) - together;
        if (product.depth == 0) continue;
        product.a = scratch_.scores + (row + r) * kAttentionBlock + together;
        product.c = states_ + (row + r) * stride_;
        Multiply<V, 1, kVectors>(product, values.Skip(together), 1, 0, vectors);
      }
    });
  }

  template <int kRows, int kVectors, typename Keys>
  void ScorePairs(const Keys& keys) {
    ForEachPart(kRows, [&](int64_t row, int64_t rows) {
      const PairedScores<V, Keys> scores = {
          .queries = {queries() + row * QueryStride(), QueryStride()},
          .keys = keys,
          .head_dim = a_.head_dim,
          .scales = states_ + row * stride_ + padded_ + kQueryScale,
          .scale_stride = stride_,
          .scores = scratch_.scores + row * kAttentionBlock,
          .score_stride = kAttentionBlock};
      const int64_t units_seen = (Visible(row + rows - 1) + kKeyUnit - 1) / kKeyUnit;
      RunAll<kRows, kVectors>(scores, rows, units_seen * kUnitVectors);
    });
  }

  // Adds `columns` numbers of values from `first` on. What a row does not see weighs 0, and no
  // integer is a NaN.
  template <int kRows, int kVectors, typename Values>
  void WeighPairs(const Values& values, int64_t first, int64_t columns) {
    ForEachPart(kRows, [&](int64_t row, int64_t rows) {
      const PairedSums<V, Values> sums = {
          .weights = {scratch_.weights + row * kWeightStride, kWeightStride},
          .values = values,
          .pairs = (Visible(row + rows - 1) + 3) / 4 * 2,
          .scales = states_ + row * stride_ + padded_ + kWeightScale,
          .sums = states_ + row * stride_ + first,
          .stride = stride_};
      RunAll<kRows, kVectors>(sums, rows, columns / V::kLanes);
    });
  }

  int64_t PairsAhead(int64_t row_bytes) const {
    return few_rows_ ? V::PairsAheadBytes(kAttentionBlock * row_bytes) : kLeadBytes;
  }

  template <bool kInTurn>
  PairedKeys<V, Int, kInTurn> KeysOf(const std::byte* units) const {
    constexpr int64_t kPairBytes = 2 * kKeyUnit * int64_t{sizeof(Int)};  // of a unit's keys
    const int64_t ahead = PairsAhead(key_row_bytes_);
    if constexpr (kIsShort) {
      const int64_t column_bytes = a_.head_dim / 2 * kPairBytes;
      return {.first = {units + 2 * kPairedUnit, kPairBytes, column_bytes, ahead},
              .block_bytes = kKvBlock / 2 * kPairBytes,
              .scales = units,
              .scale_block_bytes = 0,
              .scale_column_bytes = 2 * kKeyUnit};
    } else {
      const int64_t column_bytes = kKeyUnit * key_row_bytes_;
      return {.first = {units + 2 * kKeyUnit, kPairBytes, column_bytes, ahead},
              .block_bytes = kKeyUnit * kKvBlockBytes,
              .scales = units,
              .scale_block_bytes = kKeyUnit * kKvBlockBytes,
              .scale_column_bytes = column_bytes};
    }
  }

  void AskForShorts(const std::byte* from, int64_t bytes) {
    if (!V::kAsksForShorts || !kIsShort || !few_rows_) return;
    for (int64_t at = 0; at < bytes; at += 64) V::Prefetch(from + at);
  }

  template <bool kInTurn>
  void AttendPairedBlock(const std::byte* units, const std::byte* values) {
    if (!kInTurn) AskForShorts(units, kAttentionBlock * key_row_bytes_);
    if (kInTurn || few_rows_) {
      ScorePairs<V::kKeyRows, kUnitVectors>(KeysOf<kInTurn>(units));
    } else {
      ScorePairs<V::kPairRows, V::kPairVectors>(KeysOf<kInTurn>(units));
    }
    if (!kInTurn) AskForShorts(values, kAttentionBlock * value_row_bytes_);
    for (int64_t row = first_row_; row < rows_; ++row) TakeWeights(row);
    const int64_t ahead = PairsAhead(value_row_bytes_);
    constexpr int64_t kPairBytes = 2 * kKvBlock * int64_t{sizeof(Int)};  // of 32 numbers
    for (int64_t i = 0; i < a_.v_head_dim; i += kKvBlock) {
      if (!kIsShort || i == 0) {
        RoundWeights(values);
        // What the products do not come by, the scales.
        if constexpr (kInTurn) {
          AskInTurn<2 * kPairedUnit>(values);
        } else {
          for (int64_t at = 0; at < 2 * kPairedUnit; at += 64) {
            V::PrefetchPairs(values + at + ahead);
          }
        }
        values += 2 * kPairedUnit;
      }
      const IntegerPairs<V, Int, kInTurn> pairs = {values, kPairBytes, kPairBytes / 2, ahead};
      if (kInTurn || few_rows_) {
        WeighPairs<V::kKeyRows, kColumnVectors>(pairs, i, kKvBlock);
      } else {
        WeighPairs<V::kPairRows, V::kPairVectors>(pairs, i, kKvBlock);
      }
      values += kPairedUnit / 2 * kPairBytes;
    }
  }

  int16_t* queries() const { return reinterpret_cast<int16_t*>(scratch_.q); }
  int64_t QueryStride() const { return RoundedQueryStride(a_.head_dim); }

  static constexpr float kLargestInt16 = 32767;
  // The magnitudes that products with int16 sum, times less than 2^15 each, come to at most this
  // and half of 64 by rounding: to less than 2^31.
  static constexpr float kMostTotal = 65472;
  // Below this a row is all zeros: its reciprocal might be no number.
  static constexpr float kSmallestScale = 0x1p-120f;

  // The scale that rounds numbers up to `largest` to int16; NaN if that is no number or infinite.
  // What to multiply with goes to `inverse`.
  static float RoundingScale(float largest, float& inverse) {
    inverse = largest >= kSmallestScale * kLargestInt16 ? kLargestInt16 / largest : 0;
    return largest * (1 / kLargestInt16) + 0 * largest;
  }

  // What to round by instead of the largest where magnitudes that come to `total` are summed.
  static float RoundingMost(float largest, float total) {
    const float least = total * (kLargestInt16 / kMostTotal);
    return least > largest ? least : largest;
  }

  // Rounds a query to integers and returns their scale.
  float RoundQuery(const float* q, int16_t* out) const {
    typename V::Type most = V::Zero();
    float largest_sum = 0;
    for (int64_t begin = 0; begin < a_.head_dim; begin += kKvBlock) {
      typename V::Type sum = V::Zero();
      for (int64_t i = begin; i < begin + kKvBlock; i += V::kLanes) {
        const typename V::Type magnitudes = V::Abs(V::Load(q + i));
        most = V::MaxOrNan(most, magnitudes);
        sum = V::Add(sum, magnitudes);
      }
      if constexpr (kIsShort) {
        const float of_block = V::SumOfLanes(sum);
        if (of_block > largest_sum) largest_sum = of_block;
      }
    }
    float inverse;
    const float scale = RoundingScale(RoundingMost(V::LargestOrNan(most), largest_sum), inverse);
    for (int64_t i = 0; i < a_.head_dim; i += 2 * V::kLanes) {
      V::StoreShorts(out + i, V::Mul(V::Set(inverse), V::Load(q + i)),
                     V::Mul(V::Set(inverse), V::Load(q + i + V::kLanes)));
    }
    return scale;
  }

  // Rounds the weights of all rows times the scales of values.
  void RoundWeights(const std::byte* scales) {
    for (int64_t row = first_row_; row < rows_; ++row) RoundWeightsOf(row, scales);
  }

  void RoundWeightsOf(int64_t row, const std::byte* scales) {
    constexpr int64_t kVectors = kAttentionBlock / V::kLanes;
    const int64_t n = Visible(row);
    const int64_t hidden = Hidden(row);
    const float* weights = scratch_.scores + row * kAttentionBlock;
    typename V::Type products[kVectors];
    typename V::Type most = V::Zero();
    typename V::Type sum = V::Zero();
#pragma GCC unroll 16
    for (int64_t j = 0; j < kVectors; ++j) {
      const int64_t first = j * V::kLanes;
      products[j] = V::Mul(V::Load(weights + first), V::LoadBF16(scales + 2 * first));
      // What a row does not see may be no number.
      if (n - first < V::kLanes) {
        products[j] = V::KeepFirst(n > first ? n - first : 0, products[j], V::Zero());
      }
      if (hidden > first) products[j] = V::KeepFirst(hidden - first, V::Zero(), products[j]);
      most = V::MaxOrNan(most, products[j]);
      if constexpr (kIsShort) sum = V::Add(sum, products[j]);
    }
    float largest = V::LargestOrNan(most);
    if constexpr (kIsShort) largest = RoundingMost(largest, V::SumOfLanes(sum));
    float inverse;
    states_[row * stride_ + padded_ + kWeightScale] = RoundingScale(largest, inverse);
    int16_t* out = scratch_.weights + row * kWeightStride;
#pragma GCC unroll 16
    for (int64_t j = 0; j < kVectors; j += 2) {
      V::StoreShorts(out + j * V::kLanes, V::Mul(V::Set(inverse), products[j]),
                     V::Mul(V::Set(inverse), products[j + 1]));
    }
  }

  // The units that hold the keys any row sees, in float32.
  void WidenKeys(const std::byte* units) {
    const int64_t n_units = (Visible(rows_ - 1) + kKeyUnit - 1) / kKeyUnit;
    float* out = scratch_.keys;
    for (int64_t unit = 0; unit < n_units; ++unit, units += kKeyUnit * key_row_bytes_) {
      const KeyColumns<V, type> columns(units, kKeyUnit * key_row_bytes_);
      for (int64_t i = 0; i < a_.head_dim; ++i) {
        for (int j = 0; j < kUnitVectors; ++j, out += V::kLanes) V::Store(out, columns.Load(i, j));
      }
    }
  }

  // The values that any row sees, in float32, with zeros up to whole vectors.
  void WidenValues(const std::byte* values) {
    const int64_t n = Visible(rows_ - 1);
    float* out = scratch_.values;
    for (int64_t i = 0; i < n; ++i, values += value_row_bytes_) {
      const ValueRows<V, type> row(values, value_row_bytes_);
      int64_t at = 0;
      for (; at + V::kLanes <= a_.v_head_dim; at += V::kLanes, out += V::kLanes) {
        V::Store(out, row.From(at / V::kLanes).Load(0, 0));
      }
      for (; at < padded_; at += V::kLanes, out += V::kLanes) {
        const int64_t rest = a_.v_head_dim > at ? a_.v_head_dim - at : 0;
        V::Store(out, LoadRest(values + at * kNumberBytes<type>, rest));
      }
    }
  }

  static typename V::Type LoadRest(const std::byte* from, int64_t n) {
    if constexpr (type == KvType::kF32) {
      return V::LoadFirst(reinterpret_cast<const float*>(from), n);
    } else {
      std::byte buffer[2 * V::kLanes] = {};
      std::memcpy(buffer, from, static_cast<size_t>(n) * 2);
      return LoadNumbers<V, type>(buffer);
    }
  }

  const AttentionArguments& a_;
  const int64_t rows_;
  const int64_t padded_;
  const int64_t stride_;  // from state to state
  const int64_t key_row_bytes_;
  const int64_t value_row_bytes_;
  const bool few_rows_;
  float* const states_;
  const SpanScratch scratch_;
  int64_t begin_ = 0;      // of the block
  int64_t first_row_ = 0;  // that sees it
};

template <typename V>
void AttendSpan(const AttentionArguments& a, int64_t span, float* states, std::byte* scratch) {
  const SpanScratch parts = LayOutSpanScratch(a.n_tokens * a.group, a.head_dim, scratch);
  switch (a.kv_type) {
    case KvType::kF32:
      return Tile<V, KvType::kF32>(a, states, parts).Attend(span);
    case KvType::kF16:
      return Tile<V, KvType::kF16>(a, states, parts).Attend(span);
    case KvType::kBF16:
      return Tile<V, KvType::kBF16>(a, states, parts).Attend(span);
    case KvType::kQ8_0:
      return Tile<V, KvType::kQ8_0>(a, states, parts).Attend(span);
    case KvType::kI16:
      return Tile<V, KvType::kI16>(a, states, parts).Attend(span);
  }
}

}  // namespace thaw::attention_tile
