// Norm, activation function, addition and softmax of every kernel table, against double precision.

#include <algorithm>
#include <cmath>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

class VectorKernels : public EachKernelTable {};

// A few roundings of a float, relative to the result: x * scale * weight, or exp and a division.
constexpr double kVectorTolerance = 1e-6;

// Around the widths of vectors and their unrolled loops, and the sizes of real models.
const int64_t kLengths[] = {1, 2, 7, 8, 9, 15, 31, 32, 33, 63, 64, 100, 576, 1536, 4096};

TEST_P(VectorKernels, RmsNormDividesByTheRootMeanSquare) {
  std::mt19937 random(1);
  for (const int64_t n : kLengths) {
    for (const float size : {1e-3f, 1.0f, 1e4f}) {
      std::vector<float> x = RandomFloats(n, random);
      for (float& value : x) value *= size;
      const std::vector<float> weight = RandomFloats(n, random);
      double squares = 0;
      for (const float value : x) squares += double{value} * double{value};
      const double root = std::sqrt(squares / static_cast<double>(n) + 1e-5);
      std::vector<float> out(x.size());
      table().rms_norm(x.data(), weight.data(), n, 1e-5f, out.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = x[i] / root * weight[i];
        ASSERT_NEAR(out[i], expected, kVectorTolerance * std::abs(expected)) << n << " " << i;
      }
      table().rms_norm(x.data(), weight.data(), n, 1e-5f, x.data());
      EXPECT_EQ(x, out) << "in place";
    }
  }
}

TEST_P(VectorKernels, RmsNormOfZerosIsZero) {
  const std::vector<float> x(20, 0.0f);
  const std::vector<float> weight(20, 2.0f);
  std::vector<float> out(20, 1.0f);
  table().rms_norm(x.data(), weight.data(), 20, 1e-6f, out.data());
  EXPECT_EQ(out, x);
}

TEST_P(VectorKernels, SiluMultiplyIsTheLogisticOfTheGateTimesBoth) {
  std::mt19937 random(2);
  for (const int64_t n : kLengths) {
    std::vector<float> gate = RandomFloats(n, random);
    for (float& value : gate) value *= 8.0f;
    const std::vector<float> up = RandomFloats(n, random);
    std::vector<float> out(gate.size());
    table().silu_multiply(gate.data(), up.data(), n, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      const double expected = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
      ASSERT_NEAR(out[i], expected, kVectorTolerance * std::abs(expected)) << gate[i];
    }
    table().silu_multiply(gate.data(), up.data(), n, gate.data());
    EXPECT_EQ(gate, out) << "in place";
  }
}

TEST_P(VectorKernels, SiluMultiplyOfExtremeGatesIsTheGateOrZero) {
  const std::vector<float> gate = {1e30f, 200.0f, 88.5f, -88.5f, -200.0f,
                                   -1e4f, 0.0f,   -0.0f, 89.0f};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  table().silu_multiply(gate.data(), up.data(), static_cast<int64_t>(gate.size()), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    EXPECT_NEAR(out[i], std::max(gate[i], 0.0f), 1e-30) << gate[i];
  }
}

TEST_P(VectorKernels, AddAdds) {
  std::mt19937 random(3);
  for (const int64_t n : kLengths) {
    const std::vector<float> a = RandomFloats(n, random);
    std::vector<float> b = RandomFloats(n, random);
    std::vector<float> out(a.size());
    table().add(a.data(), b.data(), n, out.data());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]);
    table().add(a.data(), b.data(), n, b.data());
    EXPECT_EQ(b, out) << "in place";
  }
}

INSTANTIATE_FOR_EACH_KERNEL_TABLE(VectorKernels);

}  // namespace
}  // namespace thaw
