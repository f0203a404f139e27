#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/load.h"
#include "kernels/kernel_test_support.h"
#include "tensor/half.h"

namespace thaw {
namespace {

class AttentionKernels : public EachKernelTable {};

// Rounding of dot products of unit-size numbers, passed through the softmax, and of their mixture.
constexpr double kAttentionTolerance = 3e-6;

// What a block of kQ8_0 may be off by, as a share of its largest magnitude: half a scale, which is
// a 127th of it, rounded up by at most 2^-8 of itself to a bfloat16; and on top two float roundings
// of a quotient of up to 127.
constexpr double kBlockError = 0.5 / 127 * (1 + 0x1p-8) * (1 + 2 * 127 * 0x1p-23);

// The same of a row of kI16, whose scale is rounded up by at most 2^-7 of itself.
constexpr double kShortError = 0.5 / 32767 * (1 + 0x1p-7) * (1 + 2 * 32767 * 0x1p-23);

// What rounding queries and weights to 16 bits adds; with int16 sums leave them fewer bits.
constexpr double kRoundedTolerance = 3e-4;
constexpr double kRoundedShortsTolerance = 1e-3;

double Tolerance(KvType type) {
  if (type == KvType::kQ8_0) return kRoundedTolerance;
  return type == KvType::kI16 ? kRoundedShortsTolerance : kAttentionTolerance;
}

// Number i of the int16 behind scales, by one of them.
float ScaledShort(const std::byte* scales, int64_t lane, const std::byte* numbers, int64_t i) {
  return BF16ToF32(LoadAs<uint16_t>(scales + 2 * lane)) *
         static_cast<float>(LoadAs<int16_t>(numbers + 2 * i));
}

// Number i of a row as a table's store_kv writes it.
float StoredNumber(const std::byte* row, int64_t i, KvType type) {
  if (type == KvType::kF32) return LoadAs<float>(row + 4 * i);
  if (type == KvType::kI16) return ScaledShort(row, 0, row + 2, i);
  if (type == KvType::kF16) return F16ToF32(LoadAs<uint16_t>(row + 2 * i));
  if (type == KvType::kBF16) return BF16ToF32(LoadAs<uint16_t>(row + 2 * i));
  const std::byte* block = row + i / 32 * 34;
  return BF16ToF32(LoadAs<uint16_t>(block)) *
         static_cast<float>(LoadAs<int8_t>(block + 2 + i % 32));
}

// Numbers of a key and of a value, read by the layout that attention.h describes.
float StoredKeyNumber(const std::byte* keys, int64_t position, int64_t i, int64_t n, KvType type) {
  const int64_t lane = position % 16;
  if (type == KvType::kI16) {
    const std::byte* unit = keys + position / 64 * (64 * 2 * (1 + n));
    return ScaledShort(unit, position % 64, unit + 128 + position % 64 / 16 * (16 * 2 * n),
                       (i / 2 * 16 + lane) * 2 + i % 2);
  }
  if (type == KvType::kQ8_0) {
    const std::byte* block = keys + position / 16 * (n / 32 * 16 * 34) + i / 32 * (16 * 34);
    return BF16ToF32(LoadAs<uint16_t>(block + lane * 2)) *
           static_cast<float>(LoadAs<int8_t>(block + 32 + i % 32 / 2 * 32 + lane * 2 + i % 2));
  }
  return StoredNumber(keys, position / 16 * 16 * n + i * 16 + lane, type);
}

float StoredValueNumber(const std::byte* values, int64_t position, int64_t i, int64_t n,
                        KvType type) {
  const int64_t lane = position % 64;
  if (type == KvType::kI16) {
    const std::byte* unit = values + position / 64 * (64 * 2 * (1 + n));
    return ScaledShort(unit, lane, unit + 128 + i / 32 * (64 * 64),
                       (lane / 2 * 32 + i % 32) * 2 + lane % 2);
  }
  if (type == KvType::kQ8_0) {
    const std::byte* block = values + position / 64 * (n / 32 * 64 * 34) + i / 32 * (64 * 34);
    return BF16ToF32(LoadAs<uint16_t>(block + lane * 2)) *
           static_cast<float>(LoadAs<int8_t>(block + 128 + lane / 2 * 64 + i % 32 * 2 + lane % 2));
  }
  return StoredNumber(values + position * KvRowBytes(type, n), i, type);
}

// A row as it is stored, whatever the layout.
std::vector<float> StoredRow(const KernelTable& table, const std::vector<float>& numbers,
                             KvType type) {
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<float> row;
  std::vector<std::byte> stored(static_cast<size_t>(KvRowBytes(type, n)));
  table.store_kv(numbers.data(), n, type, stored.data());
  for (int64_t i = 0; i < n; ++i) row.push_back(StoredNumber(stored.data(), i, type));
  return row;
}

struct Shape {
  int64_t group;
  int64_t head_dim;
  int64_t v_head_dim;
  int64_t n_tokens;  // the last ones of the positions
  int64_t n_positions;
  Window window = {};
  float soft_cap = 0;
  bool has_sinks = false;
  bool has_slopes = false;
};

std::string Name(KvType type, const Shape& shape) {
  return std::string(KvTypeName(type)) + ", group " + std::to_string(shape.group) + ", heads of " +
         std::to_string(shape.head_dim) + " and " + std::to_string(shape.v_head_dim) + ", " +
         std::to_string(shape.n_tokens) + " tokens of " + std::to_string(shape.n_positions) +
         (shape.window.is_chunk ? ", chunks of " : ", window ") +
         std::to_string(shape.window.size) + ", soft cap " + std::to_string(shape.soft_cap) +
         (shape.has_sinks ? ", sinks" : "") + (shape.has_slopes ? ", slopes" : "");
}

// Queries, keys and values of one KV head, normally distributed, and what attention makes of them.
// Memory behind the last position is all ones, which is a NaN in every type.
class Case {
 public:
  Case(const KernelTable& table, const Shape& shape, KvType type, std::mt19937& random)
      : table_(table),
        shape_(shape),
        type_(type),
        q_(RandomFloats(shape.n_tokens * shape.group * shape.head_dim, random)),
        k_(static_cast<size_t>(KeyBytes(type, shape.head_dim, shape.n_positions)), std::byte{0xff}),
        v_(static_cast<size_t>(ValueBytes(type, shape.v_head_dim, shape.n_positions)),
           std::byte{0xff}),
        // Among the scores, and for some heads far above all of them.
        sinks_(RandomFloats(shape.group, random)) {
    if (shape.group > 2) sinks_[1] += 60;
    for (int64_t head = 0; head < shape.group; ++head) {
      slopes_.push_back(std::exp2(-static_cast<float>(head + 1)));
    }
    for (int64_t position = 0; position < shape.n_positions; ++position) {
      SetKey(position, RandomFloats(shape.head_dim, random));
      SetValue(position, RandomFloats(shape.v_head_dim, random));
    }
  }

