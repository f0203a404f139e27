#include "tensor/element_type.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace thaw {
namespace {

constexpr auto kElementTypes = std::to_array<ElementTypeInfo>({
    {ElementType::kF32, "F32", 1, 4, false},
    {ElementType::kF16, "F16", 1, 2, false},
    {ElementType::kQ4_0, "Q4_0", 32, 18, true},
    {ElementType::kQ4_1, "Q4_1", 32, 20, true},
    {ElementType::kQ5_0, "Q5_0", 32, 22, true},
    {ElementType::kQ5_1, "Q5_1", 32, 24, true},
    {ElementType::kQ8_0, "Q8_0", 32, 34, true},
    {ElementType::kQ2_K, "Q2_K", 256, 84, true},
    {ElementType::kQ3_K, "Q3_K", 256, 110, true},
    {ElementType::kQ4_K, "Q4_K", 256, 144, true},
    {ElementType::kQ5_K, "Q5_K", 256, 176, true},
    {ElementType::kQ6_K, "Q6_K", 256, 210, true},
    {ElementType::kIQ2_XXS, "IQ2_XXS", 256, 66, true},
    {ElementType::kIQ2_XS, "IQ2_XS", 256, 74, true},
    {ElementType::kIQ3_XXS, "IQ3_XXS", 256, 98, true},
    {ElementType::kIQ1_S, "IQ1_S", 256, 50, true},
    {ElementType::kIQ4_NL, "IQ4_NL", 32, 18, true},
    {ElementType::kIQ3_S, "IQ3_S", 256, 110, true},
    {ElementType::kIQ2_S, "IQ2_S", 256, 82, true},
    {ElementType::kIQ4_XS, "IQ4_XS", 256, 136, true},
    {ElementType::kI8, "I8", 1, 1, false},
    {ElementType::kI16, "I16", 1, 2, false},
    {ElementType::kI32, "I32", 1, 4, false},
    {ElementType::kI64, "I64", 1, 8, false},
    {ElementType::kF64, "F64", 1, 8, false},
    {ElementType::kIQ1_M, "IQ1_M", 256, 56, true},
    {ElementType::kBF16, "BF16", 1, 2, false},
    {ElementType::kTQ1_0, "TQ1_0", 256, 54, true},
    {ElementType::kTQ2_0, "TQ2_0", 256, 66, true},
    {ElementType::kMXFP4, "MXFP4", 32, 17, true},
    {ElementType::kNVFP4, "NVFP4", 64, 36, true},
});

constexpr bool AscendsByNumber() {
  return std::ranges::is_sorted(kElementTypes, {}, &ElementTypeInfo::type);
}
static_assert(AscendsByNumber());

}  // namespace

const ElementTypeInfo* FindElementType(uint32_t gguf_id) {
  const auto type = static_cast<ElementType>(gguf_id);
  const auto* found = std::ranges::lower_bound(kElementTypes, type, {}, &ElementTypeInfo::type);
  return found != kElementTypes.end() && found->type == type ? found : nullptr;
}

const ElementTypeInfo* FindElementType(std::string_view name) {
  const auto* found = std::ranges::find(kElementTypes, name, &ElementTypeInfo::name);
  return found != kElementTypes.end() ? found : nullptr;
}

const ElementTypeInfo& Info(ElementType type) {
  const ElementTypeInfo* info = FindElementType(static_cast<uint32_t>(type));
  THAW_CHECK(info != nullptr);
  return *info;
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
