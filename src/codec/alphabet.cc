#include "codec/alphabet.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace thaw {
namespace {

// Smaller alphabets are not looked at any more once one takes so much more than the best.
constexpr double kGivenUp = 1.02;

// What a symbol of this frequency takes.
double BitsOfFrequency(int frequency) { return 7 - std::log2(static_cast<double>(frequency)); }

// A raw plane takes decoders a tenth more time: it has to save so much.
constexpr double kWorthAPlane = 0.995;

// The gap and the value of a patch.
constexpr double kPatchBits = 24;

// Frequencies that add up to 128 for these counts, two or more: each slot goes to where it saves
// most, after one for every count that is not 0, and for a neighbour of the largest, so that there
// are an even and an odd number to stand in for others.
void ShareSlots(std::span<const int64_t> counts, std::span<uint8_t> frequencies) {
  const auto largest = static_cast<size_t>(std::ranges::max_element(counts) - counts.begin());
  const size_t neighbour = largest + 1 < counts.size() ? largest + 1 : largest - 1;
  int left = kFrozenSlots;
  for (size_t i = 0; i < counts.size(); ++i) {
    frequencies[i] = counts[i] > 0 || i == largest || i == neighbour ? 1 : 0;
    left -= frequencies[i];
  }
  THAW_CHECK(left >= 0);
  std::vector<double> savings(counts.size());
  const auto saving = [&](size_t i) {
    const double f = frequencies[i];
    if (counts[i] == 0 || frequencies[i] == kFrozenSlots - 1) return 0.0;
    return static_cast<double>(counts[i]) * std::log2((f + 1) / f);
  };
  for (size_t i = 0; i < counts.size(); ++i) savings[i] = saving(i);
  for (; left > 0; --left) {
    const auto best = static_cast<size_t>(std::ranges::max_element(savings) - savings.begin());
    // A single number that has 127 leaves the rest to its neighbour.
    const size_t to = savings[best] > 0 ? best : neighbour;
    ++frequencies[to];
    savings[to] = saving(to);
  }
}

// Of those of each parity the one with the highest frequency.
void ChooseStandIns(Alphabet& alphabet) {
  std::array<int, 2> most = {};
  for (int i = 0; i < alphabet.symbols; ++i) {
    const int frequency = alphabet.frequencies[static_cast<size_t>(i)];
    const int number = alphabet.first + i;
    const auto parity = static_cast<size_t>(number & 1);
    if (frequency <= most[parity]) continue;
    most[parity] = frequency;
    alphabet.stand_ins[parity] = number;
  }
}

Alphabet AlphabetOf(const Histogram& histogram, int begin, int end) {
  Alphabet alphabet;
  alphabet.first = histogram.least + begin;
  alphabet.symbols = end - begin;
  const std::span counts = histogram.counts;
  const auto width = static_cast<size_t>(end - begin);
  ShareSlots(counts.subspan(static_cast<size_t>(begin), width),
             std::span(alphabet.frequencies).first(width));
  ChooseStandIns(alphabet);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const int number = histogram.least + static_cast<int>(i);
    alphabet.bits += static_cast<double>(counts[i]) * alphabet.BitsOf(number);
  }
  return alphabet;
}

}  // namespace

double Alphabet::BitsOf(int number) const {
  const int coded = Has(number) ? number : StandInFor(number);
  return BitsOfFrequency(frequencies[static_cast<size_t>(coded - first)]) +
         (coded == number ? 0 : kPatchBits);
}

// From the widest range at the middle of the counts on, ends are left out one by one. That may take
// more bits before it takes fewer: of long tails each symbol has a slot that the middle would use
// better.
Alphabet ChooseAlphabet(const Histogram& histogram) {
  const auto n = static_cast<int>(histogram.counts.size());
  int begin = 0;
  int end = n;
  while (end - begin > 2 && histogram.counts[static_cast<size_t>(begin)] == 0) ++begin;
  while (end - begin > 2 && histogram.counts[static_cast<size_t>(end - 1)] == 0) --end;
  const auto at = [&](int i) { return histogram.counts[static_cast<size_t>(i)]; };
  while (end - begin > kFrozenMaxSymbols) {
    if (at(begin) < at(end - 1)) {
      ++begin;
    } else {
      --end;
    }
  }
  Alphabet best = AlphabetOf(histogram, begin, end);
  while (end - begin > 2) {
    const bool drops_first = at(begin) < at(end - 1);
    const Alphabet smaller =
        AlphabetOf(histogram, begin + (drops_first ? 1 : 0), end - (drops_first ? 0 : 1));
    begin = smaller.first - histogram.least;
    end = begin + smaller.symbols;
    if (smaller.bits < best.bits) best = smaller;
    if (smaller.bits > kGivenUp * best.bits) break;
  }
  return best;
}

Alphabet ChooseEcqAlphabet(std::span<const int64_t, kFrozenNumbers> counts) {
  Alphabet best;
  best.bits = std::numeric_limits<double>::infinity();
  for (int planes = 0; planes <= 2; ++planes) {
    Histogram histogram{.least = kFrozenLeastNumber >> planes,
                        .counts = std::vector<int64_t>(size_t{kFrozenNumbers} >> planes)};
    int64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      histogram.counts[i >> planes] += counts[i];
      total += counts[i];
    }
    Alphabet alphabet = ChooseAlphabet(histogram);
    alphabet.raw_planes = planes;
    alphabet.bits += static_cast<double>(planes) * static_cast<double>(total);
    if (alphabet.bits < kWorthAPlane * best.bits) best = alphabet;
  }
  return best;
}

}  // namespace thaw
