// How packed blocks of ternary numbers (TQ) and of points of a grid (IQ1, IQ2, IQ3) are read into
// vectors: formats as in packed_formats.h, which says what a format is.
//
// Points are looked up two of each row at once, by numbers of 16 bits in the halves of words, or by
// bytes. Those of eight elements, octets, are loaded one by one as they are, and so are those of
// four, quads, by vectors of eight rows (LoadsPoints); others find the codes of quads
// (tensor/codebooks.h). A format of a grid says
//
//   kGrid, GridPoints   the points of octets, or the codes of quads; the points of either
//   kPairs      pairs of points of each row in a step: 2 of octets, 4 of quads
//   PointsOf    the two points of a pair
//   IndicesAt   where the numbers of a pair lie, if they are bytes: of row 0 of a vector
//   LineOf      a line of a step, from the same elements of the points as they are, or as numbers
//               of levels where codes were found; points of magnitudes (HasSigns) have instead
//   SignsOf, kByteOfSigns   words with the signs of an octet of a step, and the byte that they are
//   BytesOf, kCodes, kNumbers, kByteOfOctet   the same for vectors that find bytes (grid_bytes.h)
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/grid_bytes.h"
#include "kernels/packed_formats.h"
#include "tensor/codebooks.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// The pattern of V::ShuffleBytes for byte `byte` everywhere.
constexpr int32_t Everywhere(int byte) { return 0x01010101 * byte; }

// x & mask in every word.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints Masked(typename V::Ints x, int32_t mask) {
  return V::And(x, V::Broadcast(mask));
}

// The four elements, with 4 bits each, of half `half` of every word.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints ElementsOfCodes(typename V::Ints codes, int half) {
  // Each in a byte of its own, first where it was in the one, then in the lower half.
  const typename V::Ints apart = Masked<V>(
      V::ShuffleBytes(codes, 0x01010000 + Everywhere(2 * half)), static_cast<int32_t>(0xf00ff00f));
  return LowNibbles<V>(V::Or(apart, V::template ShiftRight<4>(apart)));
}

// Vectors that load the points of a format as they are.
template <typename V, typename F>
concept LoadsPoints = requires(typename V::Ints x, typename V::Ints* lines) {
  V::LookUpBy(F::GridPoints(), V::IndicesOf(x), lines);
};

// Levels of a grid, as the lanes look them up: a zero point plus and minus each.
struct alignas(16) LevelTable {
  uint8_t plus[16];
  uint8_t minus[16];
};

constexpr LevelTable TableOf(int zero, const std::array<int8_t, 8>& levels) {
  LevelTable table = {.plus = {}, .minus = {}};
  for (int i = 0; i < 8; ++i) {
    table.plus[i] = static_cast<uint8_t>(zero + levels[i]);
    table.minus[i] = static_cast<uint8_t>(zero - levels[i]);
  }
  return table;
}

// Bytes of `minus` where the bit of an element is set and of `plus` elsewhere: bits 0 to 3 (half 0)
// or 4 to 7 of byte `byte` of every word.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints BySign(typename V::Ints signs, int byte, int half,
                                                      typename V::Ints minus,
                                                      typename V::Ints plus) {
  return V::Select(V::ShuffleBytes(signs, Everywhere(byte)),
                   V::Broadcast(static_cast<int32_t>(0x08040201u << (4 * half))), minus, plus);
}

// `zero` minus x where that bit is set, and plus x elsewhere.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints WithSigns(int zero, typename V::Ints x,
                                                         typename V::Ints signs, int byte,
                                                         int half) {
  const typename V::Ints zeros = V::BroadcastByte(zero);
  return BySign<V>(signs, byte, half, V::SubtractBytes(zeros, x), V::AddBytes(zeros, x));
}

// Sets the upper bit of every byte whose seven lower bits have an odd number of ones.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints WithParity(typename V::Ints sevens) {
  alignas(16) static constexpr uint8_t kParity[16] = {0, 0x80, 0x80, 0, 0x80, 0,    0, 0x80, 0x80,
                                                      0, 0,    0x80, 0, 0x80, 0x80, 0};
  const typename V::Ints folded = V::Xor(sevens, V::template ShiftRight<4>(sevens));
  return V::Or(sevens, V::LookUp(kParity, LowNibbles<V>(folded)));
}

