// The symbols of a frozen stream (docs/format.md, section 3): which numbers have one, and how the
// 128 slots of the entropy coder are shared out to them.
//
// Pure functions of counts, so that what a stream will take can be known before it is coded.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/frozen_format.h"

namespace thaw {

// How often each number of `least` to `least + counts.size() - 1` occurs.
struct Histogram {
  int least = 0;
  std::vector<int64_t> counts;
};

// The symbols of a stream with their frequencies, that of the escape behind them, and the bits that
// coding what was counted takes: symbols, escapes and their bytes, raw planes.
struct Alphabet {
  int first = 0;
  int symbols = 0;
  int raw_planes = 0;
  std::array<uint8_t, kFrozenMaxSymbols + 1> frequencies = {};
  double bits = 0;

  // What coding one number s takes, without raw planes.
  double BitsOf(int number) const;
};

// The range of numbers that is cheapest to code, the others being escapes. No raw planes.
Alphabet ChooseAlphabet(const Histogram& histogram);

// The numbers m that an ecq stream codes, kFrozenNumbers of them, m = kFrozenLeastNumber first.
inline constexpr int kFrozenLeastNumber = -64;
inline constexpr int kFrozenNumbers = 128;

// The alphabet of an ecq stream, with 0, 1 or 2 raw planes, whichever takes the fewest bits.
// `counts`: how often each m occurs.
Alphabet ChooseEcqAlphabet(std::span<const int64_t, kFrozenNumbers> counts);

}  // namespace thaw
