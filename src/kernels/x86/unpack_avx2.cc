// Unpackers of the types that look points up in a grid, in AVX2. The formats are described in
// tensor/blocks.h, the grids are those of kernels/codebooks.h. See avx2.h for what may be called
// here.
//
// The points are loaded one by one (a vector gather is no faster than 4 or 8 loads); signs and
// scales are applied to 32 elements at a time.
#include "kernels/codebooks.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/vector_avx2.h"
#include "tensor/blocks.h"

namespace thaw::avx2 {
namespace {

constexpr int64_t kBlock = 256;

void StoreQuants(int8_t* p, __m256i quants) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), quants);
}

// A half-precision number at any address.
float LoadHalf(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// One scale for both groups of 32 elements.
void StorePair(float* out, float value) {
  out[0] = value;
  out[1] = value;
}

// Byte i all ones where bit i is set.
__m256i BytesFromBits(uint32_t bits) {
  // Each byte of the number to the eight bytes that its bits belong to, then one bit from each.
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int32_t>(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

int64_t Point8(const GridPoint8* grid, uint32_t index) {
  int64_t point;
  std::memcpy(&point, grid + index, sizeof(point));
  return point;
}

int32_t Point4(const GridPoint4* grid, uint32_t index) {
  int32_t point;
  std::memcpy(&point, grid + index, sizeof(point));
  return point;
}

const GridPoint8* First(const void* grid) { return static_cast<const GridPoint8*>(grid); }
const GridPoint4* First4(const void* grid) { return static_cast<const GridPoint4*>(grid); }

// Element i negated where bit i of `signs` is set.
__m256i WithSigns(__m256i elements, uint32_t signs) {
  const __m256i mask = BytesFromBits(signs);
  return _mm256_sub_epi8(_mm256_xor_si256(elements, mask), mask);
}

// The byte of signs whose number of set bits is even, from its seven lower bits.
uint32_t WithParity(uint32_t seven_bits) {
  return seven_bits | static_cast<uint32_t>(__builtin_parity(seven_bits)) << 7;
}

// The four bytes of signs in the lower 28 bits of a word.
uint32_t FourSigns(uint32_t word) {
  return WithParity(word & 0x7f) | WithParity(word >> 7 & 0x7f) << 8 |
         WithParity(word >> 14 & 0x7f) << 16 | WithParity(word >> 21 & 0x7f) << 24;
}

// out[g] = d * (0.5 + nibble g) / 4 for the 16 groups of IQ2_XS and IQ2_S.
void StoreIQ2Scales(float* out, float d, const uint8_t* nibbles) {
  int64_t packed;
  std::memcpy(&packed, nibbles, sizeof(packed));
  const __m128i low = _mm_set1_epi8(0x0f);
  const __m128i bytes = _mm_unpacklo_epi8(_mm_and_si128(_mm_cvtsi64_si128(packed), low),
                                          _mm_and_si128(_mm_cvtsi64_si128(packed >> 4), low));
  for (int half = 0; half < 2; ++half) {
    const __m128i eight = half == 0 ? bytes : _mm_srli_si128(bytes, 8);
    const __m256 scale =
        _mm256_add_ps(_mm256_set1_ps(0.5f), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
    _mm256_storeu_ps(out + 8 * half,
                     _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(d), scale), _mm256_set1_ps(0.25f)));
  }
}

// Eight times elements of -1, 0 or 1. The shift moves bits between neighbours, which the mask
// clears.
__m256i TimesEight(__m256i elements) {
  return _mm256_and_si256(_mm256_slli_epi16(elements, 3),
                          _mm256_set1_epi8(static_cast<char>(0xf8)));
}

void UnpackIQ2_XXS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint8* grid = First(&kIQ2_XXSGrid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ2_XXS)) {
    BlockIQ2_XXS block;
    std::memcpy(&block, row, sizeof(block));
    const float d = LoadHalf(row);
    for (const auto& [points, signs_and_scale] : block.groups) {
      uint32_t word;
      std::memcpy(&word, signs_and_scale, sizeof(word));
      const __m256i q = _mm256_setr_epi64x(Point8(grid, points[0]), Point8(grid, points[1]),
                                           Point8(grid, points[2]), Point8(grid, points[3]));
      StoreQuants(quants, WithSigns(q, FourSigns(word)));
      StorePair(scales, d * (0.5f + static_cast<float>(word >> 28)) * 0.25f);
      quants += 32;
      scales += 2;
    }
  }
}