// Four times seven bits of signs, as bytes: IQ2_XXS and IQ3_XXS.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints SignsOfSevens(typename V::Ints word) {
  if constexpr (FindsBytes<V>) {
    return WithParity<V>(
        V::And(V::template BytesFromBits<0, 7, 14, 21>(word), V::BroadcastByte(0x7f)));
  } else {
    const typename V::Ints low =
        V::Or(Masked<V>(word, 0x7f), Masked<V>(V::template ShiftLeft<1>(word), 0x7f00));
    const typename V::Ints high = V::Or(Masked<V>(V::template ShiftLeft<2>(word), 0x7f0000),
                                        Masked<V>(V::template ShiftLeft<3>(word), 0x7f000000));
    return WithParity<V>(V::Or(low, high));
  }
}

// Blocks of 256 whose scale is a number of half precision, d, or d times a number of the group.
struct GridFormat : LargeFormat {
  static constexpr int kUnitBlocks = 2;
  static constexpr int kLeadBytes = 2;
  static constexpr bool kHasOffsets = false;
  static constexpr int kByteOfOctet[] = {0, 1, 2, 3};

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Floats ScaleOf(const BlockPlace& at) {
    return V::LoadHalves(at.lead[0] + 2 * at.lane);
  }

  // d * (0.5 + s) * factor, a power of two: exact, of 11 bits and 5.
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> HalfPlus(const BlockPlace& at, typename V::Ints s,
                                                        float factor) {
    const typename V::Floats d = ScaleOf<V>(at);
    return {V::MultiplyAdd(V::ToFloats(s), V::Multiply(d, V::Broadcast(factor)),
                           V::Multiply(d, V::Broadcast(factor / 2))),
            V::Zero()};
  }

  // 1 + 2 s
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Floats OddScale(typename V::Ints s) {
    return V::ToFloats(V::Add(V::Broadcast(1), V::Add(s, s)));
  }
};

// --------------------------------------------------------------------------------- ternary

struct TernaryFormat : GridFormat {
  static constexpr int kBits = 2;
  static constexpr int kZero = 1;
  static constexpr int kGroup = 32;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int /*group*/) {
    return {ScaleOf<V>(at), V::Zero()};
  }
};

struct FormatTQ2_0 : StepFormat<TernaryFormat, 2, 0> {};

struct FormatTQ1_0 : TernaryFormat {
  static constexpr int kMostBatches = 1;
  static constexpr int kBodyBytes = 52;
  static constexpr int kChunks = 1;
  static constexpr int kPhases = 8;

  // Digit `digit` of every byte.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints Digits(typename V::Ints bytes, int digit) {
#pragma GCC unroll 4
    for (int n = 0; n < digit; ++n) bytes = V::AddBytes(V::AddBytes(bytes, bytes), bytes);
    // 3 x / 256 rounded down is the upper two bits of the mean of x and x / 2, rounded down. The
    // mean of the lanes rounds up; that of complements is the complement.
    const typename V::Ints rest = V::Xor(bytes, V::BroadcastByte(0xff));
    const typename V::Ints half = V::Or(V::template ShiftRight<1>(rest), V::BroadcastByte(0x80));
    const typename V::Ints mean = V::Xor(V::AverageBytes(rest, half), V::BroadcastByte(0xff));
    return V::And(V::template ShiftRight<6>(mean), V::BroadcastByte(3));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int /*chunk*/,
                                                               int phase, int j) {
    if (phase < 5) return Digits<V>(V::Load(at.Line(j)), phase);
    const int line = 8 * (phase - 5) + j;  // of the sixteen bytes, and then of the last four
    if (line < 20) return Digits<V>(V::Load(at.Line(8 + line % 4)), line / 4);
    return Digits<V>(V::Load(at.Line(12)), line - 20);
  }
};

// ------------------------------------------------------------------------------------ grids

