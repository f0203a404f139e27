// Norms, nonlinearities, soft caps and addition of every kernel table, against double precision.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

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

TEST_P(VectorKernels, LayerNormTakesTheMeanOffAndDividesByTheDeviation) {
  std::mt19937 random(4);
  for (const int64_t n : kLengths) {
    for (const float offset : {0.0f, 30.0f}) {
      std::vector<float> x = RandomFloats(n, random);
      for (float& value : x) value += offset;
      const std::vector<float> weight = RandomFloats(n, random);
      const std::vector<float> bias = RandomFloats(n, random);
      double sum = 0;
      for (const float value : x) sum += value;
      const double mean = sum / static_cast<double>(n);
      double squares = 0;
      for (const float value : x) squares += (value - mean) * (value - mean);
      const double root = std::sqrt(squares / static_cast<double>(n) + 1e-5);
      std::vector<float> plain(x.size());
      table().layer_norm(x.data(), nullptr, nullptr, n, 1e-5f, plain.data());
      std::vector<float> out(x.size());
      table().layer_norm(x.data(), weight.data(), bias.data(), n, 1e-5f, out.data());
      // Numbers around 30 have lost five bits before they come here.
      const double tolerance = (offset == 0 ? 2 : 40) * kVectorTolerance / std::min(1.0, root);
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = (x[i] - mean) / root;
        ASSERT_NEAR(plain[i], expected, tolerance) << n << " " << i;
        ASSERT_NEAR(out[i], expected * weight[i] + bias[i], 4 * tolerance) << n << " " << i;
      }
      table().layer_norm(x.data(), weight.data(), bias.data(), n, 1e-5f, x.data());
      EXPECT_EQ(x, out) << "in place";
    }
  }
}

double Applied(const Activation& by, double x) {
  const double silu = x / (1 + std::exp(-x));
  switch (by.f) {
    case Nonlinearity::kSilu:
      return silu;
    case Nonlinearity::kBoundedSilu:
      return std::min(silu, double{by.bound});
    case Nonlinearity::kXielu:
      if (x > 0) return by.alpha_p * x * x + by.beta * x;
      return by.alpha_n * (std::expm1(std::min(x, double{by.epsilon})) - x) + by.beta * x;
    case Nonlinearity::kGelu:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Nonlinearity::kReluSquared:
      return x < 0 ? 0 : x * x;
    case Nonlinearity::kRelu:
      return std::max(x, 0.0);
    case Nonlinearity::kLogistic:
      return 1 / (1 + std::exp(-x));
    case Nonlinearity::kExp:
      return std::exp(x);
    case Nonlinearity::kSoftPlus:
      return std::log1p(std::exp(x));
    case Nonlinearity::kClampedSwish:
      break;
  }
  return std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0)));
}

double Factor(const Activation& by, double up) {
  if (by.f == Nonlinearity::kClampedSwish) return std::clamp(up, -7.0, 7.0) + 1;
  const double bound = by.bound;
  return by.f == Nonlinearity::kBoundedSilu ? std::clamp(up, -bound, bound) : up;
}

TEST_P(VectorKernels, ActivateAppliesTheFunctionToTheGate) {
  std::mt19937 random(2);
  for (const Nonlinearity f : kAllNonlinearities) {
    const Activation by = {f, 1.5f, 0.9f, 0.7f, 0.4f, -0.25f};
    // Far below zero the approximation of GELU is a small difference of large numbers; near zero so
    // is e^x - 1 - x.
    const double least = f == Nonlinearity::kXielu ? 1 : 1e-3;
    for (const int64_t n : kLengths) {
      std::vector<float> gate = RandomFloats(n, random);
      for (float& value : gate) value *= 3.0f;
      std::vector<float> up = RandomFloats(n, random);
      for (float& value : up) value *= 3.0f;
      std::vector<float> out(gate.size());
      std::vector<float> alone(gate.size());
      table().activate(by, gate.data(), up.data(), n, out.data());
      table().activate(by, gate.data(), nullptr, n, alone.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const double expected = Applied(by, gate[i]);
        const double tolerance = 2 * kVectorTolerance * std::max(std::abs(expected), least);
        ASSERT_NEAR(alone[i], expected, tolerance) << gate[i];
        const double factor = Factor(by, up[i]);
        ASSERT_NEAR(out[i], expected * factor, tolerance * std::max(1.0, std::abs(factor)))
            << gate[i];
      }
      table().activate(by, gate.data(), up.data(), n, gate.data());
      EXPECT_EQ(gate, out) << "in place";
    }
  }
}

TEST_P(VectorKernels, SoftCapBoundsByTanh) {
  std::mt19937 random(5);
  for (const int64_t n : kLengths) {
    std::vector<float> x = RandomFloats(n, random);
    for (float& value : x) value *= 40.0f;
    x[0] = n % 2 == 0 ? 1e6f : -1e6f;
    std::vector<float> capped = x;
    table().soft_cap(capped.data(), n, 30);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = 30 * std::tanh(double{x[i]} / 30);
      ASSERT_NEAR(capped[i], expected, 30 * kVectorTolerance) << x[i];
    }
  }
}

TEST_P(VectorKernels, SiluOfExtremeGatesIsTheGateOrZero) {
  const std::vector<float> gate = {1e30f, 200.0f, 88.5f, -88.5f, -200.0f,
                                   -1e4f, 0.0f,   -0.0f, 89.0f};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  table().activate({Nonlinearity::kSilu}, gate.data(), up.data(), static_cast<int64_t>(gate.size()),
                   out.data());
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

// Of every operation on the same numbers, one after the other.
std::vector<float> AllOperations(const KernelTable& table, int64_t n) {
  std::mt19937 random(6);
  const std::vector<float> x = RandomFloats(n, random);
  const std::vector<float> y = RandomFloats(n, random);
  std::vector<float> all;
  std::vector<float> out(x.size());
  const auto keep = [&] { all.insert(all.end(), out.begin(), out.end()); };
  table.rms_norm(x.data(), y.data(), n, 1e-5f, out.data());
  keep();
  table.layer_norm(x.data(), y.data(), x.data(), n, 1e-5f, out.data());
  keep();
  for (const Nonlinearity f : kAllNonlinearities) {
    table.activate({f, 1.5f, 0.9f, 0.7f, 0.4f, -0.25f}, x.data(), y.data(), n, out.data());
    keep();
  }
  out = x;
  table.soft_cap(out.data(), n, 30);
  keep();
  const int64_t rope_dim = n / 2 * 2;
  for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
    out = x;
    table.rope(out.data(), 1, n, y.data(), rope_dim, pairing);
    keep();
  }
  return all;
}

TEST_P(VectorKernels, VectorsOfEveryWidthGiveTheSameBits) {
  if (std::string_view(table().name) == "portable") GTEST_SKIP() << "it has sums of doubles";
  for (const KernelTable* other : AllKernelTables()) {
    if (!other->packs_rows || !other->is_available(HostCpu())) continue;
    for (const int64_t n : kLengths) {
      ASSERT_EQ(AllOperations(table(), n), AllOperations(*other, n)) << other->name << " " << n;
    }
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(VectorKernels,
                              TablesByFunctions(&KernelTable::rms_norm, &KernelTable::layer_norm,
                                                &KernelTable::activate, &KernelTable::soft_cap,
                                                &KernelTable::add, &KernelTable::rope));

}  // namespace
}  // namespace thaw
