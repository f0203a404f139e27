// Tables looked up an entry at a time, into vectors: what the *_avx2.cc and *_avx512.cc files have
// no fast instruction for (a gather of Zen 4 takes twice as long). `static`, for the reason given
// in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/codebooks.h"

namespace thaw {
namespace {

// Indices are four numbers of 16 bits.

[[gnu::always_inline]] static inline __m128i LookUpFour(const uint16_t* table, uint64_t indices) {
  __m128i entries = _mm_cvtsi32_si128(table[indices & 0xffff]);
  entries = _mm_insert_epi16(entries, table[indices >> 16 & 0xffff], 1);
  entries = _mm_insert_epi16(entries, table[indices >> 32 & 0xffff], 2);
  return _mm_insert_epi16(entries, table[indices >> 48], 3);
}

[[gnu::always_inline]] static inline __m128i LookUpEight(const uint16_t* table, __m128i indices) {
  return _mm_unpacklo_epi64(
      LookUpFour(table, static_cast<uint64_t>(_mm_cvtsi128_si64(indices))),
      LookUpFour(table, static_cast<uint64_t>(_mm_extract_epi64(indices, 1))));
}

// The points of two rows, of each the first point (`first`) and the second, from the indices of the
// rows, which are four numbers of 16 bits: of the one row and of the other.
[[gnu::always_inline]] static inline void LookUpPoints(const GridPoint8* points, uint64_t indices,
                                                       __m128i& first, __m128i& second) {
  const auto both = [&](uint64_t row, uint64_t next) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(points + row));
    return _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(points + next)));
  };
  first = both(indices & 0xffff, indices >> 32 & 0xffff);
  second = both(indices >> 16 & 0xffff, indices >> 48);
}

// The same of eight rows: points of rows 0, 1, 4 and 5 in [0] and of 2, 3, 6 and 7 in [1].
[[gnu::always_inline]] static inline void LookUpPoints(const GridPoint8* points, __m256i indices,
                                                       __m256i (&first)[2], __m256i (&second)[2]) {
  __m128i parts[2][4];
  const __m128i low = _mm256_castsi256_si128(indices);
  const __m128i high = _mm256_extracti128_si256(indices, 1);
  LookUpPoints(points, static_cast<uint64_t>(_mm_cvtsi128_si64(low)), parts[0][0], parts[1][0]);
  LookUpPoints(points, static_cast<uint64_t>(_mm_extract_epi64(low, 1)), parts[0][1], parts[1][1]);
  LookUpPoints(points, static_cast<uint64_t>(_mm_cvtsi128_si64(high)), parts[0][2], parts[1][2]);
  LookUpPoints(points, static_cast<uint64_t>(_mm_extract_epi64(high, 1)), parts[0][3], parts[1][3]);
  for (int i = 0; i < 2; ++i) {
    first[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[0][i]), parts[0][i + 2], 1);
    second[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[1][i]), parts[1][i + 2], 1);
  }
}

}  // namespace
}  // namespace thaw
