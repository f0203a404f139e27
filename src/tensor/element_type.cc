#include "tensor/element_type.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "tensor/blocks.h"

namespace thaw {
namespace {

constexpr ElementTypeInfo Plain(ElementType type, const char* name, int64_t bytes) {
  return {type, name, 1, bytes, false};
}

template <typename Block>
constexpr ElementTypeInfo Quantized(ElementType type, const char* name) {
  return {type, name, Block::kElements, sizeof(Block), true};
}

constexpr auto kElementTypes = std::to_array<ElementTypeInfo>({
    Plain(ElementType::kF32, "F32", 4),
    Plain(ElementType::kF16, "F16", 2),
    Quantized<BlockQ4_0>(ElementType::kQ4_0, "Q4_0"),
    Quantized<BlockQ4_1>(ElementType::kQ4_1, "Q4_1"),
    Quantized<BlockQ5_0>(ElementType::kQ5_0, "Q5_0"),
    Quantized<BlockQ5_1>(ElementType::kQ5_1, "Q5_1"),
    Quantized<BlockQ8_0>(ElementType::kQ8_0, "Q8_0"),
    Quantized<BlockQ2_K>(ElementType::kQ2_K, "Q2_K"),
    Quantized<BlockQ3_K>(ElementType::kQ3_K, "Q3_K"),
    Quantized<BlockQ4_K>(ElementType::kQ4_K, "Q4_K"),
    Quantized<BlockQ5_K>(ElementType::kQ5_K, "Q5_K"),
    Quantized<BlockQ6_K>(ElementType::kQ6_K, "Q6_K"),
    Quantized<BlockIQ2_XXS>(ElementType::kIQ2_XXS, "IQ2_XXS"),
    Quantized<BlockIQ2_XS>(ElementType::kIQ2_XS, "IQ2_XS"),
    Quantized<BlockIQ3_XXS>(ElementType::kIQ3_XXS, "IQ3_XXS"),
    Quantized<BlockIQ1_S>(ElementType::kIQ1_S, "IQ1_S"),
    Quantized<BlockIQ4_NL>(ElementType::kIQ4_NL, "IQ4_NL"),
    Quantized<BlockIQ3_S>(ElementType::kIQ3_S, "IQ3_S"),
    Quantized<BlockIQ2_S>(ElementType::kIQ2_S, "IQ2_S"),
    Quantized<BlockIQ4_XS>(ElementType::kIQ4_XS, "IQ4_XS"),
    Plain(ElementType::kI8, "I8", 1),
    Plain(ElementType::kI16, "I16", 2),
    Plain(ElementType::kI32, "I32", 4),
    Plain(ElementType::kI64, "I64", 8),
    Plain(ElementType::kF64, "F64", 8),
    Quantized<BlockIQ1_M>(ElementType::kIQ1_M, "IQ1_M"),
    Plain(ElementType::kBF16, "BF16", 2),
    Quantized<BlockTQ1_0>(ElementType::kTQ1_0, "TQ1_0"),
    Quantized<BlockTQ2_0>(ElementType::kTQ2_0, "TQ2_0"),
    Quantized<BlockMXFP4>(ElementType::kMXFP4, "MXFP4"),
    Quantized<BlockNVFP4>(ElementType::kNVFP4, "NVFP4"),
    Quantized<BlockThawedIQ2_XXS>(ElementType::kThawedIQ2_XXS, "IQ2_XXS_thawed"),
    Quantized<BlockThawedIQ2_S>(ElementType::kThawedIQ2_S, "IQ2_S_thawed"),
    Quantized<BlockThawedIQ3_XXS>(ElementType::kThawedIQ3_XXS, "IQ3_XXS_thawed"),
    Quantized<BlockThawedIQ3_S>(ElementType::kThawedIQ3_S, "IQ3_S_thawed"),
    Quantized<BlockThawedIQ1_S>(ElementType::kThawedIQ1_S, "IQ1_S_thawed"),
    Quantized<BlockThawedIQ1_M>(ElementType::kThawedIQ1_M, "IQ1_M_thawed"),
});

constexpr bool AscendsByNumber() {
  return std::ranges::is_sorted(kElementTypes, {}, &ElementTypeInfo::type);
}
static_assert(AscendsByNumber());

const ElementTypeInfo* Find(ElementType type) {
  const auto* found = std::ranges::lower_bound(kElementTypes, type, {}, &ElementTypeInfo::type);
  return found != kElementTypes.end() && found->type == type ? found : nullptr;
}

}  // namespace

const ElementTypeInfo* FindElementType(uint32_t gguf_id) {
  const auto type = static_cast<ElementType>(gguf_id);
  return IsInFiles(type) ? Find(type) : nullptr;
}

const ElementTypeInfo* FindElementType(std::string_view name) {
  const auto* found = std::ranges::find(kElementTypes, name, &ElementTypeInfo::name);
  return found != kElementTypes.end() ? found : nullptr;
}

const ElementTypeInfo& Info(ElementType type) {
  const ElementTypeInfo* info = Find(type);
  THAW_CHECK(info != nullptr);
  return *info;
}

bool IsWeightFloat(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

std::span<const ElementTypeInfo> AllElementTypes() { return kElementTypes; }

int64_t RowBytes(ElementType type, int64_t elements) {
  const ElementTypeInfo& info = Info(type);
  THAW_CHECK(elements >= 0 && elements % info.block_elements == 0);
  const int64_t blocks = elements / info.block_elements;
  THAW_CHECK(blocks <= std::numeric_limits<int64_t>::max() / info.block_bytes);
  return blocks * info.block_bytes;
}

}  // namespace thaw