  void SetKey(int64_t position, const std::vector<float>& numbers) {
    StoreKey(table_, numbers.data(), shape_.head_dim, type_, position, k_.data());
  }
  void SetValue(int64_t position, const std::vector<float>& numbers) {
    StoreValue(table_, numbers.data(), shape_.v_head_dim, type_, position, v_.data());
  }
  std::vector<float>& q() { return q_; }

  AttentionArguments Arguments(int64_t first_token, int64_t n_tokens, float* out) const {
    return {.q = q_.data() + first_token * shape_.group * shape_.head_dim,
            .q_stride = shape_.group * shape_.head_dim,
            .n_tokens = n_tokens,
            .first_position = shape_.n_positions - shape_.n_tokens + first_token,
            .group = shape_.group,
            .head_dim = shape_.head_dim,
            .v_head_dim = shape_.v_head_dim,
            .kv_type = type_,
            .k = k_.data(),
            .v = v_.data(),
            .scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim)),
            .soft_cap = shape_.soft_cap,
            .window = shape_.window,
            .sinks = shape_.has_sinks ? sinks_.data() : nullptr,
            .slopes = shape_.has_slopes ? slopes_.data() : nullptr,
            .out = out + first_token * shape_.group * shape_.v_head_dim,
            .out_stride = shape_.group * shape_.v_head_dim};
  }

  // [n_tokens, group, v_head_dim], with up to tile_tokens tokens at a time.
  std::vector<float> Run(int64_t tile_tokens) const {
    ScratchMemory scratch(AttentionScratchBytes(shape_.group, shape_.head_dim, shape_.v_head_dim));
    std::vector<float> out(static_cast<size_t>(shape_.n_tokens * shape_.group * shape_.v_head_dim));
    const int64_t most = std::min(tile_tokens, AttentionTileTokens(shape_.group));
    for (int64_t first = 0; first < shape_.n_tokens; first += most) {
      Attend(table_, Arguments(first, std::min(most, shape_.n_tokens - first), out.data()),
             scratch.data());
    }
    return out;
  }

