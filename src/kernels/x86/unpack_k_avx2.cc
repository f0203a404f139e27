// Unpackers of the K-quants in AVX2. The formats are described in tensor/blocks.h. See avx2.h for
// what may be called here.
#include "kernels/x86/avx2.h"
#include "kernels/x86/unpack_avx2.h"
#include "tensor/blocks.h"

namespace thaw::avx2 {
namespace {

constexpr int64_t kBlock = 256;

// out[i] = factor * byte i of `bytes`, for its low eight bytes.
void StoreScaled(float* out, float factor, __m128i bytes) {
  const __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_set1_ps(factor), numbers));
}

// The same for 16 bytes.
void StoreScaled16(float* out, float factor, __m128i bytes) {
  StoreScaled(out, factor, bytes);
  StoreScaled(out + 8, factor, _mm_srli_si128(bytes, 8));
}

// (bytes >> shift) & mask, byte by byte.
__m256i Field(__m256i bytes, int shift, char mask) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(mask));
}

// All ones in the bytes that have bit `bit` set.
__m256i HasBit(__m256i bytes, int bit) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(1 << bit));
  return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);
}

// The 6-bit scales and minima of Q4_K and Q5_K, one byte each, as two numbers of 8 bytes.
struct ScalesAndMinima {
  uint64_t scales;
  uint64_t minima;
};

ScalesAndMinima LoadScalesAndMinima(const std::byte* packed) {
  uint32_t words[3];
  std::memcpy(words, packed, sizeof(words));
  const uint32_t first_scales = words[0] & 0x3f3f3f3f;
  const uint32_t first_minima = words[1] & 0x3f3f3f3f;
  const uint32_t last_scales = (words[2] & 0x0f0f0f0f) | (words[0] >> 2 & 0x30303030);
  const uint32_t last_minima = (words[2] >> 4 & 0x0f0f0f0f) | (words[1] >> 2 & 0x30303030);
  return {first_scales | uint64_t{last_scales} << 32, first_minima | uint64_t{last_minima} << 32};
}

// out[2g] = out[2g + 1] = factor * byte g.
void StoreScaledTwice(float* out, float factor, uint64_t bytes) {
  const __m128i eight = _mm_cvtsi64_si128(static_cast<int64_t>(bytes));
  StoreScaled16(out, factor, _mm_unpacklo_epi8(eight, eight));
}

void StoreQ4_KScales(const std::byte* block, float* scales, float* offsets) {
  const ScalesAndMinima packed = LoadScalesAndMinima(block + offsetof(BlockQ4_K, scales));
  StoreScaledTwice(scales, LoadHalf(block + offsetof(BlockQ4_K, d)), packed.scales);
  StoreScaledTwice(offsets, -LoadHalf(block + offsetof(BlockQ4_K, dmin)), packed.minima);
}

// The 6-bit scales of Q3_K less 32, one byte each.
__m128i LoadQ3_KScales(const std::byte* packed) {
  uint64_t low;
  uint32_t high;
  std::memcpy(&low, packed, sizeof(low));
  std::memcpy(&high, packed + sizeof(low), sizeof(high));
  const __m128i nibbles =
      _mm_and_si128(_mm_set_epi64x(static_cast<int64_t>(low >> 4), static_cast<int64_t>(low)),
                    _mm_set1_epi8(0x0f));
  // The two upper bits of groups 4 j to 4 j + 3 lie at bits 2 j of the four bytes; brought to bits
  // 4 and 5.
  const __m128i upper =
      _mm_and_si128(_mm_setr_epi32(static_cast<int>(high << 4), static_cast<int>(high << 2),
                                   static_cast<int>(high), static_cast<int>(high >> 2)),
                    _mm_set1_epi8(0x30));
  return _mm_sub_epi8(_mm_or_si128(nibbles, upper), _mm_set1_epi8(32));
}

}  // namespace

void UnpackQ2_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets) {
  for (; k > 0; k -= kBlock, row += sizeof(BlockQ2_K)) {
    const __m128i packed =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + offsetof(BlockQ2_K, scales)));
    const __m128i nibble = _mm_set1_epi8(0x0f);
    StoreScaled16(scales, LoadHalf(row + offsetof(BlockQ2_K, d)), _mm_and_si128(packed, nibble));
    StoreScaled16(offsets, -LoadHalf(row + offsetof(BlockQ2_K, dmin)),
                  _mm_and_si128(_mm_srli_epi16(packed, 4), nibble));
    for (int half = 0; half < 2; ++half) {
      const __m256i bytes = LoadBytes(row + offsetof(BlockQ2_K, qs) + 32 * half);
      for (int j = 0; j < 4; ++j) StoreQuants(quants + 128 * half + 32 * j, Field(bytes, 2 * j, 3));
    }
    quants += kBlock;
    scales += kBlock / kUnpackGroup;
    offsets += kBlock / kUnpackGroup;
  }
}

