#include "codec/stream_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/round_up.h"
#include "codec/alphabet.h"
#include "codec/frozen_format.h"
#include "codec/frozen_stream.h"

namespace thaw {
namespace {

// Codes symbols backwards, from the last vector of a stream to its first.
class RansEncoder {
 public:
  explicit RansEncoder(const Alphabet& alphabet, int64_t vectors)
      : bytes_(static_cast<size_t>(vectors * kFrozenLanes)), front_(bytes_.size()) {
    uint32_t start = 0;
    for (int i = 0; i < alphabet.symbols; ++i) {
      frequencies_[static_cast<size_t>(i)] = alphabet.frequencies[static_cast<size_t>(i)];
      starts_[static_cast<size_t>(i)] = start;
      start += frequencies_[static_cast<size_t>(i)];
    }
    std::ranges::fill(states_, kFrozenLowestState);
  }

  // `symbols`: by lanes, the number of each in the alphabet.
  void Encode(int64_t vector, const uint8_t (&symbols)[kFrozenLanes]) {
    uint32_t* states = states_ + vector % kFrozenStateSets * kFrozenLanes;
    for (int64_t lane = kFrozenLanes - 1; lane >= 0; --lane) {
      const uint8_t symbol = symbols[lane];
      const uint32_t frequency = frequencies_[symbol];
      uint32_t x = states[lane];
      if (x >= frequency << 9) {
        bytes_[--front_] = static_cast<std::byte>(x);
        x >>= 8;
      }
      states[lane] = x / frequency * kFrozenSlots + x % frequency + starts_[symbol];
    }
  }

  std::span<const std::byte> coded() const { return std::span(bytes_).subspan(front_); }
  std::array<StateSet, kFrozenStateSets> states() const {
    std::array<StateSet, kFrozenStateSets> sets;
    for (int64_t i = 0; i < kFrozenStates; ++i) {
      StateSet& set = sets[static_cast<size_t>(i / kFrozenLanes)];
      set.low[i % kFrozenLanes] = static_cast<uint8_t>(states_[i]);
      set.high[i % kFrozenLanes] = static_cast<uint8_t>(states_[i] >> 8);
    }
    return sets;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t front_;  // of what is written
  uint32_t frequencies_[kFrozenMaxSymbols] = {};
  uint32_t starts_[kFrozenMaxSymbols] = {};
  uint32_t states_[kFrozenStates];
};

// A stream's weights by vectors: a number for the alphabet, the raw planes.
struct Vectors {
  FrozenKind kind = FrozenKind::kEcq;
  int64_t rows = 0;
  int64_t cols = 0;
  int raw_planes = 0;
  std::vector<int16_t> numbers = {};   // [vectors, 64], what the alphabet has symbols of
  std::vector<std::byte> raw = {};     // the section
  std::vector<std::byte> shifts = {};  // the section
  std::span<const uint16_t> scales = {};

