#include <array>

#include "kernels/unpack_block.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

void UnpackQ2_K(const BlockQ2_K& block, int8_t* quants, float* scales, float* offsets) {
  SplitTwoBits(block.qs, quants);
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int group = 0; group < 16; ++group) {
    scales[group] = d * static_cast<float>(block.scales[group] & 0x0f);
    offsets[group] = -(dmin * static_cast<float>(block.scales[group] >> 4));
  }
}

void UnpackQ3_K(const BlockQ3_K& block, int8_t* quants, float* scales) {
  SplitTwoBits(block.qs, quants);
  for (int run = 0; run < 8; ++run) {
    for (int j = 0; j < 32; ++j) {
      const int high_bit = block.hmask[j] >> run & 1;
      quants[32 * run + j] = static_cast<int8_t>((quants[32 * run + j] | high_bit << 2) - 4);
    }
  }
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 16; ++group) {
    const int low = block.scales[group % 8] >> (4 * (group / 8)) & 0x0f;
    const int high = block.scales[8 + group % 4] >> (2 * (group / 4)) & 0x03;
    scales[group] = d * static_cast<float>((low | high << 4) - 32);
  }
}

// The scales and offsets of the eight groups of 32 of a Q4_K or Q5_K block.
template <typename Block>
void UnpackSixBitScales(const Block& block, float* scales, float* offsets) {
  const uint8_t(&packed)[12] = block.scales;
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    int scale = packed[group] & 0x3f;
    int minimum = packed[group + 4] & 0x3f;
    if (group >= 4) {
      scale = (packed[group + 4] & 0x0f) | packed[group - 4] >> 6 << 4;
      minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    }
    std::fill_n(scales + 2 * group, 2, d * static_cast<float>(scale));
    std::fill_n(offsets + 2 * group, 2, -(dmin * static_cast<float>(minimum)));
  }
}

void UnpackQ4_K(const BlockQ4_K& block, int8_t* quants, float* scales, float* offsets) {
  for (int pair = 0; pair < 4; ++pair) {
    SplitNibbles(block.qs + 32 * pair, 32, quants + 64 * pair);
  }
  UnpackSixBitScales(block, scales, offsets);
}

void UnpackQ5_K(const BlockQ5_K& block, int8_t* quants, float* scales, float* offsets) {
  for (int pair = 0; pair < 4; ++pair) {
    SplitNibbles(block.qs + 32 * pair, 32, quants + 64 * pair);
  }
  for (int run = 0; run < 8; ++run) {
    for (int j = 0; j < 32; ++j) {
      quants[32 * run + j] |= static_cast<int8_t>((block.qh[j] >> run & 1) << 4);
    }
  }
  UnpackSixBitScales(block, scales, offsets);
}

void UnpackQ6_K(const BlockQ6_K& block, int8_t* quants, float* scales) {
  for (int half = 0; half < 2; ++half) {
    SplitNibbles(block.ql + 64 * half, 64, quants + 128 * half);
  }
  int8_t high_bits[256];
  SplitTwoBits(block.qh, high_bits);
  for (int i = 0; i < 256; ++i) {
    quants[i] = static_cast<int8_t>((quants[i] | high_bits[i] << 4) - 32);
  }
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 16; ++group) {
    scales[group] = d * static_cast<float>(block.scales[group]);
  }
}

void UnpackIQ4_XS(const BlockIQ4_XS& block, int8_t* quants, float* scales) {
  const float d = F16ToF32(block.d);
  for (int group = 0; group < 8; ++group) {
    LookUpNibbles(block.qs + 16 * group, 16, kIQ4Values, quants + 32 * group);
    const int low = NibbleAt(block.scales_l, group);
    const int high = block.scales_h >> (2 * group) & 0x03;
    std::fill_n(scales + 2 * group, 2, d * static_cast<float>((low | high << 4) - 32));
  }
}

constexpr auto kKQuantUnpackers = std::to_array<RowUnpacker>({
    {ElementType::kQ2_K, true, UnpackRowWithOffsets<BlockQ2_K, UnpackQ2_K>},
    {ElementType::kQ3_K, false, UnpackRow<BlockQ3_K, UnpackQ3_K>},
    {ElementType::kQ4_K, true, UnpackRowWithOffsets<BlockQ4_K, UnpackQ4_K>},
    {ElementType::kQ5_K, true, UnpackRowWithOffsets<BlockQ5_K, UnpackQ5_K>},
    {ElementType::kQ6_K, false, UnpackRow<BlockQ6_K, UnpackQ6_K>},
    {ElementType::kIQ4_XS, false, UnpackRow<BlockIQ4_XS, UnpackIQ4_XS>},
});

}  // namespace

std::span<const RowUnpacker> KQuantUnpackers() { return kKQuantUnpackers; }

}  // namespace thaw
