// Tables looked up an entry at a time, into vectors: what the *_avx2.cc and *_avx512.cc files have
// no fast instruction for (a gather of Zen 4 takes twice as long). `static`, for the reason given
// in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/codebooks.h"

namespace thaw {
namespace {

// What eight rows look up: index(row, i) of a vector that holds two numbers of 16 bits for each.
class VectorIndices {
 public:
  explicit VectorIndices(__m256i indices)
      : of_two_rows_{static_cast<uint64_t>(_mm256_extract_epi64(indices, 0)),
                     static_cast<uint64_t>(_mm256_extract_epi64(indices, 1)),
                     static_cast<uint64_t>(_mm256_extract_epi64(indices, 2)),
                     static_cast<uint64_t>(_mm256_extract_epi64(indices, 3))} {}

  [[gnu::always_inline]] uint64_t operator()(int row, int i) const {
    return of_two_rows_[row / 2] >> (32 * (row % 2) + 16 * i) & 0xffff;
  }

 private:
  uint64_t of_two_rows_[4];
};

// Octet `i` of eight rows: of rows 0, 1, 4 and 5 in [0] and of 2, 3, 6 and 7 in [1].
template <typename Indices>
[[gnu::always_inline]] static inline void LookUpOctets(const GridPoint8* points,
                                                       const Indices& index, int i,
                                                       __m256i (&octets)[2]) {
  const auto both = [&](int row) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(points + index(row, i)));
    return _mm_castpd_si128(
        _mm_loadh_pd(low, reinterpret_cast<const double*>(points + index(row + 1, i))));
  };
  octets[0] = _mm256_inserti128_si256(_mm256_castsi128_si256(both(0)), both(4), 1);
  octets[1] = _mm256_inserti128_si256(_mm256_castsi128_si256(both(2)), both(6), 1);
}

// Quad `i` of eight rows, in their order.
template <typename Indices>
[[gnu::always_inline]] static inline __m256i LookUpQuads(const GridPoint4* points,
                                                         const Indices& index, int i) {
  const auto four = [&](int row) {
    const auto quad = [&](int of_row) {
      int32_t elements;
      std::memcpy(&elements, points + index(of_row, i), sizeof(elements));
      return elements;
    };
    __m128i quads = _mm_cvtsi32_si128(quad(row));
    quads = _mm_insert_epi32(quads, quad(row + 1), 1);
    quads = _mm_insert_epi32(quads, quad(row + 2), 2);
    return _mm_insert_epi32(quads, quad(row + 3), 3);
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(four(0)), four(4), 1);
}

}  // namespace
}  // namespace thaw