  // [group, v_head_dim] of one token by its definition.
  std::vector<double> Expected(int64_t token) const {
    std::vector<double> out;
    for (int64_t head = 0; head < shape_.group; ++head) {
      const std::vector<double> row = ExpectedRow(token, head);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

 private:
  std::vector<double> ExpectedRow(int64_t token, int64_t head) const {
    const int64_t visible = shape_.n_positions - shape_.n_tokens + token + 1;
    int64_t first = 0;
    if (shape_.window.is_chunk) {
      while (first + shape_.window.size < visible) first += shape_.window.size;
    } else if (shape_.window.size != 0) {
      first = std::max<int64_t>(0, visible - shape_.window.size);
    }
    const float* q = q_.data() + (token * shape_.group + head) * shape_.head_dim;
    std::vector<double> scores;
    for (int64_t position = first; position < visible; ++position) {
      double dot = 0;
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        dot +=
            double{q[i]} * double{StoredKeyNumber(k_.data(), position, i, shape_.head_dim, type_)};
      }
      const double score = dot / std::sqrt(static_cast<double>(shape_.head_dim));
      const double cap = shape_.soft_cap;
      const double slope = shape_.has_slopes ? double{slopes_[static_cast<size_t>(head)]} : 0;
      scores.push_back((cap == 0 ? score : cap * std::tanh(score / cap)) +
                       slope * static_cast<double>(position - (visible - 1)));
    }
    const double sink = sinks_[static_cast<size_t>(head)];
    double largest = *std::max_element(scores.begin(), scores.end());
    if (shape_.has_sinks) largest = std::max(largest, sink);
    double sum = shape_.has_sinks ? std::exp(sink - largest) : 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    std::vector<double> out(static_cast<size_t>(shape_.v_head_dim));
    for (int64_t position = first; position < visible; ++position) {
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] += scores[static_cast<size_t>(position - first)] / sum *
                  double{StoredValueNumber(v_.data(), position, static_cast<int64_t>(i),
                                           shape_.v_head_dim, type_)};
      }
    }
    return out;
  }

  const KernelTable& table_;
  Shape shape_;
  KvType type_;
  std::vector<float> q_;
  std::vector<std::byte> k_, v_;
  std::vector<float> sinks_, slopes_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Groups of few rows and of many, heads of every remainder, contexts on either side of the edges of
// units (16), blocks (64) and spans (1024).
constexpr Shape kShapes[] = {{1, 64, 64, 1, 1},
                             {3, 64, 64, 5, 37},
                             {1, 128, 128, 9, 100},
                             {8, 128, 128, 9, 9},
                             {5, 80, 80, 16, 16},
                             {4, 96, 96, 1, 33},
                             {2, 16, 16, 30, 200},
                             {7, 256, 256, 3, 65},
                             {2, 18, 22, 11, 11},
                             {6, 2, 6, 1, 50},
                             {1, 192, 128, 7, 80},
                             {3, 34, 30, 2, 1000},
                             {2, 32, 96, 64, 64},
                             {8, 64, 64, 1, 1024},
                             {8, 64, 64, 3, 1026},
                             {1, 64, 64, 130, 1100},
                             {12, 32, 32, 1, 70},
                             {16, 64, 64, 20, 129},
                             {100, 32, 64, 3, 66},
                             {4, 64, 80, 1, 17},
                             {1, 32, 32, 1, 5000},
                             {8, 64, 64, 12, 3080},
                             {6, 96, 32, 1, 2049},
                             {2, 90, 50, 70, 140},
                             {1, 6, 2, 100, 100},
                             // Windows that end within blocks and spans or at their edges, of one
                             // position, of more than all; bounds that scores come near to.
                             {2, 64, 64, 20, 200, {16}},
                             {1, 32, 32, 90, 200, {64}},
                             {4, 64, 32, 12, 150, {1}},
                             {1, 80, 80, 70, 300, {100}},
                             {8, 64, 64, 9, 3080, {1024}},
                             {3, 32, 32, 1, 2600, {1500}},
                             {2, 64, 64, 5, 70, {5000}},
                             // Chunks of whole blocks and of parts, of one position, of all.
                             {2, 64, 64, 90, 300, {128, true}},
                             {8, 64, 64, 12, 3080, {1536, true}},
                             {1, 80, 32, 70, 200, {50, true}},
                             {4, 32, 32, 5, 40, {1, true}},
                             {3, 64, 64, 1, 2049, {2048, true}},
                             {2, 64, 64, 9, 300, {300, true}},
                             {1, 128, 128, 9, 100, {}, 2},
                             {4, 64, 64, 30, 1100, {40}, 1.5f},
                             {3, 64, 64, 20, 200, {}, 0, true},
                             {8, 64, 32, 1, 2100, {128}, 0, true},
                             {1, 64, 64, 90, 1100, {}, 0, false, true},
                             {12, 32, 80, 9, 3000, {}, 0, false, true},
                             {8, 64, 64, 1, 5000, {}, 0, false, true},
                             {3, 64, 64, 40, 300, {100}, 2, true, true}};

