// How points of a grid become weights in vectors that look up bytes in tables of any size and take
// bytes from any bit of a word on (FindsBytes; x86/lanes_avx512vbmi.h), over the formats of
// grid_formats.h.
//
// The four points of a step of octets, or of half a step of quads, are looked up for all rows at
// once, each as a code of two bytes (tensor/codebooks.h). A line of weights is then one more
// lookup, by six bits: some are a level, taken from a code, and one is a sign.
//
// Such a format says
//   BytesOf       the points and signs of a step of octets, or of half `half` of one of quads
//   kCodes        the codes of its points
//   kNumbers      the numbers of elements by levels and signs
//   kByteOfOctet  which byte of every word an octet of a step is
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/packed_formats.h"
#include "tensor/codebooks.h"

namespace thaw {
namespace {

template <typename V>
concept FindsBytes = requires(typename V::Ints x) { V::template BytesFromBits<0, 1, 2, 3>(x); };

// Numbers of elements by six bits: bits 2 to 4 are the level (of octets bits 2 and 3), and bit 1,
// or bit 5 in `of_second`, is set where they have a sign; the others may be anything. So one vector
// brings the signs of both halves of eight elements, which are four bits apart.
struct NumberTables {
  std::array<uint8_t, 64> of_first;
  std::array<uint8_t, 64> of_second;
};

// number(level, has_sign) for `levels` levels, a power of two.
template <typename Number>
constexpr NumberTables NumberTablesOf(size_t levels, const Number& number) {
  NumberTables tables = {};
  for (size_t i = 0; i < 64; ++i) {
    const size_t level = i / 4 % levels;
    tables.of_first[i] = static_cast<uint8_t>(number(level, (i >> 1) % 2 != 0));
    tables.of_second[i] = static_cast<uint8_t>(number(level, (i >> 5) % 2 != 0));
  }
  return tables;
}

// `zero` plus a magnitude, or minus where there is a sign.
template <size_t kLevels>
constexpr NumberTables SignedNumbersOf(int zero, const std::array<int8_t, kLevels>& magnitudes) {
  return NumberTablesOf(kLevels, [&](size_t level, bool has_sign) {
    return has_sign ? zero - magnitudes[level] : zero + magnitudes[level];
  });
}

// The signs of eight elements, from bit kBit of every word on, for both halves.
template <typename V, int kBit>
[[gnu::always_inline]] inline typename V::Ints SignsFrom(typename V::Ints signs) {
  return V::template BytesFromBits<kBit - 1, kBit, kBit + 1, kBit + 2>(signs);
}

// Four elements of every row: their levels are two bits each from bit kBit of the words of `codes`
// on.
template <typename V, int kBit>
[[gnu::always_inline]] inline typename V::Ints HalfOctet(const std::array<uint8_t, 64>& numbers,
                                                         typename V::Ints codes,
                                                         typename V::Ints signs) {
  const typename V::Ints levels =
      V::template BytesFromBits<kBit - 2, kBit, kBit + 2, kBit + 4>(codes);
  return V::LookUp64(numbers, V::Merge(0x0c, levels, signs));
}

// Four elements of every row: a quad whose code is byte kByte of the words of `first` and `second`.
template <typename V, int kByte>
[[gnu::always_inline]] inline typename V::Ints Quad(const std::array<uint8_t, 64>& numbers,
                                                    typename V::Ints first, typename V::Ints second,
                                                    typename V::Ints signs) {
  constexpr int kBit = 8 * kByte;
  const typename V::Ints levels =
      V::template BytesFromBitsOf<kBit - 2, kBit + 2, kBit - 2, kBit + 2>(first, second);
  return V::LookUp64(numbers, V::Merge(0x1c, levels, signs));
}

// Four points of every row, a byte each: their numbers, low + 256 high, of which only lower bits of
// `high` count, and the signs of eight elements, of octets in the same order.
template <typename V>
struct PointBytes {
  typename V::Ints low;
  typename V::Ints high;
  typename V::Ints signs;
};

// The eight lines of a step of four octets,
template <typename V, typename F>
[[gnu::always_inline]] inline void LoadOctets(const BlockPlace& at, int chunk, int phase,
                                              typename V::Ints (&w)[8]) {
  const PointBytes<V> points = F::template BytesOf<V>(at, chunk, phase, 0);
  const typename V::Ints first = V::LookUpBytes(F::kCodes.first, points.low, points.high);
  const typename V::Ints second = V::LookUpBytes(F::kCodes.second, points.low, points.high);
  const auto lines_of = [&]<int octet>() __attribute__((always_inline)) {
    constexpr int kBit = 8 * F::kByteOfOctet[octet];
    const typename V::Ints signs = SignsFrom<V, kBit>(points.signs);
    w[2 * octet] = HalfOctet<V, kBit>(F::kNumbers.of_first, first, signs);
    w[2 * octet + 1] = HalfOctet<V, kBit>(F::kNumbers.of_second, second, signs);
  };
  ForEachOf(std::make_integer_sequence<int, 4>(), lines_of);
}

// or of eight quads,
template <typename V, typename F>
[[gnu::always_inline]] inline void LoadQuads(const BlockPlace& at, int chunk, int phase,
                                             typename V::Ints (&w)[8]) {
  const auto lines_of = [&]<int half>() __attribute__((always_inline)) {
    const PointBytes<V> points = F::template BytesOf<V>(at, chunk, phase, half);
    const typename V::Ints first = V::LookUpBytes(F::kCodes.first, points.low, points.high);
    const typename V::Ints second = V::LookUpBytes(F::kCodes.second, points.low, points.high);
    const typename V::Ints signs[] = {SignsFrom<V, 16 * half>(points.signs),
                                      SignsFrom<V, 16 * half + 8>(points.signs)};
    w[4 * half] = Quad<V, 0>(F::kNumbers.of_first, first, second, signs[0]);
    w[4 * half + 1] = Quad<V, 1>(F::kNumbers.of_second, first, second, signs[0]);
    w[4 * half + 2] = Quad<V, 2>(F::kNumbers.of_first, first, second, signs[1]);
    w[4 * half + 3] = Quad<V, 3>(F::kNumbers.of_second, first, second, signs[1]);
  };
  ForEachOf(std::make_integer_sequence<int, 2>(), lines_of);
}

template <typename V, typename F>
[[gnu::always_inline]] inline void LoadStepOfBytes(const BlockPlace& at, int chunk, int phase,
                                                   typename V::Ints (&w)[8]) {
  if constexpr (F::kPairs == 2) {
    LoadOctets<V, F>(at, chunk, phase, w);
  } else {
    LoadQuads<V, F>(at, chunk, phase, w);
  }
}

// and any one of them.
template <typename V, typename F>
[[gnu::always_inline]] inline typename V::Ints LoadLineOfBytes(const BlockPlace& at, int chunk,
                                                               int phase, int j) {
  const auto& numbers = j % 2 == 0 ? F::kNumbers.of_first : F::kNumbers.of_second;
  if constexpr (F::kPairs == 2) {
    const PointBytes<V> points = F::template BytesOf<V>(at, chunk, phase, 0);
    const int shift = 8 * F::kByteOfOctet[j / 2];
    const auto& codes = j % 2 == 0 ? F::kCodes.first : F::kCodes.second;
    return HalfOctet<V, 0>(
        numbers,
        V::LookUpBytes(codes, V::ShiftRight(points.low, shift), V::ShiftRight(points.high, shift)),
        SignsFrom<V, 0>(V::ShiftRight(points.signs, shift)));
  } else {
    const PointBytes<V> points = F::template BytesOf<V>(at, chunk, phase, j / 4);
    const typename V::Ints low = V::ShiftRight(points.low, 8 * (j % 4));
    const typename V::Ints high = V::ShiftRight(points.high, 8 * (j % 4));
    return Quad<V, 0>(numbers, V::LookUpBytes(F::kCodes.first, low, high),
                      V::LookUpBytes(F::kCodes.second, low, high),
                      SignsFrom<V, 0>(V::ShiftRight(points.signs, 8 * (j / 2))));
  }
}

}  // namespace
}  // namespace thaw
