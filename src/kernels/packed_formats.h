// How the blocks of packed rows (tensor/packed_rows.h) are read into vectors, type by type.
//
// A format is a struct of constants and a few functions, templates over the vectors of an
// instruction set (x86/lanes_*.h). A block is read in steps of 32 elements; the steps of a chunk
// share loads.
//
//   kBlock, kUnitBlocks, kLeadBytes, kBodyBytes   sizes in elements, blocks and bytes of one row
//   kChunks, kPhases    chunks of a block, steps of a chunk
//   kBits, kZero        weights are unsigned numbers of kBits bits, minus kZero. With 8 bits they
//                       are signed where the lanes have signed bytes, which take no kZero.
//   kGroup              16 or 32 elements share a scale
//   kHasOffsets         weight = scale * number + offset
//   kMostBatches        for how many batches of tokens it is as well unpacked anew as in a panel
//   kPrefetches         whether memory may have to be asked for ahead: blocks of several fields
//                       lose the hardware's prefetching where not loaded in order (kIsLost)
//   TermOf              scale and offset of one group of a block; or, where those are whole numbers
//                       times one of the block, what WholeTermFormat says
//   LineOf              four elements of every row: one of the eight lines of a step
//   ElementAt           any one element of every row, with its zero point; absent: of its line
//   FirstHighLine, NibblesOf   of formats of nothing but nibbles: from which line of a step on they
//                       are the high ones, and the bytes that a line's nibbles are halves of
//
// What is computed for a row are the numbers of kernels/unpack.h, in the same order of operations.
// For the files that are compiled for an instruction set alone: everything is in an anonymous
// namespace, so that each has a copy of its own (see x86/avx2.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensor/codebooks.h"
#include "tensor/packed_numbers.h"

namespace thaw {
namespace {

inline constexpr int64_t kGroupRows = 16;
inline constexpr int64_t kLineBytes = 64;  // four bytes of each of 16 rows

// Scale and offset of a group, for the rows of one vector. Formats make them one by one (TermOf),
// so that all of a block can be had, by an unrolled loop, or a single one.
template <typename V>
struct Term {
  typename V::Floats scale;
  typename V::Floats offset;
};

// The whole numbers that a block's scale and offset are multiplied with for four groups, scale *
// block.scale and minimum * block.offset: signed bytes of a word of every row, group after group.
template <typename V>
struct FourTerms {
  typename V::Ints scales;
  typename V::Ints minima;
};

template <typename F>
concept HasWholeTerms = requires { F::kHasWholeTerms; };

// Where a block lies: the first element of each lead field, and the body, for row 0 of a vector's
// rows in a line of words; `lane` is that row.
struct BlockPlace {
  const std::byte* lead[2];
  const std::byte* body;
  int lane;

  const std::byte* Line(int64_t index) const { return body + kLineBytes * index + 4 * lane; }

  // The same block for rows that lie some further down.
  BlockPlace Below(int rows) const { return {{lead[0], lead[1]}, body, lane + rows}; }
};

// Calls act<i>() for all i.
template <typename Act, int... kAll>
[[gnu::always_inline]] inline void ForEachOf(std::integer_sequence<int, kAll...> /*all*/,
                                             const Act& act) {
  (act.template operator()<kAll>(), ...);
}

template <typename V>
[[gnu::always_inline]] inline typename V::Ints LowNibbles(typename V::Ints x) {
  return V::And(x, V::BroadcastByte(0x0f));
}

template <typename V>
[[gnu::always_inline]] inline typename V::Ints HighNibbles(typename V::Ints x) {
  return LowNibbles<V>(V::template ShiftRight<4>(x));
}

// (x >> shift) & mask in every word.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints Field(typename V::Ints x, int shift, int mask) {
  return V::And(V::ShiftRight(x, shift), V::Broadcast(mask));
}

// Patterns of V::ShuffleBytes: bytes `low` and `high` as the numbers of the lower and the upper
// half of a word, or times 256 in them; kNoByte is a 0.
inline constexpr int kNoByte = 0x80;
constexpr int32_t AsHalves(int low, int high) {
  return static_cast<int32_t>(0x80008000u | static_cast<uint32_t>(high << 16 | low));
}
constexpr int32_t AsUpperBytes(int low, int high) {
  return static_cast<int32_t>(0x00800080u | static_cast<uint32_t>(high) << 24 |
                              static_cast<uint32_t>(low) << 8);
}

// Bytes `low` and `high` of every word as the numbers of its halves.
template <typename V, bool is_signed>
[[gnu::always_inline]] inline typename V::Ints HalvesOfBytes(typename V::Ints x, int low,
                                                             int high) {
  if constexpr (is_signed) {
    return V::template ShiftRightSignedHalves<8>(V::ShuffleBytes(x, AsUpperBytes(low, high)));
  } else {
    return V::ShuffleBytes(x, AsHalves(low, high));
  }
}

// Byte i of every word.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints SignedByteOf(typename V::Ints x, int i) {
  return V::template ShiftRightSigned<24>(V::ShiftLeft(x, 24 - 8 * i));
}

