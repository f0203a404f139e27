// Products of packed rows of BF16 by the dot products of AVX512_BF16; packed_avx512vbmi.cc
// multiplies all others. See avx2.h for what may be called here.
#include "kernels/rounded_products.h"
#include "kernels/x86/avx512bf16.h"
#include "kernels/x86/avx512vbmi.h"
#include "kernels/x86/lanes_avx512bf16.h"

namespace thaw::avx512bf16 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  if (IsMultipliedRounded(type, activations)) {
    return MultiplyRoundedGroups<Bf16Vectors16>(groups, n_groups, activations, out, out_stride);
  }
  avx512vbmi::MultiplyPacked(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::avx512bf16
