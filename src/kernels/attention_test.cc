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

struct Shape {
  int64_t group;
  int64_t head_dim;
  int64_t v_head_dim;
  int64_t n_positions;
};

// Random queries, keys and values, with rows that stand further apart than they are long.
class Case {
 public:
  Case(const KernelTable& table, const Shape& shape, KvType type, std::mt19937& random)
      : shape_(shape),
        q_(RandomFloats(shape.group * shape.head_dim, random)),
        k_(RandomFloats(shape.n_positions * (shape.head_dim + kGap), random)),
        v_(RandomFloats(shape.n_positions * (shape.v_head_dim + kGap), random)),
        stored_k_(k_.size() * static_cast<size_t>(KvTypeBytes(type))),
        stored_v_(v_.size() * static_cast<size_t>(KvTypeBytes(type))),
        scores_(static_cast<size_t>(shape.group * shape.n_positions)),
        out_(static_cast<size_t>(shape.group * shape.v_head_dim)) {
    Store(table, type, &k_, &stored_k_);
    Store(table, type, &v_, &stored_v_);
    arguments_ = {.q = q_.data(),
                  .group = shape.group,
                  .head_dim = shape.head_dim,
                  .v_head_dim = shape.v_head_dim,
                  .kv_type = type,
                  .k = stored_k_.data(),
                  .v = stored_v_.data(),
                  .k_stride = shape.head_dim + kGap,
                  .v_stride = shape.v_head_dim + kGap,
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
        dot += double{q_[static_cast<size_t>(head * shape_.head_dim + i)]} *
               double{k_[static_cast<size_t>(position * arguments_.k_stride + i)]};
      }
      scores.push_back(dot * double{arguments_.scale});
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    std::vector<double> out(static_cast<size_t>(shape_.v_head_dim));
    for (int64_t position = 0; position < shape_.n_positions; ++position) {
      for (size_t i = 0; i < out.size(); ++i) {
        const auto at = static_cast<size_t>(position * arguments_.v_stride) + i;
        out[i] += scores[static_cast<size_t>(position)] / sum * double{v_[at]};
      }
    }
    return out;
  }

 private:
  static constexpr int64_t kGap = 3;

  // Stores the numbers and puts back what the store made of them.
  static void Store(const KernelTable& table, KvType type, std::vector<float>* numbers,
                    std::vector<std::byte>* stored) {
    table.store_kv(numbers->data(), static_cast<int64_t>(numbers->size()), type, stored->data());
    if (type == KvType::kF32) return;
    for (float& number : *numbers) number = F16ToF32(F32ToF16(number));
  }

  Shape shape_;
  std::vector<float> q_, k_, v_;
  std::vector<std::byte> stored_k_, stored_v_;
  std::vector<float> scores_, out_;
  AttentionArguments arguments_;
};

TEST_P(AttentionKernels, AttentionMixesValuesByTheSoftmaxOfTheScores) {
  std::mt19937 random(1);
  const Shape shapes[] = {{1, 64, 64, 1},  {3, 64, 64, 37}, {1, 128, 128, 100}, {8, 128, 128, 9},
                          {5, 80, 80, 16}, {4, 96, 96, 33}, {2, 16, 16, 200},   {7, 256, 256, 5},
                          {2, 18, 22, 11}, {6, 2, 6, 50},   {1, 192, 128, 7},   {3, 34, 30, 1000}};
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    for (const Shape& shape : shapes) {
      const Case attention(table(), shape, type, random);
      table().attention(attention.arguments());
      for (int64_t head = 0; head < shape.group; ++head) {
        const std::vector<double> expected = attention.Expected(head);
        for (size_t i = 0; i < expected.size(); ++i) {
          const auto at = static_cast<size_t>(head * shape.v_head_dim) + i;
          ASSERT_NEAR(attention.out()[at], expected[i], kAttentionTolerance)
              << "head " << head << " of " << shape.group << ", size " << shape.head_dim << " and "
              << shape.v_head_dim << ", " << shape.n_positions << " positions, number " << i;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, AttentionDoesNotReadBehindTheVisiblePositions) {
  std::mt19937 random(2);
  const Case attention(table(), {3, 64, 64, 40}, KvType::kF16, random);
  AttentionArguments few = attention.arguments();
  few.n_positions = 17;
  table().attention(few);
  const std::vector<float> before = attention.out();
  const int64_t k_bytes = few.k_stride * KvTypeBytes(few.kv_type);
  const int64_t v_bytes = few.v_stride * KvTypeBytes(few.kv_type);
  std::vector<std::byte> k(few.k, few.k + 17 * k_bytes);
  std::vector<std::byte> v(few.v, few.v + 17 * v_bytes);
  k.resize(static_cast<size_t>(40 * k_bytes), std::byte{0xff});
  v.resize(static_cast<size_t>(40 * v_bytes), std::byte{0xff});
  few.k = k.data();
  few.v = v.data();
  table().attention(few);
  EXPECT_EQ(attention.out(), before);
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

INSTANTIATE_FOR_EACH_KERNEL_TABLE(AttentionKernels);

}  // namespace
}  // namespace thaw