// Numbers of 8 bits as the lanes multiply them.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints FromSignedBytes(typename V::Ints x) {
  if constexpr (V::kSignedBytes) {
    return x;
  } else {
    return V::Xor(x, V::BroadcastByte(0x80));
  }
}

// Line j of a step whose eight lines are the low and then the high nibbles of four: Q4_0 and all
// that keep its order.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints NibbleOfFour(const BlockPlace& at, int64_t line,
                                                            int j) {
  return LowNibbles<V>(V::ShiftRight(V::Load(at.Line(line + j % 4)), j / 4 * 4));
}

// A high line of a step of a format of nibbles, 16 times its numbers.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints HighNibbleLine(const BlockPlace& at, int chunk,
                                                              int j) {
  return V::And(F::template NibblesOf<V>(at, chunk, j), V::BroadcastByte(0xf0));
}

// Counts of bits, to be loaded.
inline constexpr int32_t kShifts[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                        11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                        22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

// x >> n in every word, for an n that is not known before. A number in a register would take two
// more instructions to reach the vectors.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints ShiftRightByAny(typename V::Ints x, uint32_t n) {
  return V::ShiftRightLoaded(x, kShifts + n);
}

// A part of a number of one row: (word >> shift) & mask, of a word of line `line`. Single numbers,
// as outliers meet, are made of pieces that are not known before.
struct Piece {
  uint32_t line = 0;
  uint32_t shift = 0;
  uint32_t mask = 0;
};

// The bits of a piece, of any one.
template <typename V>
[[gnu::always_inline]] inline typename V::Ints BitsOf(const BlockPlace& at, const Piece& piece) {
  return V::And(ShiftRightByAny<V>(V::Load(at.Line(piece.line)), piece.shift),
                V::Broadcast(static_cast<int32_t>(piece.mask)));
}

// The pieces of the elements of a step that lies as tensor/packed_numbers.h says.
template <int kBits>
struct StepPieces {
  struct {
    int32_t byte;  // of the step, where the line begins
    int32_t shift;
    int32_t mask;
  } of[32][kMostPiecesOf<kBits>];
};

template <int kBits>
inline constexpr auto kStepPieces = [] {
  StepPieces<kBits> pieces;
  for (int element = 0; element < 32; ++element) {
    for (int i = 0; i < kMostPiecesOf<kBits>; ++i) {
      const NumberPiece piece = kNumberPieces<kBits>[element / 4][i];
      pieces.of[element][i] = {static_cast<int32_t>(kLineBytes) * piece.line,
                               8 * (element % 4) + piece.shift(), piece.mask()};
    }
  }
  return pieces;
}();

// Element `index` of a step in every word. What differs between elements is loaded: a branch would
// be taken wrongly.
template <typename V, int kBits>
[[gnu::always_inline]] inline typename V::Ints ElementOfStep(const std::byte* lines,
                                                             uint32_t index) {
  const auto& pieces = kStepPieces<kBits>.of[index];
  typename V::Ints number = V::Broadcast(0);
#pragma GCC unroll 3
  for (int i = 0; i < kMostPiecesOf<kBits>; ++i) {
    const typename V::Ints words = V::Load(lines + pieces[i].byte);
    number = V::Or(
        number, V::And(V::ShiftRightLoaded(words, &pieces[i].shift), V::Broadcast(pieces[i].mask)));
  }
  return number;
}