  int64_t count() const { return rows / kFrozenGroupRows * cols / kFrozenColsOfVector; }
};

template <typename T>
void AppendBytes(std::span<const T> values, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Patches in the order of their weights.
class Patches {
 public:
  // Every weight lies behind the one before.
  void Add(int64_t weight, int value) {
    for (; weight - last_ > kFrozenLongestGap; last_ += kFrozenLongestGap) {
      Append(kFrozenLongestGap, 0);
    }
    Append(weight - last_, value);
    last_ = weight;
  }

  const std::vector<uint16_t>& gaps() const { return gaps_; }
  const std::vector<uint8_t>& values() const { return values_; }

 private:
  void Append(int64_t gap, int value) {
    gaps_.push_back(static_cast<uint16_t>(gap));
    values_.push_back(static_cast<uint8_t>(value));
  }

  std::vector<uint16_t> gaps_;
  std::vector<uint8_t> values_;
  int64_t last_ = 0;
};

// Puts stand-ins for the numbers that the alphabet does not have.
Patches StandIn(const Alphabet& alphabet, Vectors& of) {
  Patches patches;
  for (size_t at = 0; at < of.numbers.size(); ++at) {
    const int number = of.numbers[at];
    if (alphabet.Has(number)) continue;
    const int stand_in = alphabet.StandInFor(number);
    const int missing = number - stand_in;
    // Of ecq the numbers are those of q without the trellis's bit and the raw planes.
    patches.Add(static_cast<int64_t>(at), of.kind == FrozenKind::kBf16
                                              ? missing
                                              : missing * (2 << of.raw_planes) / kFrozenPatchUnit);
    of.numbers[at] = static_cast<int16_t>(stand_in);
  }
  return patches;
}

void AppendStream(Vectors& of, const Alphabet& alphabet, std::vector<std::byte>& out) {
  const Patches patches = StandIn(alphabet, of);
  RansEncoder encoder(alphabet, of.count());
  for (int64_t v = of.count() - 1; v >= 0; --v) {
    uint8_t symbols[kFrozenLanes];
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      const auto at = static_cast<size_t>(v * kFrozenLanes + lane);
      symbols[lane] = static_cast<uint8_t>(of.numbers[at] - alphabet.first);
    }
    encoder.Encode(v, symbols);
  }
  FrozenStreamHeader header = {
      .rows = static_cast<uint32_t>(of.rows),
      .coded_bytes = static_cast<uint32_t>(encoder.coded().size()),
      .patches = static_cast<uint32_t>(patches.gaps().size()),
      .shifts = static_cast<uint32_t>(of.shifts.size() / sizeof(uint32_t)),
      .raw_planes = static_cast<uint8_t>(of.raw_planes),
      .symbols = static_cast<uint8_t>(alphabet.symbols),
      .first_symbol = static_cast<uint8_t>(alphabet.first),
      .zero = 0,
      .frequencies = {},
  };
  std::ranges::copy(alphabet.frequencies, header.frequencies);
  const size_t begin = out.size();
  AppendBytes(std::span<const FrozenStreamHeader>(&header, 1), out);
  AppendBytes(std::span<const std::byte>(of.raw), out);
  AppendBytes(std::span<const std::byte>(of.shifts), out);
  AppendBytes(of.scales, out);
  AppendBytes<uint16_t>(patches.gaps(), out);
  AppendBytes<uint8_t>(patches.values(), out);
  AppendBytes(encoder.coded(), out);
  const auto states = encoder.states();
  AppendBytes(std::span<const StateSet>(states), out);
  const size_t bytes = out.size() - begin;
  out.resize(begin + RoundUp(bytes, kFrozenAlignment));
}

// The numbers m of a stream of ecq, by vectors. The integers must keep to the trellis.
std::vector<int16_t> NumbersOf(int64_t rows, int64_t cols, std::span<const int8_t> q) {
  std::vector<int16_t> numbers(q.size());
  const int64_t vectors = cols / kFrozenColsOfVector;
  for (int64_t group = 0; group < rows / kFrozenGroupRows; ++group) {
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      const LanePlace place = PlaceOfLane(FrozenKind::kEcq, lane);
      const int8_t* row = q.data() + (group * kFrozenGroupRows + place.row) * cols + place.col;
      int16_t* out = numbers.data() + group * vectors * kFrozenLanes + lane;
      Trellis trellis;
      for (int64_t v = 0; v < vectors; ++v) {
        const int z = trellis.bit();
        const int number = row[v * kFrozenColsOfVector];
        THAW_CHECK((number & 1) == z);
        const int m = (number - z) / 2;
        out[v * kFrozenLanes] = static_cast<int16_t>(m);
        trellis.Step(m & 1);
      }
    }
  }
  return numbers;
}

std::array<int64_t, kFrozenNumbers> CountNumbers(std::span<const int16_t> numbers) {
  std::array<int64_t, kFrozenNumbers> counts = {};
  for (const int16_t m : numbers) ++counts[static_cast<size_t>(m - kFrozenLeastNumber)];
  return counts;
}

std::vector<std::byte> RawPlanes(std::span<const int16_t> numbers, int planes) {
  const size_t vectors = numbers.size() / kFrozenLanes;
  std::vector<uint64_t> bits(vectors * static_cast<size_t>(planes));
  for (size_t at = 0; at < numbers.size(); ++at) {
    for (int plane = 0; plane < planes; ++plane) {
      const auto bit = static_cast<uint64_t>(numbers[at] >> plane & 1);
      bits[at / kFrozenLanes * static_cast<size_t>(planes) + static_cast<size_t>(plane)] |=
          bit << at % kFrozenLanes;
    }
  }
  std::vector<std::byte> section;
  AppendBytes(std::span<const uint64_t>(bits), section);
  return section;
}

std::vector<std::byte> ShiftSection(int64_t cols, std::span<const BlockShift> shifts) {
  const int64_t blocks = cols / kFrozenBlock;
  std::vector<uint32_t> section;
  for (const BlockShift& shift : shifts) {
    THAW_CHECK(shift.shift >= 1 && shift.shift < 1 << kFrozenShiftBits);
    const int64_t group = shift.row / kFrozenGroupRows;
    const int64_t number =
        (group * blocks + shift.block) * kFrozenGroupRows + shift.row % kFrozenGroupRows;
    section.push_back(static_cast<uint32_t>(number << kFrozenShiftBits | shift.shift));
  }
  std::ranges::sort(section);
  std::vector<std::byte> bytes;
  AppendBytes(std::span<const uint32_t>(section), bytes);
  return bytes;
}

}  // namespace

std::vector<int8_t> TrellisIntegers(int64_t rows, int64_t cols, std::span<const int8_t> numbers) {
  THAW_CHECK(std::ssize(numbers) == rows * cols);
  std::vector<int8_t> q(numbers.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t first = 0; first < kFrozenColsOfVector; ++first) {
      Trellis trellis;
      for (int64_t col = first; col < cols; col += kFrozenColsOfVector) {
        const auto at = static_cast<size_t>(row * cols + col);
        const int m = numbers[at];
        THAW_CHECK(m >= kFrozenLeastNumber && m < kFrozenLeastNumber + kFrozenNumbers);
        q[at] = static_cast<int8_t>(2 * m + trellis.bit());
        trellis.Step(m & 1);
      }
    }
  }
  return q;
}

