// The format of every quantized type that is packed. In an anonymous namespace, for the reason
// given in packed_formats.h.
#pragma once

#include "kernels/grid_formats.h"
#include "kernels/packed_formats.h"
#include "kernels/thawed_formats.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// Calls visit.template operator()<F>() with the format of a quantized type that is packed.
template <typename Visit>
[[gnu::always_inline]] inline void VisitFormat(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::kQ4_0:
      return visit.template operator()<FormatQ4_0>();
    case ElementType::kQ4_1:
      return visit.template operator()<FormatQ4_1>();
    case ElementType::kQ5_0:
      return visit.template operator()<FormatQ5_0>();
    case ElementType::kQ5_1:
      return visit.template operator()<FormatQ5_1>();
    case ElementType::kQ8_0:
      return visit.template operator()<FormatQ8_0>();
    case ElementType::kQ2_K:
      return visit.template operator()<FormatQ2_K>();
    case ElementType::kQ3_K:
      return visit.template operator()<FormatQ3_K>();
    case ElementType::kQ4_K:
      return visit.template operator()<FormatQ4_K>();
    case ElementType::kQ5_K:
      return visit.template operator()<FormatQ5_K>();
    case ElementType::kQ6_K:
      return visit.template operator()<FormatQ6_K>();
    case ElementType::kIQ4_NL:
      return visit.template operator()<FormatIQ4_NL>();
    case ElementType::kIQ4_XS:
      return visit.template operator()<FormatIQ4_XS>();
    case ElementType::kMXFP4:
      return visit.template operator()<FormatMXFP4>();
    case ElementType::kNVFP4:
      return visit.template operator()<FormatNVFP4>();
    case ElementType::kTQ1_0:
      return visit.template operator()<FormatTQ1_0>();
    case ElementType::kTQ2_0:
      return visit.template operator()<FormatTQ2_0>();
    case ElementType::kIQ1_S:
      return visit.template operator()<FormatIQ1_S>();
    case ElementType::kIQ1_M:
      return visit.template operator()<FormatIQ1_M>();
    case ElementType::kIQ2_XXS:
      return visit.template operator()<FormatIQ2_XXS>();
    case ElementType::kIQ2_XS:
      return visit.template operator()<FormatIQ2_XS>();
    case ElementType::kIQ2_S:
      return visit.template operator()<FormatIQ2_S>();
    case ElementType::kIQ3_XXS:
      return visit.template operator()<FormatIQ3_XXS>();
    case ElementType::kIQ3_S:
      return visit.template operator()<FormatIQ3_S>();
    case ElementType::kThawedIQ2_XXS:
      return visit.template operator()<FormatThawedIQ2_XXS>();
    case ElementType::kThawedIQ2_S:
      return visit.template operator()<FormatThawedIQ2_S>();
    case ElementType::kThawedIQ3_XXS:
      return visit.template operator()<FormatThawedIQ3_XXS>();
    case ElementType::kThawedIQ3_S:
      return visit.template operator()<FormatThawedIQ3_S>();
    case ElementType::kThawedIQ1_S:
      return visit.template operator()<FormatThawedIQ1_S>();
    case ElementType::kThawedIQ1_M:
      return visit.template operator()<FormatThawedIQ1_M>();
    default:
      return;  // CanPackRows says no to it
  }
}

}  // namespace
}  // namespace thaw