// The same of kLines lines of low nibbles and then their high ones.
template <int kLines>
constexpr Piece PieceOfNibble(uint32_t first_line, uint32_t index) {
  const uint32_t line = index / 4;
  return {first_line + line % kLines, 8 * (index % 4) + 4 * (line / kLines), 0x0f};
}

// Number j of a step that lies as tensor/packed_numbers.h says; line(i) is one of its kBits lines.
// Where j is known the compiler leaves out pieces that a number does not have.
template <typename V, int kBits, typename Line>
[[gnu::always_inline]] inline typename V::Ints NumberOf(const Line& line, int j) {
  typename V::Ints number = V::BroadcastByte(0);
#pragma GCC unroll 3
  for (int i = 0; i < kMostPiecesOf<kBits>; ++i) {
    const NumberPiece piece = kNumberPieces<kBits>[j][i];
    const typename V::Ints bits =
        V::And(V::ShiftRight(line(piece.line), piece.shift()), V::BroadcastByte(piece.mask()));
    number = V::Or(number, bits);
  }
  return number;
}

// Numbers of kNumberBits bits, step after step behind `kHeadLines` lines of the block's body.
template <typename Base, int kNumberBits, int kHeadLines>
struct StepFormat : Base {
  static constexpr int kBits = kNumberBits;
  static constexpr int kChunks = Base::kBlock / 32;
  static constexpr int kPhases = 1;
  static constexpr int kStepLines = kBits;
  static constexpr int kBodyBytes = 4 * (kHeadLines + kStepLines * kChunks);

  // One of the lines of a step.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints StepLine(const BlockPlace& at, int step,
                                                                 int i) {
    return V::Load(at.Line(kHeadLines + kStepLines * step + i));
  }

  // A line of numbers, from those that line(i) gives of its step.
  template <typename V, typename Line>
  [[gnu::always_inline]] static inline typename V::Ints LineFrom(const BlockPlace& /*at*/,
                                                                 int /*step*/, int j,
                                                                 const Line& line) {
    return NumberOf<V, kNumberBits>(line, j);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int step,
                                                               int /*phase*/, int j) {
    return LineFrom<V>(at, step, j, [&](int i) { return StepLine<V>(at, step, i); });
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints ElementAt(const BlockPlace& at,
                                                                  uint32_t index) {
    return ElementOfStep<V, kNumberBits>(at.Line(kHeadLines + kStepLines * (index / 32)),
                                         index % 32);
  }
};

template <typename F>
concept HasSteps = requires { F::kStepLines; };

// The bits of a number as it lies in memory: of its code, where it is looked up.
template <typename F>
inline constexpr int kBitsInMemory = [] {
  if constexpr (requires { F::kBitsInMemory; }) return F::kBitsInMemory;
  return F::kBits;
}();

template <typename F>
concept HasNibbles = requires { F::FirstHighLine(0); };

// One block of 32 with a scale in half precision.
struct SmallFormat {
  static constexpr int kBlock = 32;
  static constexpr int kUnitBlocks = 2;
  static constexpr int kLeadBytes = 2;
  static constexpr int kChunks = 1;
  static constexpr int kPhases = 1;
  static constexpr int kGroup = 32;
  static constexpr bool kHasOffsets = false;
  static constexpr bool kPrefetches = false;
  static constexpr int kMostBatches = 4;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int /*group*/) {
    return {V::LoadHalves(at.lead[0] + 2 * at.lane), V::Zero()};
  }
};

// The same with an offset, also in half precision.
struct SmallOffsetFormat : SmallFormat {
  static constexpr int kUnitBlocks = 1;
  static constexpr int kLeadBytes = 4;
  static constexpr int kZero = 0;
  static constexpr bool kHasOffsets = true;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int /*group*/) {
    return {V::LoadHalves(at.lead[0] + 2 * at.lane), V::LoadHalves(at.lead[1] + 2 * at.lane)};
  }
};