TEST_P(AttentionKernels, AttentionMixesValuesByTheSoftmaxOfTheScores) {
  std::mt19937 random(1);
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : kShapes) {
      if (!CanStoreKv(type, shape.head_dim) || !CanStoreKv(type, shape.v_head_dim)) continue;
      const Case attention(table(), shape, type, random);
      const std::vector<float> out = attention.Run(shape.n_tokens);
      for (const int64_t token : {int64_t{0}, shape.n_tokens / 2, shape.n_tokens - 1}) {
        const std::vector<double> expected = attention.Expected(token);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(out[static_cast<size_t>(token) * expected.size() + i], expected[i],
                      Tolerance(type))
              << Name(type, shape) << ", token " << token << ", number " << i;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, AttentionOfATokenHasTheSameBitsInEveryRun) {
  std::mt19937 random(6);
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : kShapes) {
      if (!CanStoreKv(type, shape.head_dim) || !CanStoreKv(type, shape.v_head_dim)) continue;
      const Case attention(table(), shape, type, random);
      const std::vector<float> alone = attention.Run(1);
      for (const int64_t tokens : {int64_t{3}, int64_t{16}, shape.n_tokens}) {
        ASSERT_TRUE(SameBits(attention.Run(tokens), alone))
            << Name(type, shape) << " at a time: " << tokens;
      }
    }
  }
}

TEST_P(AttentionKernels, SpansThatRunApartGiveTheSameBits) {
  std::mt19937 random(7);
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : {Shape{8, 64, 64, 1, 5000},
                               {3, 32, 64, 1, 1025},
                               {1, 64, 32, 1, 9},
                               {2, 64, 64, 1, 4000, {1200}},
                               {2, 64, 64, 1, 3000, {30}},
                               {2, 64, 64, 1, 3000, {1100, true}},
                               {8, 64, 64, 1, 3000, {}, 0, true},
                               {8, 64, 64, 1, 3000, {}, 0, false, true}}) {
      const Case attention(table(), shape, type, random);
      const int64_t row = AttentionStateFloats(shape.v_head_dim);
      const int64_t n_spans = AttentionSpanOf(shape.n_positions - 1) + 1;
      const int64_t first_span = AttentionSpanOf(FirstVisible(shape.window, shape.n_positions - 1));
      ScratchMemory states(n_spans * shape.group * row * 4);
      ScratchMemory scratch(SpanScratchBytes(shape.group, shape.head_dim, shape.v_head_dim));
      std::vector<float> out(static_cast<size_t>(shape.group * shape.v_head_dim));
      const AttentionArguments arguments = attention.Arguments(0, 1, out.data());
      auto* floats = reinterpret_cast<float*>(states.data());
      for (int64_t span = n_spans - 1; span >= first_span; --span) {
        table().attend_span(arguments, span, floats + span * shape.group * row, scratch.data());
      }
      MergeSpans(arguments, floats);
      EXPECT_TRUE(SameBits(out, attention.Run(1))) << Name(type, shape);
    }
  }
}

TEST_P(AttentionKernels, ARingOfPositionsGivesTheBitsOfAllOfThem) {
  std::mt19937 random(13);
  constexpr int64_t kRing = 192;
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : {Shape{4, 64, 64, 12, 1100, {100}},
                               {1, 64, 32, 90, 300, {64}},
                               {2, 64, 64, 30, 400, {96, true}}}) {
      const Case attention(table(), shape, type, random);
      std::vector<float> out(static_cast<size_t>(shape.n_tokens * shape.group * shape.v_head_dim));
      AttentionArguments arguments = attention.Arguments(0, shape.n_tokens, out.data());
      // Blocks in the order of positions, so that the last ones stay.
      const int64_t block_keys = KeyBytes(type, shape.head_dim, kAttentionBlock);
      const int64_t block_values = ValueBytes(type, shape.v_head_dim, kAttentionBlock);
      std::vector<std::byte> keys(static_cast<size_t>(kRing / kAttentionBlock * block_keys));
      std::vector<std::byte> values(static_cast<size_t>(kRing / kAttentionBlock * block_values));
      for (int64_t block = 0; block * kAttentionBlock < shape.n_positions; ++block) {
        const int64_t rest = shape.n_positions - block * kAttentionBlock;
        const int64_t n = std::min(kAttentionBlock, rest);
        const int64_t place = block % (kRing / kAttentionBlock);
        std::memcpy(keys.data() + place * block_keys, arguments.k + block * block_keys,
                    static_cast<size_t>(KeyBytes(type, shape.head_dim, n)));
        std::memcpy(values.data() + place * block_values, arguments.v + block * block_values,
                    static_cast<size_t>(ValueBytes(type, shape.v_head_dim, n)));
      }
      arguments.k = keys.data();
      arguments.v = values.data();
      arguments.ring = kRing;
      ScratchMemory scratch(AttentionScratchBytes(shape.group, shape.head_dim, shape.v_head_dim));
      Attend(table(), arguments, scratch.data());
      EXPECT_TRUE(SameBits(out, attention.Run(shape.n_tokens))) << Name(type, shape);
    }
  }
}