void UnpackIQ2_XS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint8* grid = First(&kIQ2_XSGrid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ2_XS)) {
    BlockIQ2_XS block;
    std::memcpy(&block, row, sizeof(block));
    StoreIQ2Scales(scales, LoadHalf(row), block.scales);
    scales += kBlock / kUnpackGroup;
    for (int g = 0; g < 8; ++g, quants += 32) {
      const uint16_t* qs = block.qs + 4 * g;
      const __m256i q =
          _mm256_setr_epi64x(Point8(grid, qs[0] & 0x1ff), Point8(grid, qs[1] & 0x1ff),
                             Point8(grid, qs[2] & 0x1ff), Point8(grid, qs[3] & 0x1ff));
      const uint32_t signs = WithParity(qs[0] >> 9) | WithParity(qs[1] >> 9) << 8 |
                             WithParity(qs[2] >> 9) << 16 | WithParity(qs[3] >> 9) << 24;
      StoreQuants(quants, WithSigns(q, signs));
    }
  }
}

void UnpackIQ2_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint8* grid = First(&kIQ2_SGrid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ2_S)) {
    BlockIQ2_S block;
    std::memcpy(&block, row, sizeof(block));
    StoreIQ2Scales(scales, LoadHalf(row), block.scales);
    scales += kBlock / kUnpackGroup;
    for (int g = 0; g < 8; ++g, quants += 32) {
      const uint8_t* qs = block.qs + 4 * g;
      const uint32_t high = static_cast<uint32_t>(block.qh[g]) << 8;
      const __m256i q = _mm256_setr_epi64x(
          Point8(grid, qs[0] | (high & 0x300)), Point8(grid, qs[1] | (high >> 2 & 0x300)),
          Point8(grid, qs[2] | (high >> 4 & 0x300)), Point8(grid, qs[3] | (high >> 6 & 0x300)));
      uint32_t signs;
      std::memcpy(&signs, block.signs + 4 * g, sizeof(signs));
      StoreQuants(quants, WithSigns(q, signs));
    }
  }
}

void UnpackIQ3_XXS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint4* grid = First4(&kIQ3_XXSGrid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ3_XXS)) {
    BlockIQ3_XXS block;
    std::memcpy(&block, row, sizeof(block));
    const float d = LoadHalf(row);
    for (int g = 0; g < 8; ++g, quants += 32, scales += 2) {
      const uint8_t* qs = block.qs + 8 * g;
      uint32_t word;
      std::memcpy(&word, block.signs_and_scale[g], sizeof(word));
      const __m256i q = _mm256_setr_epi32(
          Point4(grid, qs[0]), Point4(grid, qs[1]), Point4(grid, qs[2]), Point4(grid, qs[3]),
          Point4(grid, qs[4]), Point4(grid, qs[5]), Point4(grid, qs[6]), Point4(grid, qs[7]));
      StoreQuants(quants, WithSigns(q, FourSigns(word)));
      StorePair(scales, d * (0.5f + static_cast<float>(word >> 28)) * 0.5f);
    }
  }
}

void UnpackIQ3_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint4* grid = First4(&kIQ3_SGrid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ3_S)) {
    BlockIQ3_S block;
    std::memcpy(&block, row, sizeof(block));
    const float d = LoadHalf(row);
    for (int g = 0; g < 8; ++g, quants += 32, scales += 2) {
      const uint8_t* qs = block.qs + 8 * g;
      const uint32_t high = static_cast<uint32_t>(block.qh[g]) << 8;  // point j's is bit 8 + j
      const __m256i q = _mm256_setr_epi32(
          Point4(grid, qs[0] | (high & 0x100)), Point4(grid, qs[1] | (high >> 1 & 0x100)),
          Point4(grid, qs[2] | (high >> 2 & 0x100)), Point4(grid, qs[3] | (high >> 3 & 0x100)),
          Point4(grid, qs[4] | (high >> 4 & 0x100)), Point4(grid, qs[5] | (high >> 5 & 0x100)),
          Point4(grid, qs[6] | (high >> 6 & 0x100)), Point4(grid, qs[7] | (high >> 7 & 0x100)));
      uint32_t signs;
      std::memcpy(&signs, block.signs + 4 * g, sizeof(signs));
      StoreQuants(quants, WithSigns(q, signs));
      const int scale = 1 + 2 * (block.scales[g / 2] >> (4 * (g % 2)) & 0x0f);
      StorePair(scales, d * static_cast<float>(scale));
    }
  }
}