// The numbers of Q4_0 and Q4_1, which differ in their terms.
template <typename Base>
struct FourBitFormat : Base {
  static constexpr int kBodyBytes = 16;
  static constexpr int kBits = 4;

  static constexpr int FirstHighLine(int /*phase*/) { return 4; }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NibblesOf(const BlockPlace& at,
                                                                  int /*chunk*/, int j) {
    return V::Load(at.Line(j % 4));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int /*chunk*/,
                                                               int /*phase*/, int j) {
    return NibbleOfFour<V>(at, 0, j);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints ElementAt(const BlockPlace& at,
                                                                  uint32_t index) {
    return BitsOf<V>(at, PieceOfNibble<4>(0, index));
  }
};

struct FormatQ4_0 : FourBitFormat<SmallFormat> {
  static constexpr int kZero = 8;
};

struct FormatQ4_1 : FourBitFormat<SmallOffsetFormat> {};

struct FormatQ5_0 : StepFormat<SmallFormat, 5, 0> {
  static constexpr int kZero = 16;
};

struct FormatQ5_1 : StepFormat<SmallOffsetFormat, 5, 0> {};

struct FormatQ8_0 : SmallFormat {
  static constexpr int kBodyBytes = 32;
  static constexpr int kBits = 8;
  static constexpr int kZero = 128;

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int /*chunk*/,
                                                               int /*phase*/, int j) {
    return FromSignedBytes<V>(V::Load(at.Line(j)));
  }
};

// kIQ4Values of tensor/codebooks.h as unsigned numbers, with a zero point of 128.
alignas(16) constexpr auto kUnsignedIQ4Values = [] {
  std::array<uint8_t, 16> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint8_t>(kIQ4Values[i] + 128);
  }
  return values;
}();

template <typename V>
[[gnu::always_inline]] inline typename V::Ints LookUpIQ4(typename V::Ints x) {
  if constexpr (V::kSignedBytes) return V::LookUp(&kIQ4Values, x);
  return V::LookUp(&kUnsignedIQ4Values, x);
}

struct FormatIQ4_NL : SmallFormat {
  static constexpr int kMostBatches = 2;
  static constexpr int kBodyBytes = 16;
  static constexpr int kBits = 8;
  static constexpr int kZero = 128;

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int /*chunk*/,
                                                               int /*phase*/, int j) {
    return LookUpIQ4<V>(NibbleOfFour<V>(at, 0, j));
  }
};

// kDoubledE2M1Values of tensor/codebooks.h plus 16, which makes them numbers of 5 bits.
alignas(16) constexpr int8_t kPackedE2M1Values[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                      16, 15, 14, 13, 12, 10, 8,  4};

struct FormatMXFP4 {
  static constexpr bool kPrefetches = false;
  static constexpr int kMostBatches = 2;
  static constexpr int kBlock = 32;
  static constexpr int kUnitBlocks = 4;
  static constexpr int kLeadBytes = 1;
  static constexpr int kBodyBytes = 16;
  static constexpr int kChunks = 1;
  static constexpr int kPhases = 1;
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr int kGroup = 32;
  static constexpr bool kHasOffsets = false;

  // 2^(e - 128), e from 0 to 255, as the product of two normal numbers 2^(a - 127) 2^(b - 127) with
  // a + b = e + 126.
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int /*group*/) {
    const typename V::Ints sum =
        V::Add(V::LoadBytesAsWords(at.lead[0] + at.lane), V::Broadcast(126));
    const typename V::Ints a = V::template ShiftRight<1>(sum);
    const typename V::Ints b = V::Subtract(sum, a);
    return {V::Multiply(V::AsFloats(V::template ShiftLeft<23>(a)),
                        V::AsFloats(V::template ShiftLeft<23>(b))),
            V::Zero()};
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int /*chunk*/,
                                                               int /*phase*/, int j) {
    return V::LookUp(&kPackedE2M1Values, NibbleOfFour<V>(at, 0, j));
  }
};

