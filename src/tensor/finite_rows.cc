#include "tensor/finite_rows.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/load.h"
#include "tensor/blocks.h"

namespace thaw {
namespace {

constexpr uint32_t kHalfExponent = 0x7c00;
constexpr uint32_t kBF16Exponent = 0x7f80;
constexpr uint32_t kFloatExponent = 0x7f800000;

// Without a branch for each, so that a compiler's vectors can look at many.
template <typename T>
bool AllFinite(const std::byte* numbers, int64_t n, uint32_t exponent) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) {
    found |= (LoadAs<T>(numbers + i * int64_t{sizeof(T)}) & exponent) == exponent;
  }
  return found == 0;
}

// Where a block has scales in half precision.
struct ScalePlaces {
  ElementType type;
  std::array<int16_t, 2> offsets;  // -1: none
};

constexpr auto kScales = std::to_array<ScalePlaces>({
    {ElementType::kQ4_0, {offsetof(BlockQ4_0, d), -1}},
    {ElementType::kQ4_1, {offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)}},
    {ElementType::kQ5_0, {offsetof(BlockQ5_0, d), -1}},
    {ElementType::kQ5_1, {offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)}},
    {ElementType::kQ8_0, {offsetof(BlockQ8_0, d), -1}},
    {ElementType::kQ2_K, {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)}},
    {ElementType::kQ3_K, {offsetof(BlockQ3_K, d), -1}},
    {ElementType::kQ4_K, {offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)}},
    {ElementType::kQ5_K, {offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)}},
    {ElementType::kQ6_K, {offsetof(BlockQ6_K, d), -1}},
    {ElementType::kIQ1_S, {offsetof(BlockIQ1_S, d), -1}},
    {ElementType::kIQ2_XXS, {offsetof(BlockIQ2_XXS, d), -1}},
    {ElementType::kIQ2_XS, {offsetof(BlockIQ2_XS, d), -1}},
    {ElementType::kIQ2_S, {offsetof(BlockIQ2_S, d), -1}},
    {ElementType::kIQ3_XXS, {offsetof(BlockIQ3_XXS, d), -1}},
    {ElementType::kIQ3_S, {offsetof(BlockIQ3_S, d), -1}},
    {ElementType::kIQ4_NL, {offsetof(BlockIQ4_NL, d), -1}},
    {ElementType::kIQ4_XS, {offsetof(BlockIQ4_XS, d), -1}},
    {ElementType::kTQ1_0, {offsetof(BlockTQ1_0, d), -1}},
    {ElementType::kTQ2_0, {offsetof(BlockTQ2_0, d), -1}},
    {ElementType::kThawedIQ2_XXS, {offsetof(BlockThawedIQ2_XXS, d), -1}},
    {ElementType::kThawedIQ2_S, {offsetof(BlockThawedIQ2_S, d), -1}},
    {ElementType::kThawedIQ3_XXS, {offsetof(BlockThawedIQ3_XXS, d), -1}},
    {ElementType::kThawedIQ3_S, {offsetof(BlockThawedIQ3_S, d), -1}},
    {ElementType::kThawedIQ1_S, {offsetof(BlockThawedIQ1_S, d), -1}},
    {ElementType::kThawedIQ1_M, {offsetof(BlockThawedIQ1_M, d), -1}},
});

bool IsFiniteHalf(uint32_t half) { return (half & kHalfExponent) != kHalfExponent; }

// Its scale is put together from the upper nibbles of four numbers.
bool IsFiniteIQ1_M(const std::byte* bytes) {
  const auto block = LoadAs<BlockIQ1_M>(bytes);
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<uint32_t>(block.scales[i] >> 12) << (4 * i);
  return IsFiniteHalf(d);
}

bool IsFiniteRow(ElementType type, int64_t k, const std::byte* row) {
  if (type == ElementType::kF32) return AllFinite<uint32_t>(row, k, kFloatExponent);
  if (type == ElementType::kF16) return AllFinite<uint16_t>(row, k, kHalfExponent);
  if (type == ElementType::kBF16) return AllFinite<uint16_t>(row, k, kBF16Exponent);
  const ElementTypeInfo& info = Info(type);
  const int64_t bytes = RowBytes(type, k);
  if (type == ElementType::kIQ1_M) {
    for (int64_t at = 0; at < bytes; at += info.block_bytes) {
      if (!IsFiniteIQ1_M(row + at)) return false;
    }
    return true;
  }
  const auto* const places = std::ranges::find(kScales, type, &ScalePlaces::type);
  if (places == kScales.end()) return true;
  for (int64_t at = 0; at < bytes; at += info.block_bytes) {
    for (const int16_t offset : places->offsets) {
      if (offset >= 0 && !IsFiniteHalf(LoadAs<uint16_t>(row + at + offset))) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<int64_t> FindRowNotFinite(ElementType type, int64_t k, int64_t n_rows,
                                        const std::byte* rows) {
  const int64_t row_bytes = RowBytes(type, k);
  for (int64_t row = 0; row < n_rows; ++row) {
    if (!IsFiniteRow(type, k, rows + row * row_bytes)) return row;
  }
  return std::nullopt;
}

}  // namespace thaw
