// Products of packed rows of points of a grid in AVX-512 with VNNI and VBMI, the same bits as those
// of packed_avx512.cc, which multiplies all others. See avx2.h for what may be called here.
#include "kernels/packed_products.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/avx512vbmi.h"
#include "kernels/x86/lanes_avx512vbmi.h"

namespace thaw::avx512vbmi {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  bool is_grid = false;
  VisitFormat(type, [&]<typename F>() {
    if constexpr (HasGrid<F>) {
      is_grid = true;
      MultiplyGroups<VbmiLanes16, F>(groups, n_groups, activations, out, out_stride, scratch);
    }
  });
  if (is_grid) return;
  avx512::MultiplyPacked(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::avx512vbmi