// Eight elements to a point, of 8, 25 and 43, and signs.
struct IQ2Format : GridFormat {
  static constexpr int kBits = 7;
  static constexpr int kZero = 64;
  static constexpr int kPairs = 2;
  static constexpr const auto& kMagnitudes = kIQ2Magnitudes;
  static constexpr NumberTables kNumbers = SignedNumbersOf(kZero, kMagnitudes);
  static constexpr int kByteOfSigns[] = {0, 1, 2, 3};
};

struct FormatIQ2_XXS : IQ2Format {
  static constexpr int kBodyBytes = 64;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr int kGroup = 32;
  static constexpr const auto& kGrid = kIQ2_XXSGrid;
  static const GridPoint8* GridPoints() { return kGrid.data(); }
  static constexpr const auto& kCodes = kIQ2_XXSCodeBytes;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    return HalfPlus<V>(at, V::template ShiftRight<28>(V::Load(at.Line(2 * group + 1))), 0.25f);
  }

  static const std::byte* IndicesAt(const BlockPlace& at, int chunk, int pair) {
    return at.Line(2 * chunk) + 2 * pair;
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int chunk,
                                                                 int /*phase*/, int pair) {
    return V::ShuffleBytes(V::Load(at.Line(2 * chunk)), AsHalves(2 * pair, 2 * pair + 1));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints SignsOf(const BlockPlace& at, int chunk,
                                                                int /*phase*/, int /*octet*/) {
    return SignsOfSevens<V>(V::Load(at.Line(2 * chunk + 1)));
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int chunk,
                                                             int /*phase*/, int /*half*/) {
    return {V::Load(at.Line(2 * chunk)), V::Broadcast(0),
            SignsOfSevens<V>(V::Load(at.Line(2 * chunk + 1)))};
  }
};

// A nibble for each 16 elements.
struct IQ2SmallGroupFormat : IQ2Format {
  static constexpr int kGroup = 16;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints words = V::Load(at.Line(group / 8));
    return HalfPlus<V>(at, Masked<V>(V::ShiftRight(words, 4 * (group % 8)), 0x0f), 0.25f);
  }
};

struct FormatIQ2_XS : IQ2SmallGroupFormat {
  static constexpr int kBodyBytes = 72;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr const auto& kGrid = kIQ2_XSGrid;
  static const GridPoint8* GridPoints() { return kGrid.data(); }
  static constexpr const auto& kCodes = kIQ2_XSCodeBytes;
  static constexpr int kByteOfOctet[] = {0, 2, 1, 3};
  static constexpr int kByteOfSigns[] = {0, 2, 0, 2};

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int chunk,
                                                                 int /*phase*/, int pair) {
    return Masked<V>(V::Load(at.Line(2 + 2 * chunk + pair)), 0x01ff01ff);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints SignsOf(const BlockPlace& at, int chunk,
                                                                int /*phase*/, int octet) {
    const typename V::Ints words = V::Load(at.Line(2 + 2 * chunk + octet / 2));
    return WithParity<V>(Masked<V>(V::template ShiftRight<9>(words), 0x007f007f));
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int chunk,
                                                             int /*phase*/, int /*half*/) {
    // Numbers of 16 bits, those of the first two octets and of the others by turns.
    const typename V::Ints first = V::Load(at.Line(2 + 2 * chunk));
    const typename V::Ints second = V::Load(at.Line(3 + 2 * chunk));
    const typename V::Ints even = V::Broadcast(0x00ff00ff);
    const typename V::Ints low = V::Merge(even, first, V::template ShiftLeft<8>(second));
    const typename V::Ints high = V::Merge(even, V::template ShiftRight<8>(first), second);
    const typename V::Ints sevens = V::And(V::template ShiftRight<1>(high), V::BroadcastByte(0x7f));
    return {low, high, WithParity<V>(sevens)};
  }
};

