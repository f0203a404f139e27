#include "engine/random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "codec/stream_encoder.h"
#include "kernels/dequantize.h"
#include "kernels/kernel_table.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

enum class ScaleEncoding { kHalf, kE8M0, kUE4M3, kHalfInNibbles };

// Where the scales of a block lie.
struct ScaleLayout {
  ElementType type;
  ScaleEncoding encoding;
  size_t offset;             // of the first
  size_t count = 1;          // one after another
  size_t minima_offset = 0;  // of the F16 that scales what is added or subtracted
  // That F16 in units of the first: the mean of what the first multiplies, so that the mean of the
  // weights is zero. 0: the type has none.
  float minima_ratio = 0;
};

using enum ElementType;
using enum ScaleEncoding;

// The means are those of uniform q of 4, 5 or 2 bits: 7.5, 15.5 and 1.5. In the K-quants, d
// multiplies s * q and dmin multiplies m, and s and m have the same mean.
constexpr ScaleLayout kLayouts[] = {
    {kQ4_0, kHalf, offsetof(BlockQ4_0, d)},
    {kQ4_1, kHalf, offsetof(BlockQ4_1, d), 1, offsetof(BlockQ4_1, m), -7.5f},
    {kQ5_0, kHalf, offsetof(BlockQ5_0, d)},
    {kQ5_1, kHalf, offsetof(BlockQ5_1, d), 1, offsetof(BlockQ5_1, m), -15.5f},
    {kQ8_0, kHalf, offsetof(BlockQ8_0, d)},
    {kQ2_K, kHalf, offsetof(BlockQ2_K, d), 1, offsetof(BlockQ2_K, dmin), 1.5f},
    {kQ3_K, kHalf, offsetof(BlockQ3_K, d)},
    {kQ4_K, kHalf, offsetof(BlockQ4_K, d), 1, offsetof(BlockQ4_K, dmin), 7.5f},
    {kQ5_K, kHalf, offsetof(BlockQ5_K, d), 1, offsetof(BlockQ5_K, dmin), 15.5f},
    {kQ6_K, kHalf, offsetof(BlockQ6_K, d)},
    {kIQ2_XXS, kHalf, offsetof(BlockIQ2_XXS, d)},
    {kIQ2_XS, kHalf, offsetof(BlockIQ2_XS, d)},
    {kIQ3_XXS, kHalf, offsetof(BlockIQ3_XXS, d)},
    {kIQ1_S, kHalf, offsetof(BlockIQ1_S, d)},
    {kIQ4_NL, kHalf, offsetof(BlockIQ4_NL, d)},
    {kIQ3_S, kHalf, offsetof(BlockIQ3_S, d)},
    {kIQ2_S, kHalf, offsetof(BlockIQ2_S, d)},
    {kIQ4_XS, kHalf, offsetof(BlockIQ4_XS, d)},
    {kIQ1_M, kHalfInNibbles, offsetof(BlockIQ1_M, scales)},
    {kTQ1_0, kHalf, offsetof(BlockTQ1_0, d)},
    {kTQ2_0, kHalf, offsetof(BlockTQ2_0, d)},
    {kMXFP4, kE8M0, offsetof(BlockMXFP4, e)},
    {kNVFP4, kUE4M3, offsetof(BlockNVFP4, d), sizeof(BlockNVFP4::d)},
    {kThawedIQ2_XXS, kHalf, offsetof(BlockThawedIQ2_XXS, d)},
    {kThawedIQ2_S, kHalf, offsetof(BlockThawedIQ2_S, d)},
    {kThawedIQ3_XXS, kHalf, offsetof(BlockThawedIQ3_XXS, d)},
    {kThawedIQ3_S, kHalf, offsetof(BlockThawedIQ3_S, d)},
    {kThawedIQ1_S, kHalf, offsetof(BlockThawedIQ1_S, d)},
    {kThawedIQ1_M, kHalf, offsetof(BlockThawedIQ1_M, d)},
};

const ScaleLayout& LayoutOf(ElementType type) {
  const auto* const layout = std::ranges::find(kLayouts, type, &ScaleLayout::type);
  THAW_CHECK(layout != std::end(kLayouts));
  return *layout;
}

// The code, 1 to `last`, whose decoded value is nearest to `value`. 0 would silence a whole group.
template <typename Decode>
uint16_t NearestCode(double value, int last, Decode decode) {
  int nearest = 1;
  for (int code = 2; code <= last; ++code) {
    const auto distance = [&](int c) { return std::abs(decode(static_cast<uint8_t>(c)) - value); };
    if (distance(code) < distance(nearest)) nearest = code;
  }
  return static_cast<uint16_t>(nearest);
}

uint16_t EncodeScale(ScaleEncoding encoding, double value) {
  switch (encoding) {
    case kHalf:
    case kHalfInNibbles:
      return F32ToF16(static_cast<float>(value));
    case kE8M0:  // up to the last that is a power of two
      return NearestCode(std::abs(value), 0xfe, HalvedE8M0ToF32);
    case kUE4M3:  // up to the last that is no NaN
      return NearestCode(std::abs(value), 0x7e, HalvedUE4M3ToF32);
  }
  THAW_CHECK(false);
}