// IQ1 elements are -1, 0 or 1, plus or minus 1/8; eight times that, under an eighth of the scale.
void UnpackIQ1_S(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint8* grid = First(&kIQ1Grid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ1_S)) {
    BlockIQ1_S block;
    std::memcpy(&block, row, sizeof(block));
    const float d = LoadHalf(row);
    for (int g = 0; g < 8; ++g, quants += 32, scales += 2) {
      const uint8_t* qs = block.qs + 4 * g;
      const uint32_t qh = block.qh[g];
      const __m256i q = _mm256_setr_epi64x(
          Point8(grid, qs[0] | (qh << 8 & 0x700)), Point8(grid, qs[1] | (qh << 5 & 0x700)),
          Point8(grid, qs[2] | (qh << 2 & 0x700)), Point8(grid, qs[3] | (qh >> 1 & 0x700)));
      const __m256i delta = _mm256_set1_epi8((qh & 0x8000) != 0 ? -1 : 1);
      StoreQuants(quants, _mm256_add_epi8(TimesEight(q), delta));
      StorePair(scales, d * static_cast<float>(1 + 2 * (qh >> 12 & 7)) * 0.125f);
    }
  }
}

void UnpackIQ1_M(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  const GridPoint8* grid = First(&kIQ1Grid);
  for (; k > 0; k -= kBlock, row += sizeof(BlockIQ1_M)) {
    BlockIQ1_M block;
    std::memcpy(&block, row, sizeof(block));
    const uint32_t d_bits = block.scales[0] >> 12 | (block.scales[1] >> 12) << 4 |
                            (block.scales[2] >> 12) << 8 | (block.scales[3] >> 12) << 12;
    const float d = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(d_bits))));
    for (int g = 0; g < 8; ++g, quants += 32) {
      const uint8_t* qs = block.qs + 4 * g;
      // Four nibbles: three high bits of a point's index and the sign of its delta.
      const uint32_t qh = block.qh[2 * g] | static_cast<uint32_t>(block.qh[2 * g + 1]) << 8;
      const __m256i q = _mm256_setr_epi64x(
          Point8(grid, qs[0] | (qh << 8 & 0x700)), Point8(grid, qs[1] | (qh << 4 & 0x700)),
          Point8(grid, qs[2] | (qh & 0x700)), Point8(grid, qs[3] | (qh >> 4 & 0x700)));
      const __m256i bits = _mm256_setr_epi64x(0x0008, 0x0080, 0x0800, 0x8000);
      const __m256i is_negative = _mm256_cmpeq_epi64(
          _mm256_and_si256(_mm256_set1_epi64x(static_cast<int64_t>(qh)), bits), bits);
      const __m256i delta = _mm256_or_si256(is_negative, _mm256_set1_epi8(1));
      StoreQuants(quants, _mm256_add_epi8(TimesEight(q), delta));
    }
    for (int group = 0; group < 16; ++group) {
      const int scale = 1 + 2 * (block.scales[group / 4] >> (3 * (group % 4)) & 7);
      *scales++ = d * static_cast<float>(scale) * 0.125f;
    }
  }
}

}  // namespace

UnpackRowFunction FindUnpacker(ElementType type) {
  switch (type) {
    case ElementType::kIQ1_S:
      return UnpackIQ1_S;
    case ElementType::kIQ1_M:
      return UnpackIQ1_M;
    case ElementType::kIQ2_XXS:
      return UnpackIQ2_XXS;
    case ElementType::kIQ2_XS:
      return UnpackIQ2_XS;
    case ElementType::kIQ2_S:
      return UnpackIQ2_S;
    case ElementType::kIQ3_XXS:
      return UnpackIQ3_XXS;
    case ElementType::kIQ3_S:
      return UnpackIQ3_S;
    default:
      return nullptr;
  }
}

}  // namespace thaw::avx2