struct FormatNVFP4 {
  static constexpr bool kPrefetches = false;
  static constexpr int kMostBatches = 1;
  static constexpr int kBlock = 64;
  static constexpr int kUnitBlocks = 1;
  static constexpr int kLeadBytes = 0;
  static constexpr int kBodyBytes = 36;
  static constexpr int kChunks = 2;
  static constexpr int kPhases = 1;
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr int kGroup = 16;
  static constexpr bool kHasOffsets = false;

  // UE4M3 / 2: the 7 bits are put where a float has the lower 4 bits of its exponent and the upper
  // 3 of its mantissa; what is missing is the difference of the biases, 2^(127 - 7), halved.
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints code =
        V::And(V::ShiftRight(V::Load(at.Line(0)), 8 * group), V::Broadcast(0xff));
    const typename V::Ints number = V::ZeroWhereEqual(code, V::Broadcast(0x7f));
    const typename V::Ints bits = V::template ShiftLeft<20>(V::And(number, V::Broadcast(0x7f)));
    return {V::Multiply(V::AsFloats(bits), V::Broadcast(0x1p119f)), V::Zero()};
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int /*phase*/, int j) {
    const typename V::Ints x = V::Load(at.Line(1 + 4 * chunk + 2 * (j / 4) + j % 2));
    return V::LookUp(&kPackedE2M1Values, LowNibbles<V>(V::ShiftRight(x, j % 4 / 2 * 4)));
  }
};

// Blocks of 256.
struct LargeFormat {
  static constexpr bool kPrefetches = true;
  static constexpr int kMostBatches = 4;
  static constexpr int kBlock = 256;
  static constexpr int kUnitBlocks = 1;
  static constexpr int kLeadBytes = 4;
};

// Those whose terms are whole numbers times the halves that lead: a scale, and an offset to be
// taken off. Term 0, 1, ... of a block has kTermPieces pieces ScalePiece(term, i), and MinimumPiece
// where it has offsets; those of four terms differ by bytes. The second one is shifted left by
// kSecondUp, and kScaleZero taken off the scale; kHasSignedScales: it can be negative.
struct WholeTermFormat : LargeFormat {
  static constexpr bool kHasWholeTerms = true;
  static constexpr bool kHasSignedScales = true;
  static constexpr bool kHasOffsets = false;
  static constexpr int kSecondUp = 0;
  static constexpr int kScaleZero = 0;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> BlockTermOf(const BlockPlace& at) {
    return {V::LoadHalves(at.lead[0] + 2 * at.lane), V::Zero()};
  }
};

struct WholeOffsetFormat : WholeTermFormat {
  static constexpr bool kHasSignedScales = false;
  static constexpr bool kHasOffsets = true;

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> BlockTermOf(const BlockPlace& at) {
    return {V::LoadHalves(at.lead[0] + 2 * at.lane),
            V::Negate(V::LoadHalves(at.lead[1] + 2 * at.lane))};
  }
};

// Q4_K and Q5_K: eight scales and minima of 6 bits in three words.
struct SixBitFormat : WholeOffsetFormat {
  static constexpr int kZero = 0;
  static constexpr int kGroup = 32;
  static constexpr int kTermPieces = 2;

  static constexpr Piece ScalePiece(uint32_t term, int i) { return PieceOf(term, i, 0); }
  static constexpr Piece MinimumPiece(uint32_t term, int i) { return PieceOf(term, i, 1); }

 private:
  // Of the first four groups the words hold all bits, of the others the upper two, and the third
  // word their lower four.
  static constexpr Piece PieceOf(uint32_t term, int i, uint32_t is_minimum) {
    const uint32_t byte = 8 * (term % 4);
    const uint32_t is_upper = term / 4;  // reckoned with, as a branch would be taken wrongly
    if (i == 1) return {2, byte + 4 * is_minimum, is_upper * 0x0f};
    return {is_minimum, byte + 2 * is_upper, 0x3f - is_upper * 0x0f};
  }
};

