// Unpackers of the types in blocks of 32 or 64 and of IQ4_XS in AVX2, and the choice among all of
// them. The formats are described in tensor/blocks.h. See avx2.h for what may be called here.
#include "kernels/x86/unpack_avx2.h"

#include "kernels/codebooks.h"
#include "kernels/x86/avx2.h"
#include "tensor/blocks.h"

namespace thaw::avx2 {
namespace {

// Sixteen bytes as 32 numbers: the low nibbles, then the high ones.
__m256i Nibbles(const std::byte* qs) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(qs));
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
  return _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
}

// Bit i of the 32-bit number at `qh` as bit 4 of byte i.
__m256i FifthBits(const std::byte* qh) {
  uint32_t bits;
  std::memcpy(&bits, qh, sizeof(bits));
  return _mm256_and_si256(BytesFromBits(bits), _mm256_set1_epi8(0x10));
}

// The number that each nibble stands for in a table of 16.
__m256i LookUp(__m256i nibbles, const void* table) {
  const __m128i levels = _mm_loadu_si128(static_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), nibbles);
}

// Blocks that begin with d, and with m where there are offsets.
void StoreScale(const std::byte* block, float* scales) { StorePair(scales, LoadHalf(block)); }

void StoreScaleAndMinimum(const std::byte* block, float* scales, float* offsets) {
  StorePair(scales, LoadHalf(block));
  StorePair(offsets, LoadHalf(block + 2));
}

void UnpackQ4_0(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockQ4_0)) {
    const __m256i q = Nibbles(row + offsetof(BlockQ4_0, qs));
    StoreQuants(quants + i, _mm256_sub_epi8(q, _mm256_set1_epi8(8)));
    StoreScale(row, scales + i / kUnpackGroup);
  }
}

void UnpackQ4_1(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockQ4_1)) {
    StoreQuants(quants + i, Nibbles(row + offsetof(BlockQ4_1, qs)));
    StoreScaleAndMinimum(row, scales + i / kUnpackGroup, offsets + i / kUnpackGroup);
  }
}

void UnpackQ5_0(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockQ5_0)) {
    const __m256i q = _mm256_or_si256(Nibbles(row + offsetof(BlockQ5_0, qs)),
                                      FifthBits(row + offsetof(BlockQ5_0, qh)));
    StoreQuants(quants + i, _mm256_sub_epi8(q, _mm256_set1_epi8(16)));
    StoreScale(row, scales + i / kUnpackGroup);
  }
}

void UnpackQ5_1(const std::byte* row, int64_t k, int8_t* quants, float* scales, float* offsets) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockQ5_1)) {
    StoreQuants(quants + i, _mm256_or_si256(Nibbles(row + offsetof(BlockQ5_1, qs)),
                                            FifthBits(row + offsetof(BlockQ5_1, qh))));
    StoreScaleAndMinimum(row, scales + i / kUnpackGroup, offsets + i / kUnpackGroup);
  }
}

void UnpackQ8_0(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockQ8_0)) {
    StoreQuants(quants + i, LoadBytes(row + offsetof(BlockQ8_0, qs)));
    StoreScale(row, scales + i / kUnpackGroup);
  }
}

void UnpackIQ4_NL(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockIQ4_NL)) {
    StoreQuants(quants + i, LookUp(Nibbles(row + offsetof(BlockIQ4_NL, qs)), &kIQ4Values));
    StoreScale(row, scales + i / kUnpackGroup);
  }
}

void UnpackIQ4_XS(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 256, row += sizeof(BlockIQ4_XS)) {
    BlockIQ4_XS block;  // only the scales are read from it
    std::memcpy(&block, row, offsetof(BlockIQ4_XS, qs));
    const float d = LoadHalf(row);
    for (int g = 0; g < 8; ++g) {
      const int low = block.scales_l[g / 2] >> (4 * (g % 2)) & 0x0f;
      const int high = block.scales_h >> (2 * g) & 3;
      StorePair(scales + i / kUnpackGroup + 2 * g, d * static_cast<float>((low | high << 4) - 32));
      StoreQuants(quants + i + 32 * g,
                  LookUp(Nibbles(row + offsetof(BlockIQ4_XS, qs) + 16 * g), &kIQ4Values));
    }
  }
}

void UnpackMXFP4(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 32, row += sizeof(BlockMXFP4)) {
    StoreQuants(quants + i, LookUp(Nibbles(row + offsetof(BlockMXFP4, qs)), &kDoubledE2M1Values));
    // As HalvedE8M0ToF32 in tensor/half.h.
    const auto code = static_cast<uint32_t>(*row);
    const uint32_t bits = code < 2 ? 0x00200000u << code : (code - 1) << 23;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    StorePair(scales + i / kUnpackGroup, scale);
  }
}

// As HalvedUE4M3ToF32 in tensor/half.h.
float HalvedUE4M3(uint32_t code) {
  if (code == 0x7f) return 0.0f;
  const uint32_t exponent = code >> 3 & 0x0f;
  const uint32_t mantissa = code & 0x07;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  const uint32_t bits = (exponent - 7 - 1 + 127) << 23 | mantissa << 20;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void UnpackNVFP4(const std::byte* row, int64_t k, int8_t* quants, float* scales, float*) {
  for (int64_t i = 0; i < k; i += 64, row += sizeof(BlockNVFP4)) {
    const __m256i bytes = LoadBytes(row + offsetof(BlockNVFP4, qs));
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    const __m256i low = _mm256_and_si256(bytes, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
    // Eight bytes make a group: its low nibbles, then its high ones.
    const __m256i groups_0_2 = _mm256_unpacklo_epi64(low, high);
    const __m256i groups_1_3 = _mm256_unpackhi_epi64(low, high);
    StoreQuants(quants + i, LookUp(_mm256_permute2x128_si256(groups_0_2, groups_1_3, 0x20),
                                   &kDoubledE2M1Values));
    StoreQuants(quants + i + 32, LookUp(_mm256_permute2x128_si256(groups_0_2, groups_1_3, 0x31),
                                        &kDoubledE2M1Values));
    for (int g = 0; g < 4; ++g) {
      scales[i / kUnpackGroup + g] = HalvedUE4M3(static_cast<uint32_t>(row[g]));
    }
  }
}

}  // namespace

UnpackRowFunction FindUnpacker(ElementType type) {
  switch (type) {
    case ElementType::kQ4_0:
      return UnpackQ4_0;
    case ElementType::kQ4_1:
      return UnpackQ4_1;
    case ElementType::kQ5_0:
      return UnpackQ5_0;
    case ElementType::kQ5_1:
      return UnpackQ5_1;
    case ElementType::kQ8_0:
      return UnpackQ8_0;
    case ElementType::kQ2_K:
      return UnpackQ2_K;
    case ElementType::kQ3_K:
      return UnpackQ3_K;
    case ElementType::kQ4_K:
      return UnpackQ4_K;
    case ElementType::kQ5_K:
      return UnpackQ5_K;
    case ElementType::kQ6_K:
      return UnpackQ6_K;
    case ElementType::kIQ4_NL:
      return UnpackIQ4_NL;
    case ElementType::kIQ4_XS:
      return UnpackIQ4_XS;
    case ElementType::kMXFP4:
      return UnpackMXFP4;
    case ElementType::kNVFP4:
      return UnpackNVFP4;
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
