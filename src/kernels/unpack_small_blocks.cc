#include <array>
#include <cstring>

#include "kernels/unpack_block.h"
#include "tensor/blocks.h"
#include "tensor/codebooks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

void UnpackQ4_0(const BlockQ4_0& block, int8_t* quants, float* scales) {
  SplitNibbles(block.qs, 16, quants);
  for (int j = 0; j < 32; ++j) quants[j] -= 8;
  std::fill_n(scales, 2, F16ToF32(block.d));
}

void UnpackQ4_1(const BlockQ4_1& block, int8_t* quants, float* scales, float* offsets) {
  SplitNibbles(block.qs, 16, quants);
  std::fill_n(scales, 2, F16ToF32(block.d));
  std::fill_n(offsets, 2, F16ToF32(block.m));
}

// quants[j] = 5-bit quant - bias, for the 32 elements of a Q5_0 or Q5_1 block.
void UnpackFiveBits(const uint8_t (&qs)[16], const uint8_t (&qh)[4], int8_t bias, int8_t* quants) {
  uint32_t high_bits;
  std::memcpy(&high_bits, qh, sizeof(high_bits));
  for (int j = 0; j < 16; ++j, high_bits >>= 1) {
    quants[j] = static_cast<int8_t>(((qs[j] & 0x0f) | (high_bits << 4 & 0x10)) - bias);
    quants[j + 16] = static_cast<int8_t>((qs[j] >> 4 | (high_bits >> 12 & 0x10)) - bias);
  }
}

void UnpackQ5_0(const BlockQ5_0& block, int8_t* quants, float* scales) {
  UnpackFiveBits(block.qs, block.qh, 16, quants);
  std::fill_n(scales, 2, F16ToF32(block.d));
}

void UnpackQ5_1(const BlockQ5_1& block, int8_t* quants, float* scales, float* offsets) {
  UnpackFiveBits(block.qs, block.qh, 0, quants);
  std::fill_n(scales, 2, F16ToF32(block.d));
  std::fill_n(offsets, 2, F16ToF32(block.m));
}

void UnpackQ8_0(const BlockQ8_0& block, int8_t* quants, float* scales) {
  std::copy_n(block.qs, 32, quants);
  std::fill_n(scales, 2, F16ToF32(block.d));
}

void UnpackIQ4_NL(const BlockIQ4_NL& block, int8_t* quants, float* scales) {
  LookUpNibbles(block.qs, 16, kIQ4Values, quants);
  std::fill_n(scales, 2, F16ToF32(block.d));
}

void UnpackMXFP4(const BlockMXFP4& block, int8_t* quants, float* scales) {
  LookUpNibbles(block.qs, 16, kDoubledE2M1Values, quants);
  std::fill_n(scales, 2, HalvedE8M0ToF32(block.e));
}

void UnpackNVFP4(const BlockNVFP4& block, int8_t* quants, float* scales) {
  for (int group = 0; group < 4; ++group) {
    LookUpNibbles(block.qs + 8 * group, 8, kDoubledE2M1Values, quants + 16 * group);
    scales[group] = HalvedUE4M3ToF32(block.d[group]);
  }
}

constexpr auto kSmallBlockUnpackers = std::to_array<RowUnpacker>({
    {ElementType::kQ4_0, false, UnpackRow<BlockQ4_0, UnpackQ4_0>},
    {ElementType::kQ4_1, true, UnpackRowWithOffsets<BlockQ4_1, UnpackQ4_1>},
    {ElementType::kQ5_0, false, UnpackRow<BlockQ5_0, UnpackQ5_0>},
    {ElementType::kQ5_1, true, UnpackRowWithOffsets<BlockQ5_1, UnpackQ5_1>},
    {ElementType::kQ8_0, false, UnpackRow<BlockQ8_0, UnpackQ8_0>},
    {ElementType::kIQ4_NL, false, UnpackRow<BlockIQ4_NL, UnpackIQ4_NL>},
    {ElementType::kMXFP4, false, UnpackRow<BlockMXFP4, UnpackMXFP4>},
    {ElementType::kNVFP4, false, UnpackRow<BlockNVFP4, UnpackNVFP4>},
});

}  // namespace

std::span<const RowUnpacker> SmallBlockUnpackers() { return kSmallBlockUnpackers; }

}  // namespace thaw
