#include "kernels/kernel_test_support.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

#if defined(__x86_64__)
#include "kernels/x86/emulated_tables.h"
#endif

namespace thaw {
namespace {

constexpr size_t kAlignment = 64;

// Where a block holds half-precision scales.
std::vector<size_t> HalfOffsets(ElementType type) {
  switch (type) {
    case ElementType::kQ4_1:
    case ElementType::kQ5_1:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
      return {0, 2};
    case ElementType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case ElementType::kQ3_K:
      return {offsetof(BlockQ3_K, d)};
    case ElementType::kQ6_K:
      return {offsetof(BlockQ6_K, d)};
    case ElementType::kTQ1_0:
      return {offsetof(BlockTQ1_0, d)};
    case ElementType::kTQ2_0:
      return {offsetof(BlockTQ2_0, d)};
    case ElementType::kMXFP4:
    case ElementType::kNVFP4:
    case ElementType::kIQ1_M:
      return {};
    default:
      return {0};
  }
}

// Between 0 and 1, and neither. A distribution of the standard library takes two logarithms in long
// double for each number where clang compiles it, which was half of the time of some tests.
double Uniform(std::mt19937& random) { return (static_cast<double>(random()) + 0.5) * 0x1p-32; }

void MakeScalesSane(ElementType type, std::byte* block, std::mt19937& random) {
  for (const size_t offset : HalfOffsets(type)) {
    const double sign = random() % 2 == 0 ? 1 : -1;
    const double scale = 0.005 + 0.015 * Uniform(random);
    const uint16_t half = F32ToF16(static_cast<float>(sign * scale));
    std::memcpy(block + offset, &half, sizeof(half));
  }
  if (type == ElementType::kMXFP4) block[0] = static_cast<std::byte>(118 + random() % 6);
  if (type == ElementType::kNVFP4) {
    for (size_t i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(random() % 0x38);
  }
  if (type == ElementType::kIQ1_M) {
    // The highest nibble of the last scale is the sign and exponent of d: 2^-7 to 2^-3.
    std::byte& high = block[offsetof(BlockIQ1_M, scales) + 7];
    high = (high & std::byte{0x0f}) | std::byte{0x20};
  }
}

}  // namespace

std::vector<const KernelTable*> AllAndEmulatedKernelTables() {
  std::vector<const KernelTable*> tables(AllKernelTables().begin(), AllKernelTables().end());
#if defined(__x86_64__)
  for (const EmulatedTable& each : EmulatedTables()) tables.push_back(&each.table);
#endif
  return tables;
}

// By Box and Muller.
std::vector<float> RandomFloats(int64_t n, std::mt19937& random) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(Uniform(random)));
    const double angle = 2 * std::numbers::pi * Uniform(random);
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

std::vector<std::byte> RandomRows(ElementType type, int64_t n, std::mt19937& random) {
  const ElementTypeInfo& info = Info(type);
  std::vector<std::byte> rows(static_cast<size_t>(RowBytes(type, n)));
  if (!info.is_quantized) {
    const std::vector<float> values = RandomFloats(n, random);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = type == ElementType::kF16 ? F32ToF16(values[i]) : F32ToBF16(values[i]);
      if (type == ElementType::kF32) {
        std::memcpy(&rows[i * sizeof(float)], &values[i], sizeof(float));
      } else {
        std::memcpy(&rows[i * sizeof(bits)], &bits, sizeof(bits));
      }
    }
    return rows;
  }
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(info.block_bytes)) {
    MakeScalesSane(type, &rows[at], random);
  }
  return rows;
}

void FillBlocks(ElementType type, int64_t begin, int64_t end, int fill, std::span<std::byte> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t of_block = static_cast<int64_t>(i) % Info(type).block_bytes;
    if (begin <= of_block && of_block < end) rows[i] = static_cast<std::byte>(fill);
  }
}

ScratchMemory::ScratchMemory(int64_t bytes, size_t misalignment)
    : misalignment_(misalignment),
      memory_(static_cast<size_t>(bytes) + kAlignment + misalignment) {}

std::byte* ScratchMemory::data() {
  const size_t excess = reinterpret_cast<uintptr_t>(memory_.data()) % kAlignment;
  return memory_.data() + (excess == 0 ? 0 : kAlignment - excess) + misalignment_;
}

std::vector<ActivationCopy> CopiesFor(const KernelTable& table, ElementType type, int64_t k) {
  std::vector<ActivationCopy> copies = {ActivationCopy::kNarrow};
  if (Info(type).is_quantized) {
    if (k % kWideActivationBlock == 0) copies.push_back(ActivationCopy::kWide);
  } else {
    copies.push_back(FastestCopy(table, type));
  }
  return copies;
}

OwnedActivations::OwnedActivations(const KernelTable& table, std::vector<float> values,
                                   int64_t n_tokens, int64_t k, ActivationCopy copy)
    : values_(std::move(values)), memory_(ActivationBytes(n_tokens, k)) {
  THAW_CHECK(static_cast<int64_t>(values_.size()) == n_tokens * k);
  view_ = ViewActivations(values_.data(), n_tokens, k, memory_.data(), copy);
  table.quantize_activations(view_, 0, n_tokens);
}

double OwnedActivations::Quantized(int64_t token, int64_t i) const {
  const Outlier* outliers = view_.outliers + token * MaxOutliers(view_.k);
  for (int32_t n = 0; n < OutlierCount(view_, token); ++n) {
    if (outliers[n].index == i) return double{outliers[n].value};
  }
  return Step(token, i) * view_.quants[token * QuantStride(view_.k) + i];
}

double OwnedActivations::Step(int64_t token, int64_t i) const {
  return double{ScaleOf(view_, token, i)};
}

}  // namespace thaw