struct FormatIQ2_S : IQ2SmallGroupFormat {
  static constexpr int kBodyBytes = 80;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr const auto& kGrid = kIQ2_SGrid;
  static const GridPoint8* GridPoints() { return kGrid.data(); }
  static constexpr const auto& kCodes = kIQ2_SCodeBytes;

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int step,
                                                                 int /*phase*/, int pair) {
    const typename V::Ints high =
        V::ShuffleBytes(V::Load(at.Line(2 + step / 4)), AsUpperBytes(step % 4, step % 4));
    const typename V::Ints upper = V::Or(Masked<V>(V::ShiftRight(high, 4 * pair), 0x0300),
                                         Masked<V>(V::ShiftRight(high, 4 * pair + 2), 0x03000000));
    const typename V::Ints words = V::Load(at.Line(4 + step));
    return V::Or(V::ShuffleBytes(words, AsHalves(2 * pair, 2 * pair + 1)), upper);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints SignsOf(const BlockPlace& at, int step,
                                                                int /*phase*/, int /*octet*/) {
    return V::Load(at.Line(12 + step));
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int step,
                                                             int /*phase*/, int /*half*/) {
    const typename V::Ints high = V::ShiftRight(V::Load(at.Line(2 + step / 4)), 8 * (step % 4));
    return {V::Load(at.Line(4 + step)), V::template BytesFromBits<0, 2, 4, 6>(high),
            V::Load(at.Line(12 + step))};
  }
};

// Four elements to a point, of eight levels, and signs.
struct IQ3Format : GridFormat {
  static constexpr int kGroup = 32;
  static constexpr int kPairs = 4;
  static constexpr int kByteOfSigns[] = {0, 1, 2, 3};
};

struct FormatIQ3_XXS : IQ3Format {
  static constexpr int kBodyBytes = 96;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr int kBits = 7;
  static constexpr int kZero = 64;
  static constexpr const auto& kMagnitudes = kIQ3_XXSMagnitudes;
  static constexpr LevelTable kLevels = TableOf(kZero, kMagnitudes);
  static constexpr NumberTables kNumbers = SignedNumbersOf(kZero, kMagnitudes);
  static constexpr const auto& kGrid = kIQ3_XXSCodes;
  static const GridPoint4* GridPoints() { return kIQ3_XXSGrid.data(); }
  static constexpr const auto& kCodes = kIQ3_XXSCodeBytes;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    return HalfPlus<V>(at, V::template ShiftRight<28>(V::Load(at.Line(16 + group))), 0.5f);
  }

  static const std::byte* IndicesAt(const BlockPlace& at, int chunk, int pair) {
    return at.Line(2 * chunk + pair / 2) + pair % 2 * 2;
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int chunk,
                                                                 int /*phase*/, int pair) {
    return V::ShuffleBytes(V::Load(at.Line(2 * chunk + pair / 2)),
                           AsHalves(pair % 2 * 2, pair % 2 * 2 + 1));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints SignsOf(const BlockPlace& at, int chunk,
                                                                int /*phase*/, int /*octet*/) {
    return SignsOfSevens<V>(V::Load(at.Line(16 + chunk)));
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int chunk,
                                                             int /*phase*/, int half) {
    return {V::Load(at.Line(2 * chunk + half)), V::Broadcast(0),
            SignsOfSevens<V>(V::Load(at.Line(16 + chunk)))};
  }
};

struct FormatIQ3_S : IQ3Format {
  static constexpr int kBodyBytes = 108;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr const auto& kMagnitudes = kIQ3_SMagnitudes;
  static constexpr LevelTable kLevels = TableOf(kZero, kMagnitudes);
  static constexpr NumberTables kNumbers = SignedNumbersOf(kZero, kMagnitudes);
  static constexpr const auto& kGrid = kIQ3_SCodes;
  static const GridPoint4* GridPoints() { return kIQ3_SGrid.data(); }
  static constexpr const auto& kCodes = kIQ3_SCodeBytes;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints s = Masked<V>(V::ShiftRight(V::Load(at.Line(0)), 4 * group), 0x0f);
    return {V::Multiply(ScaleOf<V>(at), OddScale<V>(s)), V::Zero()};
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int step,
                                                                 int /*phase*/, int pair) {
    const typename V::Ints high =
        V::ShuffleBytes(V::Load(at.Line(1 + step / 4)), AsUpperBytes(step % 4, step % 4));
    const typename V::Ints upper = V::Or(Masked<V>(V::ShiftRight(high, 2 * pair), 0x0100),
                                         Masked<V>(V::ShiftRight(high, 2 * pair + 1), 0x01000000));
    const typename V::Ints words = V::Load(at.Line(3 + 2 * step + pair / 2));
    return V::Or(V::ShuffleBytes(words, AsHalves(pair % 2 * 2, pair % 2 * 2 + 1)), upper);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints SignsOf(const BlockPlace& at, int step,
                                                                int /*phase*/, int /*octet*/) {
    return V::Load(at.Line(19 + step));
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int step,
                                                             int /*phase*/, int half) {
    const typename V::Ints ninths = V::ShiftRight(V::Load(at.Line(1 + step / 4)), 8 * (step % 4));
    return {V::Load(at.Line(3 + 2 * step + half)),
            V::template BytesFromBits<0, 1, 2, 3>(V::ShiftRight(ninths, 4 * half)),
            V::Load(at.Line(19 + step))};
  }
};

