// How numbers of a few bits lie in packed rows (tensor/packed_rows.h): the step, 32 consecutive
// elements of a block, is 8 numbers in each byte of `bits` lines, so that a step is one run of
// memory and every number takes few operations. Number j of byte i is element 4 j + i.
//
// First each line holds as many whole numbers as it has room for, the lowest bits first; what is
// left at the upper ends of the lines holds the other numbers, piece by piece.
#pragma once

#include <cstdint>

namespace thaw {

// Bits of a number that lie together in a byte of a line.
struct NumberPiece {
  int8_t line = 0;   // of the step's
  int8_t place = 0;  // of the lowest bit, in the byte
  int8_t bit = 0;    // which of the number's that is; at most `place`
  int8_t bits = 0;   // 0: there is no such piece

  constexpr int shift() const { return place - bit; }
  constexpr int mask() const { return ((1 << bits) - 1) << bit; }  // of the number
};

inline constexpr int kNumbersOfStep = 8;
inline constexpr int kMostPieces = 3;

// The pieces of each number, for numbers of kBits bits.
template <int kBits>
inline constexpr NumberPiece kNumberPieces[kNumbersOfStep][kMostPieces] = {};

template <>
inline constexpr NumberPiece kNumberPieces<2>[kNumbersOfStep][kMostPieces] = {
    {{0, 0, 0, 2}}, {{0, 2, 0, 2}}, {{0, 4, 0, 2}}, {{0, 6, 0, 2}},
    {{1, 0, 0, 2}}, {{1, 2, 0, 2}}, {{1, 4, 0, 2}}, {{1, 6, 0, 2}},
};

template <>
inline constexpr NumberPiece kNumberPieces<3>[kNumbersOfStep][kMostPieces] = {
    {{0, 0, 0, 3}},
    {{0, 3, 0, 3}},
    {{1, 0, 0, 3}},
    {{1, 3, 0, 3}},
    {{2, 0, 0, 3}},
    {{2, 3, 0, 3}},
    {{0, 6, 0, 2}, {2, 6, 2, 1}},
    {{1, 6, 0, 2}, {2, 7, 2, 1}},
};

template <>
inline constexpr NumberPiece kNumberPieces<5>[kNumbersOfStep][kMostPieces] = {
    {{0, 0, 0, 5}},
    {{1, 0, 0, 5}},
    {{2, 0, 0, 5}},
    {{3, 0, 0, 5}},
    {{4, 0, 0, 5}},
    {{0, 5, 0, 3}, {3, 5, 3, 2}},
    {{1, 5, 0, 3}, {4, 5, 3, 2}},
    {{2, 5, 0, 3}, {3, 7, 3, 1}, {4, 7, 4, 1}},
};

template <>
inline constexpr NumberPiece kNumberPieces<6>[kNumbersOfStep][kMostPieces] = {
    {{0, 0, 0, 6}},
    {{1, 0, 0, 6}},
    {{2, 0, 0, 6}},
    {{3, 0, 0, 6}},
    {{4, 0, 0, 6}},
    {{5, 0, 0, 6}},
    {{0, 6, 0, 2}, {1, 6, 2, 2}, {2, 6, 4, 2}},
    {{3, 6, 0, 2}, {4, 6, 2, 2}, {5, 6, 4, 2}},
};

// How many a number has at most.
template <int kBits>
inline constexpr int kMostPiecesOf = [] {
  static_assert(kNumberPieces<kBits>[0][0].bits > 0, "numbers of so many bits have no pieces");
  int most = 0;
  for (const auto& pieces : kNumberPieces<kBits>) {
    int n = 0;
    while (n < kMostPieces && pieces[n].bits > 0) ++n;
    most = n < most ? most : n;
  }
  return most;
}();

}  // namespace thaw
