// Products of packed rows in AVX2. See avx2.h for what may be called here.
#include "kernels/packed_products.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/lanes_avx2.h"

namespace thaw::avx2 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<Lanes8>(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::avx2