TEST_P(AttentionKernels, WhatTheTokensBehindAreDoesNotMatter) {
  std::mt19937 random(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : {Shape{1, 64, 64, 70, 130}, {8, 64, 32, 13, 1030}}) {
      Case attention(table(), shape, type, random);
      const std::vector<float> before = attention.Run(shape.n_tokens);
      const int64_t last = shape.n_positions - 1;
      attention.SetKey(last, std::vector<float>(static_cast<size_t>(shape.head_dim), nan));
      attention.SetValue(last, std::vector<float>(static_cast<size_t>(shape.v_head_dim), nan));
      const std::vector<float> after = attention.Run(shape.n_tokens);
      const auto row = static_cast<size_t>(shape.group * shape.v_head_dim);
      EXPECT_EQ(std::memcmp(before.data(), after.data(), (before.size() - row) * sizeof(float)), 0)
          << Name(type, shape);
      for (size_t i = before.size() - row; i < before.size(); ++i) {
        EXPECT_TRUE(std::isnan(after[i])) << Name(type, shape) << " number " << i;
      }
    }
  }
}

TEST_P(AttentionKernels, WhatIsNotFiniteInAQueryStaysInItsHead) {
  std::mt19937 random(8);
  const Shape shape{4, 64, 64, 5, 1100};
  for (const KvType type : kAllKvTypes) {
    Case attention(table(), shape, type, random);
    const std::vector<float> before = attention.Run(5);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
          std::numeric_limits<float>::infinity()}) {
      attention.q()[(2 * 4 + 1) * 64 + 7] = bad;
      const std::vector<float> after = attention.Run(5);
      for (size_t i = 0; i < before.size(); ++i) {
        if (i / 64 == 2 * 4 + 1) {
          EXPECT_TRUE(std::isnan(after[i])) << Name(type, shape) << " " << bad << " " << i;
        } else {
          EXPECT_EQ(before[i], after[i]) << Name(type, shape) << " " << bad << " " << i;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, ScoresFarApartPickTheLargest) {
  std::mt19937 random(9);
  // Scores of 0 but one, at either end of a context of several blocks and spans, or in its middle;
  // then the others far below, beyond the floats even.
  const Shape shape{2, 64, 64, 1, 2100};
  for (const auto& [type, magnitude] : {std::pair(KvType::kF32, 1e4f),
                                        {KvType::kF32, 1e19f},
                                        {KvType::kF16, 6e4f},
                                        {KvType::kI16, 1e4f},
                                        {KvType::kI16, 1e19f},
                                        {KvType::kQ8_0, 1e3f},
                                        {KvType::kQ8_0, 1e19f}}) {
    for (const int64_t chosen : {0, 70, 1024, 2099}) {
      Case attention(table(), shape, type, random);
      attention.q().assign(128, magnitude);
      for (int64_t position = 0; position < shape.n_positions; ++position) {
        attention.SetKey(position, std::vector<float>(64, position == chosen ? 1.0f : -magnitude));
        attention.SetValue(position,
                           std::vector<float>(64, static_cast<float>(position == chosen)));
      }
      for (const float number : attention.Run(1)) {
        EXPECT_NEAR(number, 1.0f, 1e-6f + static_cast<float>(Tolerance(type) - kAttentionTolerance))
            << KvTypeName(type) << " " << magnitude << " at " << chosen;
      }
    }
  }
}

// Numbers of every magnitude that float16 has, subnormal ones too.
TEST_P(AttentionKernels, ErrorsFollowTheMagnitudeOfKeysAndValues) {
  std::mt19937 random(14);
  const Shape shape{4, 64, 64, 2, 150};
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI16}) {
    for (const float magnitude : {0x1p-20f, 0x1p-12f, 1.0f, 0x1p10f, 0x1p13f}) {
      Case attention(table(), shape, type, random);
      const auto scaled = [&] {
        std::vector<float> numbers = RandomFloats(64, random);
        for (float& x : numbers) x *= magnitude;
        return numbers;
      };
      for (int64_t position = 0; position < shape.n_positions; ++position) {
        attention.SetKey(position, scaled());
        attention.SetValue(position, scaled());
      }
      for (float& x : attention.q()) x /= magnitude;
      const std::vector<float> out = attention.Run(2);
      const std::vector<double> expected = attention.Expected(1);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(out[expected.size() + i] / magnitude, expected[i] / double{magnitude},
                    Tolerance(type))
            << KvTypeName(type) << " times " << magnitude << ", number " << i;
      }
    }
  }
}

