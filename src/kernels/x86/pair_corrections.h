// CorrectPairs of the Blocks of kernels/quantize_tokens.h in AVX2, for the files of that and of
// wider instruction sets; in an anonymous namespace, for the reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/activations.h"

namespace thaw {
namespace {

struct PairBlocks {
  static void CorrectPairs(const int8_t* quants, int16_t* of_eights, int16_t* of_sixteens) {
    static_assert(2 * 128 * kPairUnit < 1 << 15);
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(quants));
    const __m256i too_much = _mm256_maddubs_epi16(_mm256_set1_epi8(kPairUnit), q);
    const __m256i fours = _mm256_sub_epi16(_mm256_setzero_si256(), too_much);
    // Every second word, and every fourth.
    const __m256i eights = _mm256_add_epi16(fours, _mm256_srli_epi64(fours, 32));
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(of_eights),
                     _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(eights, even)));
    if (of_sixteens == nullptr) return;
    const __m256i sixteens = _mm256_add_epi16(eights, _mm256_shuffle_epi32(eights, 0x4e));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(of_sixteens),
                     _mm_unpacklo_epi32(_mm256_castsi256_si128(sixteens),
                                        _mm256_extracti128_si256(sixteens, 1)));
  }
};

}  // namespace
}  // namespace thaw