// Replaces the scales of a block, each by what `scales` has for the byte that lies there.
void SetScales(const ScaleLayout& layout, std::span<const uint16_t, 256> scales,
               std::span<const uint16_t, 256> minima, std::byte* block) {
  std::byte* first = block + layout.offset;
  const auto drawn = static_cast<size_t>(*first);
  switch (layout.encoding) {
    case kHalf:
      std::memcpy(first, &scales[drawn], sizeof(uint16_t));
      if (layout.minima_ratio != 0) {
        std::memcpy(block + layout.minima_offset, &minima[drawn], sizeof(uint16_t));
      }
      return;
    case kE8M0:
    case kUE4M3:
      for (size_t i = 0; i < layout.count; ++i) {
        first[i] = static_cast<std::byte>(scales[static_cast<size_t>(first[i])]);
      }
      return;
    case kHalfInNibbles:
      for (size_t i = 0; i < 4; ++i) {
        std::byte& high = first[2 * i + 1];
        high = (high & std::byte{0x0f}) |
               static_cast<std::byte>((scales[drawn] >> (4 * i) & 0x0f) << 4);
      }
      return;
  }
}

void FillBytes(SplitMix64& random, std::span<std::byte> out) {
  while (out.size() >= sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(out.data(), &word, sizeof(word));
    out = out.subspan(sizeof(word));
  }
  const uint64_t word = random.Next();
  std::memcpy(out.data(), &word, out.size());
}

// The standard deviation of weights in random blocks whose scales are all 1, from 64 of them.
double DeviationAtUnitScale(const ScaleLayout& layout) {
  const ElementTypeInfo& info = Info(layout.type);
  constexpr size_t kBlocks = 64;
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  std::array<uint16_t, 256> ones;
  std::array<uint16_t, 256> minima;
  ones.fill(EncodeScale(layout.encoding, 1));
  minima.fill(F32ToF16(layout.minima_ratio));
  std::vector<std::byte> blocks(kBlocks * block_bytes);
  SplitMix64 random(0);
  FillBytes(random, blocks);
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    SetScales(layout, ones, minima, &blocks[at]);
  }
  std::vector<float> values(kBlocks * static_cast<size_t>(info.block_elements));
  THAW_CHECK(Dequantize(layout.type, blocks, values));
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

RandomWeights::RandomWeights(ElementType type, double deviation, uint64_t seed)
    : type_(type), deviation_(deviation), random_(seed) {
  THAW_CHECK(CanMultiply(type));
  if (!Info(type).is_quantized) return;
  const ScaleLayout& layout = LayoutOf(type);
  const double middle = deviation / DeviationAtUnitScale(layout);
  for (size_t i = 0; i < scales_.size(); ++i) {
    const double sign = i % 2 == 0 ? 1 : -1;
    const double scale = sign * middle * (0.5 + (static_cast<double>(i) + 0.5) / 256);
    scales_[i] = EncodeScale(layout.encoding, scale);
    minima_[i] = F32ToF16(static_cast<float>(scale) * layout.minima_ratio);
  }
}

void RandomWeights::Fill(std::span<std::byte> blocks) {
  const ElementTypeInfo& info = Info(type_);
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  THAW_CHECK(blocks.size() % block_bytes == 0);
  FillBytes(random_, blocks);
  if (!info.is_quantized) return FillFloats(blocks);
  const ScaleLayout& layout = LayoutOf(type_);
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    SetScales(layout, scales_, minima_, &blocks[at]);
  }
}

// Random bits, read as integers and scaled: uniform numbers within sqrt(3) times the deviation,
// which have that deviation.
void RandomWeights::FillFloats(std::span<std::byte> elements) {
  const auto limit = static_cast<float>(deviation_ * std::sqrt(3.0));
  if (type_ == kF32) {
    for (size_t at = 0; at < elements.size(); at += sizeof(float)) {
      int32_t bits;
      std::memcpy(&bits, &elements[at], sizeof(bits));
      const float value = static_cast<float>(bits) * (limit * 0x1p-31f);
      std::memcpy(&elements[at], &value, sizeof(value));
    }
    return;
  }
  for (size_t at = 0; at < elements.size(); at += sizeof(uint16_t)) {
    int16_t bits;
    std::memcpy(&bits, &elements[at], sizeof(bits));
    const float value = static_cast<float>(bits) * (limit * 0x1p-15f);
    const uint16_t narrow = type_ == kF16 ? F32ToF16(value) : F32ToBF16(value);
    std::memcpy(&elements[at], &narrow, sizeof(narrow));
  }
}

std::vector<std::byte> RandomFrozenStream(FrozenKind kind, int64_t rows, int64_t cols,
                                          uint64_t seed) {
  SplitMix64 random(seed);
  // The sum of twelve uniform numbers: nearly normal, of deviation 1.
  const auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.NextUnit();
    return sum;
  };
  std::vector<std::byte> stream;
  if (kind == FrozenKind::kBf16) {
    std::vector<uint16_t> weights(static_cast<size_t>(rows * cols));
    for (uint16_t& weight : weights) weight = F32ToBF16(static_cast<float>(0.02 * normal()));
    AppendBf16Stream(rows, cols, weights, stream);
    return stream;
  }
  constexpr double kDeviation = 3.6;  // of numbers with an entropy of 3.9 bits
  std::vector<int8_t> numbers(static_cast<size_t>(rows * cols));
  for (int8_t& m : numbers) m = static_cast<int8_t>(std::lround(kDeviation * normal()));
  const std::vector<int8_t> q = TrellisIntegers(rows, cols, numbers);
  const std::vector<uint16_t> scales(static_cast<size_t>(rows), F32ToF16(0.003F));
  AppendEcqStream(rows, cols, q, scales, {}, stream);
  return stream;
}

}  // namespace thaw
