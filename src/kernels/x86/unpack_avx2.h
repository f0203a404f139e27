// Vector unpackers: loads and stores that they share, and those of the K-quants
// (unpack_k_avx2.cc), which unpack_avx2.cc hands out. Each gives the same bits as the portable
// unpacker of its type (kernels/unpack.h).
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

}  // namespace thaw::avx2
