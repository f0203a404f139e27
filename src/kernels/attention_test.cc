#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel_test_support.h"
#include "tensor/half.h"

namespace thaw {
namespace {

class AttentionKernels : public EachKernelTable {};

// Rounding of dot products of unit-size numbers, passed through the softmax, and of their mixture.
constexpr double kAttentionTolerance = 3e-6;

// What a block of kQ8_0 may be off by, as a share of its largest magnitude: half a scale, which is
// a 127th of it, rounded up by at most 2^-9 of itself to a bfloat16; and the float rounding of the
// quotient on top.
constexpr double kBlockError = 0.5 / 127 * (1 + 0x1p-9) * (1 + 0x1p-20);

constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8_0};

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Number i of a stored row.
float StoredNumber(const std::byte* row, int64_t i, KvType type) {
  if (type == KvType::kF32) return Load<float>(row + 4 * i);
  if (type == KvType::kF16) return F16ToF32(Load<uint16_t>(row + 2 * i));
  const std::byte* block = row + i / 32 * 34;
  return BF16ToF32(Load<uint16_t>(block)) * static_cast<float>(Load<int8_t>(block + 2 + i % 32));
}

struct Shape {
  int64_t group;
  int64_t head_dim;
  int64_t v_head_dim;
  int64_t n_positions;
};

// Rows of random numbers as a KV cache stores them, further apart than they are long.
class StoredRows {
 public:
  StoredRows(const KernelTable& table, KvType type, int64_t n_rows, int64_t n, std::mt19937& random)
      : type_(type),
        stride_bytes_(KvRowBytes(type, n) + kGapBytes),
        bytes_(static_cast<size_t>(n_rows * stride_bytes_)) {
    for (int64_t row = 0; row < n_rows; ++row) {
      const std::vector<float> numbers = RandomFloats(n, random);
      table.store_kv(numbers.data(), n, type, bytes_.data() + row * stride_bytes_);
    }
  }

  const std::byte* data() const { return bytes_.data(); }
  int64_t stride_bytes() const { return stride_bytes_; }
  double At(int64_t row, int64_t i) const {
    return double{StoredNumber(data() + row * stride_bytes_, i, type_)};
  }

 private:
  static constexpr int64_t kGapBytes = 12;

  KvType type_;
  int64_t stride_bytes_;
  std::vector<std::byte> bytes_;
};

// Random queries, keys and values.
class Case {
 public:
  Case(const KernelTable& table, const Shape& shape, KvType type, std::mt19937& random)
      : shape_(shape),
        q_(RandomFloats(shape.group * shape.head_dim, random)),
        k_(table, type, shape.n_positions, shape.head_dim, random),
        v_(table, type, shape.n_positions, shape.v_head_dim, random),
        scores_(static_cast<size_t>(shape.group * shape.n_positions)),
        out_(static_cast<size_t>(shape.group * shape.v_head_dim)) {
    arguments_ = {.q = q_.data(),
                  .group = shape.group,
                  .head_dim = shape.head_dim,
                  .v_head_dim = shape.v_head_dim,
                  .kv_type = type,
                  .k = k_.data(),
                  .v = v_.data(),
                  .k_stride_bytes = k_.stride_bytes(),
                  .v_stride_bytes = v_.stride_bytes(),
                  .n_positions = shape.n_positions,
                  .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                  .scores = scores_.data(),
                  .out = out_.data()};
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  const AttentionArguments& arguments() const { return arguments_; }
  const std::vector<float>& out() const { return out_; }

  std::vector<double> Expected(int64_t head) const {
    std::vector<double> scores;
    for (int64_t position = 0; position < shape_.n_positions; ++position) {
      double dot = 0;
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        dot += double{q_[static_cast<size_t>(head * shape_.head_dim + i)]} * k_.At(position, i);
      }
      scores.push_back(dot * double{arguments_.scale});
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    std::vector<double> out(static_cast<size_t>(shape_.v_head_dim));
    for (int64_t position = 0; position < shape_.n_positions; ++position) {
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] +=
            scores[static_cast<size_t>(position)] / sum * v_.At(position, static_cast<int64_t>(i));
      }
    }
    return out;
  }

 private:
  Shape shape_;
  std::vector<float> q_;
  StoredRows k_, v_;
  std::vector<float> scores_, out_;
  AttentionArguments arguments_;
};

