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

// The symbols of a stream with their frequencies, and the bits that coding what was counted takes:
// symbols, patches, raw planes.
struct Alphabet {
  int first = 0;
  int symbols = 0;
  int raw_planes = 0;
  std::array<uint8_t, kFrozenMaxSymbols> frequencies = {};
  std::array<int, 2> stand_ins = {};  // the even and the odd number that take the fewest bits
  double bits = 0;

  // Whether a number is coded as it is.
  bool Has(int number) const {
    const int symbol = number - first;
    return symbol >= 0 && symbol < symbols && frequencies[static_cast<size_t>(symbol)] > 0;
  }
  // The number that is coded, and patched, in place of one that the alphabet does not have.
  int StandInFor(int number) const { return stand_ins[static_cast<size_t>(number & 1)]; }
  // What coding one number s takes, without raw planes.
  double BitsOf(int number) const;
};

// The range of numbers that is cheapest to code, the others being patched. No raw planes.
Alphabet ChooseAlphabet(const Histogram& histogram);

// The numbers m that an ecq stream codes, kFrozenNumbers of them, m = kFrozenLeastNumber first.
inline constexpr int kFrozenLeastNumber = -64;
inline constexpr int kFrozenNumbers = 128;

// The alphabet of an ecq stream, with 0, 1 or 2 raw planes: more of them where that takes fewer
// bits by half a percent. `counts`: how often each m occurs.
Alphabet ChooseEcqAlphabet(std::span<const int64_t, kFrozenNumbers> counts);

}  // namespace thaw
