// Alphabets come near to the entropy of what they code, with tails of any length.
#include "codec/alphabet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

namespace thaw {
namespace {

using Counts = std::array<int64_t, kFrozenNumbers>;

size_t At(int m) { return static_cast<size_t>(m - kFrozenLeastNumber); }

// Numbers m of weights that are drawn, `deviation` wide.
template <typename Distribution>
Counts CountDrawn(Distribution distribution, double deviation) {
  Counts counts = {};
  std::mt19937 random(7);
  for (int i = 0; i < 1 << 18; ++i) {
    const auto m = static_cast<int>(std::floor(deviation * distribution(random)));
    ++counts[At(std::clamp(m, -64, 63))];
  }
  return counts;
}

double EntropyBits(const Counts& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0L));
  double bits = 0;
  for (const int64_t count : counts) {
    if (count > 0)
      bits -= static_cast<double>(count) * std::log2(static_cast<double>(count) / total);
  }
  return bits;
}

// Symbols of long tails must not take the slots of the others: with a slot for every number that
// occurs, Student's distribution takes 8 % more than its entropy.
TEST(Alphabet, TakesLittleMoreThanTheEntropy) {
  for (const double deviation : {0.3, 0.5, 1.0, 1.7, 3.0, 8.0, 20.0}) {
    const Counts normal = CountDrawn(std::normal_distribution<double>(), deviation);
    EXPECT_LT(ChooseEcqAlphabet(normal).bits, 1.015 * EntropyBits(normal)) << deviation;
    const Counts heavy = CountDrawn(std::student_t_distribution<double>(5), deviation);
    EXPECT_LT(ChooseEcqAlphabet(heavy).bits, 1.025 * EntropyBits(heavy)) << deviation;
  }
}

TEST(Alphabet, AddsUpWhatItsNumbersTake) {
  const Counts counts = CountDrawn(std::student_t_distribution<double>(5), 5);
  const Alphabet alphabet = ChooseEcqAlphabet(counts);
  double bits = 0;
  for (int m = -64; m < 64; ++m) {
    bits += static_cast<double>(counts[At(m)]) *
            (alphabet.BitsOf(m >> alphabet.raw_planes) + alphabet.raw_planes);
  }
  EXPECT_NEAR(bits, alphabet.bits, 1e-9 * bits);
}

TEST(Alphabet, FrequenciesAddUpTo128AndAnEvenAndAnOddNumberStandInForOthers) {
  Counts lonely = {};
  lonely[At(0)] = 1000;
  Counts uniform;
  uniform.fill(10);
  for (const Counts& counts :
       {lonely, uniform, CountDrawn(std::student_t_distribution<double>(2), 9)}) {
    const Alphabet alphabet = ChooseEcqAlphabet(counts);
    const auto& f = alphabet.frequencies;
    EXPECT_EQ(std::accumulate(f.begin(), f.end(), 0), kFrozenSlots);
    EXPECT_LT(*std::max_element(f.begin(), f.end()), kFrozenSlots);
    for (int m = -64; m < 64; ++m) {
      EXPECT_TRUE(alphabet.Has(alphabet.StandInFor(m)));
      EXPECT_EQ((alphabet.StandInFor(m) - m) % 2, 0);
    }
  }
}

}  // namespace
}  // namespace thaw