TEST_P(AttentionKernels, AttentionMixesValuesByTheSoftmaxOfTheScores) {
  std::mt19937 random(1);
  const Shape shapes[] = {{1, 64, 64, 1},  {3, 64, 64, 37}, {1, 128, 128, 100}, {8, 128, 128, 9},
                          {5, 80, 80, 16}, {4, 96, 96, 33}, {2, 16, 16, 200},   {7, 256, 256, 5},
                          {2, 18, 22, 11}, {6, 2, 6, 50},   {1, 192, 128, 7},   {3, 34, 30, 1000},
                          {2, 32, 96, 64}};
  for (const KvType type : kAllKvTypes) {
    for (const Shape& shape : shapes) {
      if (!CanStoreKv(type, shape.head_dim) || !CanStoreKv(type, shape.v_head_dim)) continue;
      const Case attention(table(), shape, type, random);
      table().attention(attention.arguments());
      for (int64_t head = 0; head < shape.group; ++head) {
        const std::vector<double> expected = attention.Expected(head);
        for (size_t i = 0; i < expected.size(); ++i) {
          const auto at = static_cast<size_t>(head * shape.v_head_dim) + i;
          ASSERT_NEAR(attention.out()[at], expected[i], kAttentionTolerance)
              << KvTypeName(type) << ", head " << head << " of " << shape.group << ", size "
              << shape.head_dim << " and " << shape.v_head_dim << ", " << shape.n_positions
              << " positions, number " << i;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, AttentionDoesNotReadBehindTheVisiblePositions) {
  for (const KvType type : kAllKvTypes) {
    std::mt19937 random(2);
    const Case attention(table(), {3, 64, 64, 40}, type, random);
    AttentionArguments few = attention.arguments();
    few.n_positions = 17;
    table().attention(few);
    const std::vector<float> before(attention.out().begin(), attention.out().end());
    std::vector<std::byte> k(few.k, few.k + 17 * few.k_stride_bytes);
    std::vector<std::byte> v(few.v, few.v + 17 * few.v_stride_bytes);
    k.resize(static_cast<size_t>(40 * few.k_stride_bytes), std::byte{0xff});
    v.resize(static_cast<size_t>(40 * few.v_stride_bytes), std::byte{0xff});
    few.k = k.data();
    few.v = v.data();
    table().attention(few);
    EXPECT_EQ(attention.out(), before) << KvTypeName(type);
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

TEST_P(AttentionKernels, BlocksAreStoredAsThePortableKernelsStoreThem) {
  std::mt19937 random(5);
  std::vector<float> numbers = NumbersOfAllMagnitudes(random);
  for (const float odd : {std::numeric_limits<float>::infinity(), -0.0f,
                          -std::numeric_limits<float>::quiet_NaN(), 0x1p-119f, 0x1p-140f}) {
    for (int64_t i = 0; i < kKvBlock; ++i) numbers.push_back(i == 17 ? odd : odd * 0.25f);
  }
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> expected(static_cast<size_t>(KvRowBytes(KvType::kQ8_0, n)));
  std::vector<std::byte> got(expected.size());
  (*SelectKernels("portable"))->store_kv(numbers.data(), n, KvType::kQ8_0, expected.data());
  table().store_kv(numbers.data(), n, KvType::kQ8_0, got.data());
  EXPECT_EQ(got, expected);
}

TEST_P(AttentionKernels, ABlockWithANumberThatIsNotFiniteReadsAsNaN) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> numbers(2 * kKvBlock, 1.0f);
    numbers[40] = bad;
    std::vector<std::byte> stored(2 * kKvBlockBytes);
    table().store_kv(numbers.data(), 2 * kKvBlock, KvType::kQ8_0, stored.data());
    for (int64_t i = 0; i < 2 * kKvBlock; ++i) {
      const float read = StoredNumber(stored.data(), i, KvType::kQ8_0);
      EXPECT_EQ(std::isnan(read), i >= kKvBlock) << bad << " at number " << i;
    }
  }
}

INSTANTIATE_FOR_EACH_KERNEL_TABLE(AttentionKernels);

TEST(KvType, StatesTheBytesOfARow) {
  EXPECT_EQ(KvRowBytes(KvType::kF32, 80), 320);
  EXPECT_EQ(KvRowBytes(KvType::kF16, 80), 160);
  EXPECT_EQ(KvRowBytes(KvType::kQ8_0, 64), 2 * (2 + 32));
  EXPECT_EQ(KvRowBytes(KvType::kQ8_0, 80), 3 * (2 + 32)) << "a started block is a whole one";
}

TEST(KvType, OnlyBlocksNeedAMultipleOf32Numbers) {
  EXPECT_TRUE(CanStoreKv(KvType::kF32, 80));
  EXPECT_TRUE(CanStoreKv(KvType::kF16, 81));
  EXPECT_TRUE(CanStoreKv(KvType::kQ8_0, 96));
  EXPECT_FALSE(CanStoreKv(KvType::kQ8_0, 80));
}

}  // namespace
}  // namespace thaw
