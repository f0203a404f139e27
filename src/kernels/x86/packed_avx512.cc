// Products of packed rows in AVX-512 with VNNI. See avx2.h for what may be called here.
#include "kernels/packed_products.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/lanes_avx512.h"

namespace thaw::avx512 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<Lanes16>(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::avx512