// Eight elements to a point, eight times -1, 0 or 1, and one more or less.
struct IQ1Format : GridFormat {
  static constexpr int kChunks = 4;
  static constexpr int kPhases = 2;
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr int kPairs = 2;
  static constexpr const auto& kGrid = kIQ1Grid;
  static const GridPoint8* GridPoints() { return kGrid.data(); }

  static constexpr const auto& kCodes = kIQ1CodeBytes;
  static constexpr NumberTables kNumbers = NumberTablesOf(4, [](size_t level, bool has_less) {
    return kZero + 8 * (static_cast<int>(level) - 1) + (has_less ? -1 : 1);
  });

  // Eight ones where the lowest bit of a byte is set.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints AsSigns(typename V::Ints less) {
    return V::SubtractBytes(V::Broadcast(0), V::And(less, V::BroadcastByte(1)));
  }

  // d * (1 + 2 s) / 8
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> EighthOf(typename V::Floats d, typename V::Ints s) {
    return {V::Multiply(V::Multiply(d, OddScale<V>(s)), V::Broadcast(0.125f)), V::Zero()};
  }

  // Half of an octet, eight times; in byte 1 of every word, `bit` is set where it has one less.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineAndDelta(typename V::Ints x,
                                                                     typename V::Ints deltas,
                                                                     int bit) {
    const typename V::Ints zero =
        V::Select(V::ShuffleBytes(deltas, Everywhere(1)), V::BroadcastByte(bit),
                  V::BroadcastByte(kZero - 1), V::BroadcastByte(kZero + 1));
    return V::AddBytes(V::And(V::template ShiftLeft<3>(x), V::BroadcastByte(0xf8)), zero);
  }
};

struct FormatIQ1_S : IQ1Format {
  static constexpr int kBodyBytes = 48;
  static constexpr int kGroup = 32;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints s =
        Masked<V>(V::ShiftRight(V::Load(at.Line(group / 2)), 16 * (group % 2) + 12), 0x07);
    return EighthOf<V>(ScaleOf<V>(at), s);
  }

  // The number of 16 bits of a group, in both halves of every word.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints HighBits(const BlockPlace& at, int chunk,
                                                                 int phase) {
    return V::ShuffleBytes(V::Load(at.Line(chunk)), 0x01000100 + Everywhere(2 * phase));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int chunk,
                                                                 int phase, int pair) {
    const typename V::Ints high = HighBits<V>(at, chunk, phase);
    const typename V::Ints upper =
        pair == 0 ? V::Or(Masked<V>(V::template ShiftLeft<8>(high), 0x0700),
                          Masked<V>(V::template ShiftLeft<5>(high), 0x07000000))
                  : V::Or(Masked<V>(V::template ShiftLeft<2>(high), 0x0700),
                          Masked<V>(V::template ShiftRight<1>(high), 0x07000000));
    const typename V::Ints words = V::Load(at.Line(4 + 2 * chunk + phase));
    return V::Or(V::ShuffleBytes(words, AsHalves(2 * pair, 2 * pair + 1)), upper);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int phase, typename V::Ints x,
                                                               int /*j*/) {
    return LineAndDelta<V>(x, HighBits<V>(at, chunk, phase), 0x80);
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int chunk,
                                                             int phase, int /*half*/) {
    const typename V::Ints bits = V::ShiftRight(V::Load(at.Line(chunk)), 16 * phase);
    const typename V::Ints low = V::Load(at.Line(4 + 2 * chunk + phase));
    const typename V::Ints high = V::template BytesFromBits<0, 3, 6, 9>(bits);
    return {low, high, AsSigns<V>(V::template BytesFromBits<15, 15, 15, 15>(bits))};
  }
};