double SumOfSquares(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// kI16 takes the place of kF16. Among a key's numbers one that is much larger, as many models have
// them, takes bits from the others.
TEST_P(AttentionKernels, ShortsAreOffByNoMoreThanHalves) {
  std::mt19937 random(15);
  for (const float outlier : {1.0f, 8.0f, 64.0f}) {
    double of_shorts = 0;
    double of_halves = 0;
    for (const int64_t head_dim : {32, 32, 64, 64, 64, 128, 128, 256}) {
      const Shape shape{8, head_dim, head_dim, 1, 300};
      Case halves(table(), shape, KvType::kF16, random);
      Case shorts(table(), shape, KvType::kI16, random);
      Case exact(table(), shape, KvType::kF32, random);
      for (int64_t position = 0; position < shape.n_positions; ++position) {
        std::vector<float> key = RandomFloats(head_dim, random);
        key[5] *= outlier;
        const std::vector<float> value = RandomFloats(head_dim, random);
        for (Case* attention : {&halves, &shorts, &exact}) {
          attention->SetKey(position, key);
          attention->SetValue(position, value);
        }
      }
      exact.q() = shorts.q() = halves.q();
      const std::vector<double> expected = exact.Expected(0);
      const std::vector<float> out = shorts.Run(1);
      of_shorts += SumOfSquares({out.begin(), out.end()}, expected);
      of_halves += SumOfSquares(halves.Expected(0), expected);
    }
    EXPECT_LE(of_shorts, of_halves) << "outliers of " << outlier;
  }
}

// Of two positions with scores 0 and x, whose values are (1, 0) and (0, 1): the ratio of the
// results is the exponential itself, after a few roundings, one of them that of x in units of
// log2(e).
TEST_P(AttentionKernels, WeightsAreExponentialsToAFewRoundings) {
  std::mt19937 random(12);
  Case attention(table(), {1, 16, 2, 1, 2}, KvType::kF32, random);  // scores are q . k / 4
  attention.SetKey(0, std::vector<float>(16, 0.0f));
  std::vector<float> key(16, 0.0f);
  key[0] = 4;
  attention.SetKey(1, key);
  attention.SetValue(0, {1, 0});
  attention.SetValue(1, {0, 1});
  for (int step = 0; step <= 27000; ++step) {
    const float x = -0.0032f * static_cast<float>(step);  // down to -86.4
    attention.q()[0] = x;
    const std::vector<float> out = attention.Run(1);
    ASSERT_NEAR(double{out[1]} / double{out[0]} / std::exp(double{x}), 1, (4 - double{x}) * 0x1p-23)
        << x;
  }
}

TEST_P(AttentionKernels, StoredHalvesAreRoundedToNearestEven) {
  std::mt19937 random(3);
  std::vector<float> numbers = RandomFloats(1000, random);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 60) - 40);
  }
  numbers[0] = std::numeric_limits<float>::infinity();
  numbers[1] = 65520.0f;
  numbers[2] = 1.0f + 0x1p-11f;
  numbers[3] = 1.0f + 0x3p-11f;
  for (const int64_t n : {1000, 7, 8, 9, 1}) {
    std::vector<uint16_t> stored(static_cast<size_t>(n) + 1, 0xabcd);
    table().store_kv(numbers.data(), n, KvType::kF16, reinterpret_cast<std::byte*>(stored.data()));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      ASSERT_EQ(stored[i], F32ToF16(numbers[i])) << numbers[i];
    }
    EXPECT_EQ(stored.back(), 0xabcd) << "written behind the last number";
  }
}

TEST_P(AttentionKernels, StoredBrainHalvesAreRoundedToNearestEven) {
  std::mt19937 random(10);
  std::vector<float> numbers = RandomFloats(1000, random);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 250) - 140);
  }
  numbers[0] = -std::numeric_limits<float>::infinity();
  numbers[1] = std::numeric_limits<float>::max();
  numbers[2] = 1.0f + 0x1p-8f;
  numbers[3] = 1.0f + 0x3p-8f;
  numbers[4] = -std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : {1000, 7, 8, 9, 1}) {
    std::vector<uint16_t> stored(static_cast<size_t>(n) + 1, 0xabcd);
    table().store_kv(numbers.data(), n, KvType::kBF16, reinterpret_cast<std::byte*>(stored.data()));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      ASSERT_EQ(stored[i], F32ToBF16(numbers[i])) << numbers[i];
    }
    EXPECT_EQ(stored.back(), 0xabcd) << "written behind the last number";
  }
}

// Heads that no unit of 16 and no block of 32 divides, where the type allows that.
int64_t OddHead(KvType type) { return IsPaired(type) ? 96 : 82; }

TEST_P(AttentionKernels, KeysAndValuesAreStoredInUnitsWithTheBitsOfRows) {
  std::mt19937 random(11);
  for (const KvType type : kAllKvTypes) {
    const int64_t n = OddHead(type);
    std::vector<std::byte> keys(static_cast<size_t>(KeyBytes(type, n, 83)));
    std::vector<std::byte> values(static_cast<size_t>(ValueBytes(type, n, 83)));
    std::vector<std::vector<float>> rows;
    for (int64_t position = 0; position < 83; ++position) {
      const std::vector<float> numbers = RandomFloats(n, random);
      StoreKey(table(), numbers.data(), n, type, position, keys.data());
      StoreValue(table(), numbers.data(), n, type, position, values.data());
      rows.push_back(StoredRow(table(), numbers, type));
    }
    for (int64_t position = 0; position < 83; ++position) {
      for (int64_t i = 0; i < n; ++i) {
        const float expected = rows[static_cast<size_t>(position)][static_cast<size_t>(i)];
        ASSERT_EQ(StoredKeyNumber(keys.data(), position, i, n, type), expected);
        ASSERT_EQ(StoredValueNumber(values.data(), position, i, n, type), expected);
      }
    }
  }
}

