#include "codec/alphabet.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thaw {
namespace {

// Smaller alphabets are not looked at any more once one takes so much more than the best.
constexpr double kGivenUp = 1.02;

// What a symbol of this frequency takes.
double BitsOfFrequency(int frequency) { return 7 - std::log2(static_cast<double>(frequency)); }

// Frequencies that add up to 128 for these counts, the last that of the escape: each slot goes to
// where it saves most, after one for every count that is not 0. False where there are too many.
bool ShareSlots(std::span<const int64_t> counts, std::span<uint8_t> frequencies) {
  int left = kFrozenSlots;
  for (size_t i = 0; i < counts.size(); ++i) {
    frequencies[i] = counts[i] > 0 || i + 1 == counts.size() ? 1 : 0;
    left -= frequencies[i];
  }
  if (left < 0) return false;
  std::vector<double> savings(counts.size());
  const auto saving = [&](size_t i) {
    const double f = frequencies[i];
    if (counts[i] == 0 || frequencies[i] == kFrozenSlots - 1) return 0.0;
    return static_cast<double>(counts[i]) * std::log2((f + 1) / f);
  };
  for (size_t i = 0; i < counts.size(); ++i) savings[i] = saving(i);
  for (; left > 0; --left) {
    const auto best = static_cast<size_t>(std::ranges::max_element(savings) - savings.begin());
    // A single symbol that has 127 leaves the rest to the escape.
    const size_t to = savings[best] > 0 ? best : counts.size() - 1;
    ++frequencies[to];
    savings[to] = saving(to);
  }
  return true;
}

Alphabet AlphabetOf(const Histogram& histogram, int begin, int end) {
  Alphabet alphabet;
  alphabet.first = histogram.least + begin;
  alphabet.symbols = end - begin;
  std::vector<int64_t> counts(histogram.counts.begin() + begin, histogram.counts.begin() + end);
  int64_t escapes = 0;
  for (int i = 0; i < std::ssize(histogram.counts); ++i) {
    if (i < begin || i >= end) escapes += histogram.counts[static_cast<size_t>(i)];
  }
  counts.push_back(escapes);
  if (!ShareSlots(counts, std::span(alphabet.frequencies).first(counts.size()))) {
    alphabet.bits = std::numeric_limits<double>::infinity();
    return alphabet;
  }
  alphabet.bits = 8 * static_cast<double>(escapes);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      alphabet.bits += static_cast<double>(counts[i]) * BitsOfFrequency(alphabet.frequencies[i]);
    }
  }
  return alphabet;
}

}  // namespace

double Alphabet::BitsOf(int number) const {
  const int symbol = number - first;
  const bool is_symbol = symbol >= 0 && symbol < symbols;
  const int at = is_symbol && frequencies[static_cast<size_t>(symbol)] > 0 ? symbol : symbols;
  return BitsOfFrequency(frequencies[static_cast<size_t>(at)]) + (at == symbols ? 8 : 0);
}

// From the widest range at the middle of the counts on, ends are left out one by one. That may take
// more bits before it takes fewer: of long tails each symbol has a slot that the middle would use
// better, but what one gives up is little beside the slots that the escape then needs.
Alphabet ChooseAlphabet(const Histogram& histogram) {
  const auto n = static_cast<int>(histogram.counts.size());
  int begin = 0;
  int end = n;
  while (end - begin > 1 && histogram.counts[static_cast<size_t>(begin)] == 0) ++begin;
  while (end - begin > 1 && histogram.counts[static_cast<size_t>(end - 1)] == 0) --end;
  const auto at = [&](int i) { return histogram.counts[static_cast<size_t>(i)]; };
  while (end - begin > kFrozenMaxSymbols) {
    if (at(begin) < at(end - 1)) {
      ++begin;
    } else {
      --end;
    }
  }
  Alphabet best = AlphabetOf(histogram, begin, end);
  while (end - begin > 1) {
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
    if (alphabet.bits < best.bits) best = alphabet;
  }
  return best;
}

}  // namespace thaw
