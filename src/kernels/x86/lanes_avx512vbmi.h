// Sixteen rows at a time in AVX-512 with VNNI and VBMI, whose instructions look up bytes in 128 and
// take bytes from any bit on: those of lanes_avx512.h, and FindsBytes of kernels/grid_formats.h.
// For *_avx512vbmi.cc files alone; `static`, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

struct VbmiVectors16 : Vectors16 {
  // Entries `low` + 256 `high` of a table, of whose numbers `high` only as many lower bits count as
  // the table needs.
  template <size_t kEntries>
  THAW_INLINE Ints LookUpBytes(const std::array<uint8_t, kEntries>& table, Ints low, Ints high) {
    return LookUpPart<kEntries>(table.data(), low, high);
  }

  // Byte i of every word is the eight bits of it from bit n[i] on. Bits beyond a word are those of
  // another row.
  template <int... n>
  THAW_INLINE Ints BytesFromBits(Ints x) {
    return _mm512_multishift_epi64_epi8(BitNumbers<n...>(), x);
  }
  // The same, bytes 0 and 1 from x and the others from y.
  template <int... n>
  THAW_INLINE Ints BytesFromBitsOf(Ints x, Ints y) {
    constexpr __mmask64 kUpper = 0xcccccccccccccccc;
    return _mm512_mask_multishift_epi64_epi8(BytesFromBits<n...>(x), kUpper, BitNumbers<n...>(), y);
  }

  // The bits of x where the mask, a byte, has ones, and of y elsewhere.
  THAW_INLINE Ints Merge(int mask, Ints x, Ints y) { return Merge(BroadcastByte(mask), x, y); }
  THAW_INLINE Ints Merge(Ints mask, Ints x, Ints y) {
    return _mm512_ternarylogic_epi32(x, y, mask, 0xe4);
  }

  // Entries by the lower six bits of bytes.
  THAW_INLINE Ints LookUp64(const std::array<uint8_t, 64>& table, Ints x) {
    return _mm512_permutexvar_epi8(x, _mm512_loadu_si512(table.data()));
  }

 private:
  template <int n0, int n1, int n2, int n3>
  THAW_INLINE Ints BitNumbers() {
    constexpr auto of_words = [](uint64_t first, uint64_t second) {
      const auto byte = [&](int n) { return (first + static_cast<uint64_t>(n)) % 64 << second; };
      return byte(n0) | byte(n1) << 8 | byte(n2) << 16 | byte(n3) << 24;
    };
    return _mm512_set1_epi64(static_cast<int64_t>(of_words(0, 0) | of_words(32, 32)));
  }

  template <size_t kEntries>
  THAW_INLINE Ints LookUpPart(const uint8_t* table, Ints low, Ints high) {
    if constexpr (kEntries == 128) {
      return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), low,
                                      _mm512_loadu_si512(table + 64));
    } else {
      const Ints first = LookUpPart<kEntries / 2>(table, low, high);
      const Ints second = LookUpPart<kEntries / 2>(table + kEntries / 2, low, high);
      return _mm512_mask_mov_epi8(first, IsInSecondHalf<kEntries>(low, high), second);
    }
  }
  template <size_t kEntries>
  THAW_INLINE __mmask64 IsInSecondHalf(Ints low, Ints high) {
    if constexpr (kEntries == 256) return _mm512_movepi8_mask(low);
    return _mm512_test_epi8_mask(high, BroadcastByte(kEntries / 512));
  }
};

using VbmiLanes16 = VnniLanes<VbmiVectors16>;

}  // namespace
}  // namespace thaw