void AppendEcqStream(int64_t rows, int64_t cols, std::span<const int8_t> q,
                     std::span<const uint16_t> scales, std::span<const BlockShift> shifts,
                     std::vector<std::byte>& out) {
  THAW_CHECK(rows % kFrozenGroupRows == 0 && cols % kFrozenBlock == 0);
  THAW_CHECK(std::ssize(q) == rows * cols && std::ssize(scales) == rows);
  std::vector<int16_t> numbers = NumbersOf(rows, cols, q);
  const Alphabet alphabet = ChooseEcqAlphabet(CountNumbers(numbers));
  const int planes = alphabet.raw_planes;
  Vectors vectors{.kind = FrozenKind::kEcq, .rows = rows, .cols = cols, .raw_planes = planes};
  vectors.raw = RawPlanes(numbers, planes);
  for (int16_t& m : numbers) m = static_cast<int16_t>(m >> planes);
  vectors.numbers = std::move(numbers);
  vectors.shifts = ShiftSection(cols, shifts);
  vectors.scales = scales;
  AppendStream(vectors, alphabet, out);
}

void AppendBf16Stream(int64_t rows, int64_t cols, std::span<const uint16_t> weights,
                      std::vector<std::byte>& out) {
  THAW_CHECK(rows % kFrozenGroupRows == 0 && cols % kFrozenBlock == 0);
  THAW_CHECK(std::ssize(weights) == rows * cols);
  Vectors vectors{.kind = FrozenKind::kBf16, .rows = rows, .cols = cols, .raw_planes = 8};
  vectors.numbers.resize(weights.size());
  vectors.raw.resize(weights.size());
  Histogram histogram{.least = 0, .counts = std::vector<int64_t>(256)};
  for (int64_t v = 0; v < vectors.count(); ++v) {
    const int64_t of_group = cols / kFrozenColsOfVector;
    for (int64_t lane = 0; lane < kFrozenLanes; ++lane) {
      const LanePlace place = PlaceOfLane(FrozenKind::kBf16, lane);
      const int64_t row = v / of_group * kFrozenGroupRows + place.row;
      const int64_t col = v % of_group * kFrozenColsOfVector + place.col;
      const uint16_t bits = weights[static_cast<size_t>(row * cols + col)];
      const auto at = static_cast<size_t>(v * kFrozenLanes + lane);
      const auto exponent = static_cast<uint8_t>(bits >> 7);
      vectors.numbers[at] = exponent;
      vectors.raw[at] = static_cast<std::byte>(bits << 1 | bits >> 15);
      ++histogram.counts[exponent];
    }
  }
  AppendStream(vectors, ChooseAlphabet(histogram), out);
}

}  // namespace thaw