struct FormatQ4_K : SixBitFormat {
  static constexpr int kBodyBytes = 140;
  static constexpr int kChunks = 4;
  static constexpr int kPhases = 2;
  static constexpr int kBits = 4;

  // The low nibbles of the chunk's lines in its first step, the high ones in the second.
  static constexpr int FirstHighLine(int phase) { return phase == 0 ? 8 : 0; }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NibblesOf(const BlockPlace& at, int chunk,
                                                                  int j) {
    return V::Load(at.Line(3 + 8 * chunk + j));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int phase, int j) {
    return LowNibbles<V>(V::ShiftRight(NibblesOf<V>(at, chunk, j), 4 * phase));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints ElementAt(const BlockPlace& at,
                                                                  uint32_t index) {
    return BitsOf<V>(at, PieceOfNibble<8>(3 + 8 * (index / 64), index % 64));
  }
};

struct FormatQ5_K : StepFormat<SixBitFormat, 5, 3> {};

struct FormatQ2_K : StepFormat<WholeOffsetFormat, 2, 4> {
  static constexpr int kZero = 0;
  static constexpr int kGroup = 16;
  static constexpr int kTermPieces = 1;

  static constexpr Piece ScalePiece(uint32_t term, int /*i*/) {
    return {term / 4, 8 * (term % 4), 0x0f};
  }
  static constexpr Piece MinimumPiece(uint32_t term, int /*i*/) {
    return {term / 4, 8 * (term % 4) + 4, 0x0f};
  }
};

struct FormatQ3_K : StepFormat<WholeTermFormat, 3, 3> {
  static constexpr int kUnitBlocks = 2;
  static constexpr int kLeadBytes = 2;
  static constexpr int kZero = 4;
  static constexpr int kGroup = 16;
  static constexpr int kTermPieces = 2;
  static constexpr int kSecondUp = 4;
  static constexpr int kScaleZero = 32;

  // s[0:4] = nibble g / 8 of byte g % 8; s[4:6] = bits 2 (g / 4) of byte 8 + g % 4.
  static constexpr Piece ScalePiece(uint32_t term, int i) {
    const uint32_t byte = 8 * (term % 4);
    if (i == 1) return {2, byte + 2 * (term / 4), 0x03};
    return {term / 4 % 2, byte + 4 * (term / 8), 0x0f};
  }
};

struct FormatQ6_K : StepFormat<WholeTermFormat, 6, 4> {
  static constexpr int kUnitBlocks = 2;
  static constexpr int kLeadBytes = 2;
  static constexpr int kZero = 32;
  static constexpr int kGroup = 16;
  static constexpr int kTermPieces = 1;

  static constexpr Piece ScalePiece(uint32_t term, int /*i*/) {
    return {term / 4, 8 * (term % 4), 0xff};
  }
};

struct FormatIQ4_XS : LargeFormat {
  static constexpr bool kPrefetches = false;
  static constexpr int kMostBatches = 2;
  static constexpr bool kHasOffsets = false;
  static constexpr int kBodyBytes = 132;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr int kBits = 8;
  static constexpr int kZero = 128;
  static constexpr int kGroup = 32;

  // The block's scale times one from -32 on: its lower four bits are in a word, the upper two in
  // the second half that leads. No operation rounds.
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Floats of_block = V::LoadHalves(at.lead[0] + 2 * at.lane);
    const typename V::Ints upper =
        V::template ShiftLeft<4>(V::LoadHalvesAsWords(at.lead[1] + 2 * at.lane));
    const typename V::Ints number =
        V::Or(Field<V>(V::Load(at.Line(0)), 4 * group, 0x0f), Field<V>(upper, 2 * group, 0x30));
    return {
        V::MultiplyAdd(of_block, V::ToFloats(number), V::Multiply(of_block, V::Broadcast(-32.0f))),
        V::Zero()};
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int /*phase*/, int j) {
    return LookUpIQ4<V>(NibbleOfFour<V>(at, 1 + 4 * chunk, j));
  }
};

}  // namespace
}  // namespace thaw
