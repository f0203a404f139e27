// Products of packed rows in NEON with I8MM. See dotprod.h for what may be called here.
#include "kernels/arm/i8mm.h"
#include "kernels/arm/lanes_i8mm.h"
#include "kernels/packed_products.h"

namespace thaw::i8mm {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<LanesI8mm>(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::i8mm
