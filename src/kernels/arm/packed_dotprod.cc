// Products of packed rows in NEON with the dot product extension. See dotprod.h for what may be
// called here.
#include "kernels/arm/dotprod.h"
#include "kernels/arm/lanes_dotprod.h"
#include "kernels/packed_products.h"

namespace thaw::dotprod {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<Lanes4>(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::dotprod