void UnpackQ3_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (; k > 0; k -= kBlock, row += sizeof(BlockQ3_K)) {
    StoreScaled16(scales, LoadHalf(row + offsetof(BlockQ3_K, d)),
                  LoadQ3_KScales(row + offsetof(BlockQ3_K, scales)));
    const __m256i upper = LoadBytes(row + offsetof(BlockQ3_K, hmask));
    for (int half = 0; half < 2; ++half) {
      const __m256i bytes = LoadBytes(row + offsetof(BlockQ3_K, qs) + 32 * half);
      for (int j = 0; j < 4; ++j) {
        const __m256i less_four =
            _mm256_andnot_si256(HasBit(upper, 4 * half + j), _mm256_set1_epi8(4));
        StoreQuants(quants + 128 * half + 32 * j,
                    _mm256_sub_epi8(Field(bytes, 2 * j, 3), less_four));
      }
    }
    quants += kBlock;
    scales += kBlock / kUnpackGroup;
  }
}

void UnpackQ4_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets) {
  for (; k > 0; k -= kBlock, row += sizeof(BlockQ4_K)) {
    StoreQ4_KScales(row, scales, offsets);
    for (int j = 0; j < 4; ++j) {
      const __m256i bytes = LoadBytes(row + offsetof(BlockQ4_K, qs) + 32 * j);
      StoreQuants(quants + 64 * j, Field(bytes, 0, 0x0f));
      StoreQuants(quants + 64 * j + 32, Field(bytes, 4, 0x0f));
    }
    quants += kBlock;
    scales += kBlock / kUnpackGroup;
    offsets += kBlock / kUnpackGroup;
  }
}

void UnpackQ5_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets) {
  static_assert(offsetof(BlockQ5_K, scales) == offsetof(BlockQ4_K, scales) &&
                offsetof(BlockQ5_K, dmin) == offsetof(BlockQ4_K, dmin));
  const __m256i sixteen = _mm256_set1_epi8(16);
  for (; k > 0; k -= kBlock, row += sizeof(BlockQ5_K)) {
    StoreQ4_KScales(row, scales, offsets);
    const __m256i fifth = LoadBytes(row + offsetof(BlockQ5_K, qh));
    for (int j = 0; j < 4; ++j) {
      const __m256i bytes = LoadBytes(row + offsetof(BlockQ5_K, qs) + 32 * j);
      StoreQuants(
          quants + 64 * j,
          _mm256_or_si256(Field(bytes, 0, 0x0f), _mm256_and_si256(HasBit(fifth, 2 * j), sixteen)));
      StoreQuants(quants + 64 * j + 32,
                  _mm256_or_si256(Field(bytes, 4, 0x0f),
                                  _mm256_and_si256(HasBit(fifth, 2 * j + 1), sixteen)));
    }
    quants += kBlock;
    scales += kBlock / kUnpackGroup;
    offsets += kBlock / kUnpackGroup;
  }
}

void UnpackQ6_K(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const __m256i middle = _mm256_set1_epi8(32);
  for (; k > 0; k -= kBlock, row += sizeof(BlockQ6_K)) {
    StoreScaled16(
        scales, LoadHalf(row + offsetof(BlockQ6_K, d)),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + offsetof(BlockQ6_K, scales))));
    for (int half = 0; half < 2; ++half) {
      const __m256i upper = LoadBytes(row + offsetof(BlockQ6_K, qh) + 32 * half);
      for (int j = 0; j < 4; ++j) {
        const std::byte* ql = row + offsetof(BlockQ6_K, ql) + 64 * half + 32 * (j % 2);
        const __m256i low = Field(LoadBytes(ql), 4 * (j / 2), 0x0f);
        const __m256i high = _mm256_slli_epi16(Field(upper, 2 * j, 3), 4);
        StoreQuants(quants + 128 * half + 32 * j,
                    _mm256_sub_epi8(_mm256_or_si256(low, high), middle));
      }
    }
    quants += kBlock;
    scales += kBlock / kUnpackGroup;
  }
}

}  // namespace thaw::avx2
