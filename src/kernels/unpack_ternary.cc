#include <array>

#include "kernels/unpack_block.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// Writes digits 0 to n_digits - 1 of n_bytes bytes, each less 1: digit n of byte j is
// quants[n * n_bytes + j].
void SplitTernaryDigits(const uint8_t* bytes, int n_bytes, int n_digits, int8_t* quants) {
  uint32_t power = 1;
  for (int digit = 0; digit < n_digits; ++digit, power *= 3) {
    for (int j = 0; j < n_bytes; ++j) {
      const auto fraction = static_cast<uint8_t>(bytes[j] * power);
      quants[digit * n_bytes + j] = static_cast<int8_t>((fraction * 3 >> 8) - 1);
    }
  }
}

void UnpackTQ1_0(const BlockTQ1_0& block, int8_t* quants, float* scales) {
  SplitTernaryDigits(block.qs, 32, 5, quants);
  SplitTernaryDigits(block.qs + 32, 16, 5, quants + 160);
  SplitTernaryDigits(block.qh, 4, 4, quants + 240);
  std::fill_n(scales, 16, F16ToF32(block.d));
}

void UnpackTQ2_0(const BlockTQ2_0& block, int8_t* quants, float* scales) {
  SplitTwoBits(block.qs, quants);
  for (int i = 0; i < 256; ++i) quants[i] -= 1;
  std::fill_n(scales, 16, F16ToF32(block.d));
}

constexpr auto kTernaryUnpackers = std::to_array<RowUnpacker>({
    {ElementType::kTQ1_0, false, UnpackRow<BlockTQ1_0, UnpackTQ1_0>},
    {ElementType::kTQ2_0, false, UnpackRow<BlockTQ2_0, UnpackTQ2_0>},
});

}  // namespace

std::span<const RowUnpacker> TernaryUnpackers() { return kTernaryUnpackers; }

}  // namespace thaw