TEST_P(AttentionKernels, CopiesHaveTheBitsOfTheirOriginals) {
  std::mt19937 random(12);
  for (const KvType type : kAllKvTypes) {
    const int64_t n = OddHead(type);
    std::vector<std::byte> keys(static_cast<size_t>(KeyBytes(type, n, 83)));
    std::vector<std::byte> values(static_cast<size_t>(ValueBytes(type, n, 83)));
    for (int64_t position = 0; position < 83; ++position) {
      StoreKey(table(), RandomFloats(n, random).data(), n, type, position, keys.data());
      StoreValue(table(), RandomFloats(n, random).data(), n, type, position, values.data());
    }
    std::vector<std::byte> key_copies(static_cast<size_t>(KeyBytes(type, n, 42)));
    std::vector<std::byte> value_copies(static_cast<size_t>(ValueBytes(type, n, 42)));
    for (int64_t place = 0; place < 42; ++place) {
      CopyKey(type, n, keys.data(), 2 * place, key_copies.data(), place);
      CopyValue(type, n, values.data(), 2 * place, value_copies.data(), place);
    }
    for (int64_t place = 0; place < 42; ++place) {
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(StoredKeyNumber(key_copies.data(), place, i, n, type),
                  StoredKeyNumber(keys.data(), 2 * place, i, n, type));
        ASSERT_EQ(StoredValueNumber(value_copies.data(), place, i, n, type),
                  StoredValueNumber(values.data(), 2 * place, i, n, type));
      }
    }
  }
}

// Blocks of every magnitude: below the smallest scale, in the subnormal halves, usual, near the
// largest float; then ones made of ties and of a single number.
std::vector<float> NumbersOfAllMagnitudes(std::mt19937& random) {
  std::vector<float> numbers = RandomFloats(kKvBlock * 280, random);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int magnitude = static_cast<int>(i / size_t{kKvBlock}) - 155;
    numbers[i] = std::clamp(std::ldexp(numbers[i], magnitude), -3e38f, 3e38f);
  }
  for (int64_t i = 0; i < kKvBlock; ++i) numbers.push_back(static_cast<float>(i) - 0.5f);
  numbers[numbers.size() - 1] = 127.0f;
  for (int64_t i = 0; i < kKvBlock; ++i) numbers.push_back(i == 5 ? -1.0f : 0.0f);
  return numbers;
}

TEST_P(AttentionKernels, StoredBlocksAreOffByAtMostHalfAScale) {
  std::mt19937 random(4);
  const std::vector<float> numbers = NumbersOfAllMagnitudes(random);
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> stored(static_cast<size_t>(KvRowBytes(KvType::kQ8_0, n)) + 1,
                                std::byte{0xab});
  table().store_kv(numbers.data(), n, KvType::kQ8_0, stored.data());
  EXPECT_EQ(stored.back(), std::byte{0xab}) << "written behind the last block";
  for (int64_t begin = 0; begin < n; begin += kKvBlock) {
    double largest = 0;
    for (int64_t i = begin; i < begin + kKvBlock; ++i) {
      largest = std::max(largest, std::fabs(double{numbers[static_cast<size_t>(i)]}));
    }
    const double bound = largest < 0x1p-119 ? largest : largest * kBlockError;
    for (int64_t i = begin; i < begin + kKvBlock; ++i) {
      const float read = StoredNumber(stored.data(), i, KvType::kQ8_0);
      ASSERT_NEAR(double{read}, double{numbers[static_cast<size_t>(i)]}, bound) << "number " << i;
    }
  }
}

// By rows of one block.
TEST_P(AttentionKernels, StoredShortsAreOffByAtMostHalfAScale) {
  std::mt19937 random(4);
  const std::vector<float> numbers = NumbersOfAllMagnitudes(random);
  for (size_t begin = 0; begin < numbers.size(); begin += kKvBlock) {
    const float* row = numbers.data() + begin;
    std::vector<std::byte> stored(2 + 2 * kKvBlock + 1, std::byte{0xab});
    table().store_kv(row, kKvBlock, KvType::kI16, stored.data());
    EXPECT_EQ(stored.back(), std::byte{0xab}) << "written behind the last number";
    double largest = 0;
    for (int64_t i = 0; i < kKvBlock; ++i) largest = std::max(largest, std::fabs(double{row[i]}));
    const double bound = largest < 0x1p-111 ? largest : largest * kShortError;
    for (int64_t i = 0; i < kKvBlock; ++i) {
      ASSERT_NEAR(double{StoredNumber(stored.data(), i, KvType::kI16)}, double{row[i]}, bound)
          << "number " << i << " from " << begin;
    }
  }
}

