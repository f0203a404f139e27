#include "sampling/reproducible_exp.h"

#include <array>
#include <bit>
#include <cstdint>

namespace thaw {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2 in two parts. The upper has 21 trailing zero bits, so its product with any exponent here (10
// bits) is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// 1/n!, n = 0..13. The first term left out is below 0.35^14 / 14! = 5e-18 of the sum.
constexpr std::array<double, 14> kInverseFactorials = [] {
  std::array<double, 14> inverses{};
  double factorial = 1;
  for (int n = 0; n < 14; ++n) {
    if (n > 0) factorial *= n;
    inverses[n] = 1 / factorial;
  }
  return inverses;
}();

}  // namespace

double ReproducibleExp(double x) {
  if (!(x >= -700)) return 0;
  // x = exponent * ln 2 + rest, |rest| <= ln 2 / 2.
  const auto exponent = static_cast<int64_t>(x * kLog2E - 0.5);
  const auto steps = static_cast<double>(exponent);
  const double rest = (x - steps * kLn2High) - steps * kLn2Low;
  double sum = kInverseFactorials.back();
  for (int n = 12; n >= 0; --n) sum = sum * rest + kInverseFactorials[n];
  // -1010 <= exponent, so the power of two is a normal number.
  return sum * std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

}  // namespace thaw
