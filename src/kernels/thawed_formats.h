// How packed blocks of grids whose points have been looked up (tensor/thawed_grids.h) are read into
// vectors: formats as in packed_formats.h. An element is a code of a few bits, the number of its
// level and whether it is below zero, and a vector looks 16 or more of them up at once.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/grid_formats.h"
#include "kernels/packed_formats.h"
#include "tensor/blocks.h"

namespace thaw {
namespace {

// The numbers that codes stand for, their zero point added, as the lanes look them up.
struct alignas(16) CodeTable {
  uint8_t of[16];
};

// Codes are a magnitude's index, and behind its bits one for those below zero.
template <size_t kMagnitudes>
constexpr CodeTable CodesOfSigned(int zero, const std::array<int8_t, kMagnitudes>& magnitudes) {
  CodeTable table = {};
  for (size_t code = 0; code < std::size(table.of); ++code) {
    const int magnitude = magnitudes[code % kMagnitudes];
    const bool is_below = code / kMagnitudes % 2 != 0;
    table.of[code] = static_cast<uint8_t>(zero + (is_below ? -magnitude : magnitude));
  }
  return table;
}

// With a nibble for each of the groups that share a scale, in the first lines of the body.
struct ThawedGridFormat : GridFormat {
  static constexpr int kMostBatches = 1;
  static constexpr int kGroup = 32;

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NibbleOf(const BlockPlace& at, int group) {
    return Field<V>(V::Load(at.Line(group / 8)), 4 * (group % 8), 0x0f);
  }
};

// Codes that lie step by step. Base::NumbersOf makes the line's numbers of them.
template <typename Base, int kBitsOfCode, int kHeadLines>
struct CodeFormat : StepFormat<Base, kBitsOfCode, kHeadLines> {
  using Codes = StepFormat<Base, kBitsOfCode, kHeadLines>;
  static constexpr int kBits = Base::kBits;
  static constexpr int kBitsInMemory = kBitsOfCode;

