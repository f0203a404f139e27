// Vector unpackers: loads and stores that they share, and those of the K-quants (unpack_k_avx2.cc)
// and of the grid types (unpack_grids_avx2.cc), which unpack_avx2.cc hands out. Each gives the same
// bits as the portable unpacker of its type (kernels/unpack.h).
//
// Helpers are `static` for the reason given in vector_avx2.h.
#pragma once

#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {

void UnpackQ2_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackQ3_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackQ4_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackQ5_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackQ6_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);

void UnpackIQ1_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ1_M(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ2_XXS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ2_XS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ2_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ3_XXS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);
void UnpackIQ3_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets);

[[maybe_unused]] static inline __m256i LoadBytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

[[maybe_unused]] static inline void StoreQuants(int8_t* p, __m256i quants) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), quants);
}

// A half-precision number at any address.
[[maybe_unused]] static inline float LoadHalf(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// One scale for both groups of 32 elements.
[[maybe_unused]] static inline void StorePair(float* out, float value) {
  out[0] = value;
  out[1] = value;
}

// Byte i all ones where bit i is set.
[[maybe_unused]] static inline __m256i BytesFromBits(uint32_t bits) {
  // Each byte of the number to the eight bytes that its bits belong to, then one bit from each.
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int32_t>(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

}  // namespace thaw::avx2