struct FormatIQ1_M : IQ1Format {
  static constexpr int kUnitBlocks = 1;
  static constexpr int kLeadBytes = 0;
  static constexpr int kBodyBytes = 56;
  static constexpr int kGroup = 16;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints first = V::Load(at.Line(0));
    const typename V::Ints second = V::Load(at.Line(1));
    const typename V::Ints d = V::Or(V::Or(Masked<V>(V::template ShiftRight<12>(first), 0x000f),
                                           Masked<V>(V::template ShiftRight<24>(first), 0x00f0)),
                                     V::Or(Masked<V>(V::template ShiftRight<4>(second), 0x0f00),
                                           Masked<V>(V::template ShiftRight<16>(second), 0xf000)));
    const typename V::Ints s = Masked<V>(
        V::ShiftRight(group < 8 ? first : second, 16 * (group % 8 / 4) + 3 * (group % 4)), 0x07);
    return EighthOf<V>(V::HalvesOfWords(d), s);
  }

  // The nibbles of two octets, in bytes 1 and 3 of every word.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints HighBits(const BlockPlace& at, int chunk,
                                                                 int phase, int pair) {
    return V::ShuffleBytes(V::Load(at.Line(2 + chunk)),
                           AsUpperBytes(2 * phase + pair, 2 * phase + pair));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints PointsOf(const BlockPlace& at, int chunk,
                                                                 int phase, int pair) {
    const typename V::Ints high = HighBits<V>(at, chunk, phase, pair);
    const typename V::Ints upper =
        V::Or(Masked<V>(high, 0x0700), Masked<V>(V::template ShiftRight<4>(high), 0x07000000));
    const typename V::Ints words = V::Load(at.Line(6 + 2 * chunk + phase));
    return V::Or(V::ShuffleBytes(words, AsHalves(2 * pair, 2 * pair + 1)), upper);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int phase, typename V::Ints x,
                                                               int j) {
    return LineAndDelta<V>(x, HighBits<V>(at, chunk, phase, j / 4), j % 4 < 2 ? 0x08 : 0x80);
  }

  template <typename V>
  [[gnu::always_inline]] static inline PointBytes<V> BytesOf(const BlockPlace& at, int chunk,
                                                             int phase, int /*half*/) {
    const typename V::Ints bits = V::ShiftRight(V::Load(at.Line(2 + chunk)), 16 * phase);
    const typename V::Ints low = V::Load(at.Line(6 + 2 * chunk + phase));
    const typename V::Ints high = V::template BytesFromBits<0, 4, 8, 12>(bits);
    return {low, high, AsSigns<V>(V::template BytesFromBits<3, 7, 11, 15>(bits))};
  }
};

// Grids of magnitudes, whose signs stand beside the numbers of the points.
template <typename F>
concept HasSigns = requires { F::kByteOfSigns; };

// Line j of a step of such a grid, from the same elements of the points (LineOf).
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints SignedLine(const BlockPlace& at, int chunk,
                                                          int phase, typename V::Ints x, int j) {
  const int octet = j / 2;
  const typename V::Ints signs = F::template SignsOf<V>(at, chunk, phase, octet);
  const int byte = F::kByteOfSigns[octet];
  if constexpr (LoadsPoints<V, F>) {
    return WithSigns<V>(F::kZero, x, signs, byte, j % 2);
  } else {
    return BySign<V>(signs, byte, j % 2, V::LookUp(F::kLevels.minus, x),
                     V::LookUp(F::kLevels.plus, x));
  }
}

}  // namespace
}  // namespace thaw