TEST_P(AttentionKernels, BlocksAreStoredAsThePortableKernelsStoreThem) {
  std::mt19937 random(5);
  std::vector<float> numbers = NumbersOfAllMagnitudes(random);
  for (const float odd :
       {std::numeric_limits<float>::infinity(), -0.0f, -std::numeric_limits<float>::quiet_NaN(),
        0x1p-111f, 0x1p-119f, 0x1p-140f}) {
    for (int64_t i = 0; i < kKvBlock; ++i) numbers.push_back(i == 17 ? odd : odd * 0.25f);
  }
  const auto all = static_cast<int64_t>(numbers.size());
  const auto compare = [&](KvType type, int64_t begin, int64_t n) {
    std::vector<std::byte> expected(static_cast<size_t>(KvRowBytes(type, n)));
    std::vector<std::byte> got(expected.size());
    const float* row = numbers.data() + begin;
    (*SelectKernels("portable"))->store_kv(row, n, type, expected.data());
    table().store_kv(row, n, type, got.data());
    ASSERT_EQ(got, expected) << KvTypeName(type) << ", " << n << " from " << begin;
  };
  compare(KvType::kQ8_0, 0, all);
  for (const int64_t n : {32, 96, 1024}) {
    for (int64_t begin = 0; begin + n <= all; begin += n) compare(KvType::kI16, begin, n);
  }
}

TEST_P(AttentionKernels, ABlockWithANumberThatIsNotFiniteReadsAsNaN) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> numbers(2 * kKvBlock, 1.0f);
    numbers[40] = bad;
    std::vector<std::byte> stored(2 * kKvBlockBytes);
    table().store_kv(numbers.data(), 2 * kKvBlock, KvType::kQ8_0, stored.data());
    std::vector<std::byte> shorts(2 + 2 * 2 * kKvBlock);
    table().store_kv(numbers.data(), 2 * kKvBlock, KvType::kI16, shorts.data());
    for (int64_t i = 0; i < 2 * kKvBlock; ++i) {
      const float read = StoredNumber(stored.data(), i, KvType::kQ8_0);
      EXPECT_EQ(std::isnan(read), i >= kKvBlock) << bad << " at number " << i;
      EXPECT_TRUE(std::isnan(StoredNumber(shorts.data(), i, KvType::kI16))) << bad << " at " << i;
    }
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(AttentionKernels,
                              TablesByFunctions(&KernelTable::attend_span, &KernelTable::store_kv));

TEST(KvType, StatesTheBytesOfARow) {
  EXPECT_EQ(KvRowBytes(KvType::kF32, 80), 320);
  EXPECT_EQ(KvRowBytes(KvType::kF16, 80), 160);
  EXPECT_EQ(KvRowBytes(KvType::kBF16, 80), 160);
  EXPECT_EQ(KvRowBytes(KvType::kQ8_0, 64), 2 * (2 + 32));
  EXPECT_EQ(KvRowBytes(KvType::kQ8_0, 80), 3 * (2 + 32)) << "a started block is a whole one";
  EXPECT_EQ(KvRowBytes(KvType::kI16, 64), 2 + 2 * 64);
  EXPECT_EQ(KeyBytes(KvType::kI16, 64, 17), 64 * (2 + 2 * 64));
  EXPECT_EQ(ValueBytes(KvType::kI16, 64, 65), 128 * (2 + 2 * 64));
  EXPECT_EQ(KeyBytes(KvType::kF16, 80, 17), 32 * 160) << "a started unit is a whole one";
  EXPECT_EQ(ValueBytes(KvType::kF16, 80, 17), 17 * 160);
  EXPECT_EQ(ValueBytes(KvType::kQ8_0, 64, 17), 64 * 2 * (2 + 32)) << "units of values as well";
}

TEST(AttentionTile, HasAtLeastOneTokenWhateverTheGroup) {
  EXPECT_EQ(AttentionTileTokens(1), 96);
  EXPECT_EQ(AttentionTileTokens(8), 12);
  EXPECT_EQ(AttentionTileTokens(97), 1);
}

TEST(KvType, OnlyPairedTypesNeedAMultipleOf32Numbers) {
  EXPECT_TRUE(CanStoreKv(KvType::kF32, 80));
  EXPECT_TRUE(CanStoreKv(KvType::kF16, 81));
  EXPECT_TRUE(CanStoreKv(KvType::kBF16, 81));
  EXPECT_TRUE(CanStoreKv(KvType::kQ8_0, 96));
  EXPECT_FALSE(CanStoreKv(KvType::kQ8_0, 80));
  EXPECT_TRUE(CanStoreKv(KvType::kI16, 576));
  EXPECT_FALSE(CanStoreKv(KvType::kI16, 80));
  EXPECT_FALSE(CanStoreKv(KvType::kI16, 1056)) << "a row fits the stack";
}

}  // namespace
}  // namespace thaw