  template <typename V, typename Line>
  [[gnu::always_inline]] static inline typename V::Ints LineFrom(const BlockPlace& at, int step,
                                                                 int j, const Line& line) {
    return Base::template NumbersOf<V>(at, step, j, NumberOf<V, kBitsOfCode>(line, j));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int step,
                                                               int phase, int j) {
    return Base::template NumbersOf<V>(at, step, j, Codes::template LineOf<V>(at, step, phase, j));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints ElementAt(const BlockPlace& at,
                                                                  uint32_t index) {
    const typename V::Ints numbers = Base::template NumbersOf<V>(
        at, static_cast<int>(index / 32), static_cast<int>(index % 32 / 4),
        Codes::template ElementAt<V>(at, index));
    return V::And(numbers, V::Broadcast(0xff));
  }
};

// ------------------------------------------------------------------------------------ IQ2

struct ThawedIQ2Format : ThawedGridFormat {
  static constexpr int kBits = 7;
  static constexpr int kZero = 64;
  static constexpr CodeTable kCodes = CodesOfSigned(kZero, kIQ2Magnitudes);

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    return HalfPlus<V>(at, NibbleOf<V>(at, group), 0.25f);
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NumbersOf(const BlockPlace& /*at*/,
                                                                  int /*step*/, int /*j*/,
                                                                  typename V::Ints codes) {
    return V::LookUp(&kCodes, codes);
  }
};

struct FormatThawedIQ2_XXS : CodeFormat<ThawedIQ2Format, 3, 1> {};

struct FormatThawedIQ2_S : CodeFormat<ThawedIQ2Format, 3, 2> {
  static constexpr int kGroup = 16;
};

// ------------------------------------------------------------------------------------ IQ3

// Codes are nibbles in the order of IQ4_XS.
struct ThawedIQ3Format : ThawedGridFormat {
  static constexpr int kMostBatches = 2;
  static constexpr bool kPrefetches = false;
  static constexpr int kBodyBytes = 132;
  static constexpr int kChunks = 8;
  static constexpr int kPhases = 1;
  static constexpr int kBitsInMemory = 4;
};

template <typename Base>
struct NibbleCodeFormat : Base {
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints LineOf(const BlockPlace& at, int chunk,
                                                               int /*phase*/, int j) {
    return V::LookUp(&Base::kCodes, NibbleOfFour<V>(at, 1 + 4 * chunk, j));
  }

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints ElementAt(const BlockPlace& at,
                                                                  uint32_t index) {
    const Piece piece = PieceOfNibble<4>(1 + 4 * (index / 32), index % 32);
    return V::And(V::LookUp(&Base::kCodes, BitsOf<V>(at, piece)), V::Broadcast(0xff));
  }
};

struct ThawedIQ3_XXSFormat : ThawedIQ3Format {
  static constexpr int kBits = 7;
  static constexpr int kZero = 64;
  static constexpr CodeTable kCodes = CodesOfSigned(kZero, kIQ3_XXSMagnitudes);

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    return HalfPlus<V>(at, NibbleOf<V>(at, group), 0.5f);
  }
};

struct FormatThawedIQ3_XXS : NibbleCodeFormat<ThawedIQ3_XXSFormat> {};

struct ThawedIQ3_SFormat : ThawedIQ3Format {
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr CodeTable kCodes = CodesOfSigned(kZero, kIQ3_SMagnitudes);

  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    return {V::Multiply(ScaleOf<V>(at), OddScale<V>(NibbleOf<V>(at, group))), V::Zero()};
  }
};

struct FormatThawedIQ3_S : NibbleCodeFormat<ThawedIQ3_SFormat> {};

// ------------------------------------------------------------------------------------ IQ1

// A third bit of the code says that the element is one less.
struct ThawedIQ1Format : ThawedGridFormat {
  static constexpr int kBits = 5;
  static constexpr int kZero = 16;
  static constexpr CodeTable kCodes = [] {
    CodeTable table = {};
    for (int code = 0; code < 16; ++code) {
      table.of[code] = static_cast<uint8_t>(kZero + EightOfIQ1(code % 4, code / 4 % 2 != 0));
    }
    return table;
  }();

  // d * (1 + 2 s) / 8
  template <typename V>
  [[gnu::always_inline]] static inline Term<V> TermOf(const BlockPlace& at, int group) {
    const typename V::Ints s = Masked<V>(NibbleOf<V>(at, group), 0x07);
    return IQ1Format::EighthOf<V>(ScaleOf<V>(at), s);
  }

  // Bit `bit` of the words at a line is that of all elements of `codes`.
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NumbersLess(const BlockPlace& at, int line,
                                                                    int bit,
                                                                    typename V::Ints codes) {
    const typename V::Ints less =
        V::Subtract(V::Broadcast(0), Field<V>(V::Load(at.Line(line)), bit, 1));
    return V::LookUp(&kCodes, V::Or(codes, V::And(less, V::BroadcastByte(4))));
  }
};

struct ThawedIQ1_SFormat : ThawedIQ1Format {
  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NumbersOf(const BlockPlace& at, int step,
                                                                  int /*j*/,
                                                                  typename V::Ints codes) {
    return NumbersLess<V>(at, 0, 4 * step + 3, codes);
  }
};

struct FormatThawedIQ1_S : CodeFormat<ThawedIQ1_SFormat, 2, 1> {};

struct ThawedIQ1_MFormat : ThawedIQ1Format {
  static constexpr int kGroup = 16;

  template <typename V>
  [[gnu::always_inline]] static inline typename V::Ints NumbersOf(const BlockPlace& at, int step,
                                                                  int j, typename V::Ints codes) {
    return NumbersLess<V>(at, 2, 4 * step + j / 2, codes);
  }
};

struct FormatThawedIQ1_M : CodeFormat<ThawedIQ1_MFormat, 2, 3> {};

}  // namespace
}  // namespace thaw
