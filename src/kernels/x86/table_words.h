// Tables looked up an entry at a time, into vectors: what the *_avx2.cc and *_avx512.cc files have
// no fast instruction for (a gather of Zen 4 takes twice as long). `static`, for the reason given
// in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tensor/codebooks.h"

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

// Two quads of eight rows, in their order. A CPU does little here but load: where both numbers of a
// row come with one load (Both), they are taken row by row, else quad by quad.
template <typename Indices>
[[gnu::always_inline]] static inline void LookUpQuads(const GridPoint4* points,
                                                      const Indices& index, __m256i* quads) {
  __m128i of_rows[2][2];  // [quad][rows 0 to 3, 4 to 7]
  const auto put = [&]<int place>(int i, int half, uint64_t number) __attribute__((always_inline)) {
    int32_t elements;
    std::memcpy(&elements, points + number, sizeof(elements));
    __m128i& x = of_rows[i][half];
    x = place == 0 ? _mm_cvtsi32_si128(elements) : _mm_insert_epi32(x, elements, place);
  };
  const auto put_rows = [&]<int... place>(int half, std::integer_sequence<int, place...>)
      __attribute__((always_inline)) {
    if constexpr (requires { index.Both(0); }) {
      const std::array<uint64_t, 2> numbers[] = {index.Both(4 * half + place)...};
      ((put.template operator()<place>(0, half, numbers[place][0]),
        put.template operator()<place>(1, half, numbers[place][1])),
       ...);
    } else {
      (put.template operator()<place>(0, half, index(4 * half + place, 0)), ...);
      (put.template operator()<place>(1, half, index(4 * half + place, 1)), ...);
    }
  };
  put_rows(0, std::make_integer_sequence<int, 4>());
  put_rows(1, std::make_integer_sequence<int, 4>());
  for (int i = 0; i < 2; ++i) {
    quads[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(of_rows[i][0]), of_rows[i][1], 1);
  }
}

}  // namespace
}  // namespace thaw
