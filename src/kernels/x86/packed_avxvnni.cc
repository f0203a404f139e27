// Products of packed rows in AVX2 with AVX-VNNI. See avx2.h for what may be called here.
#include "kernels/packed_products.h"
#include "kernels/x86/avxvnni.h"
#include "kernels/x86/lanes_avxvnni.h"

namespace thaw::avxvnni {
namespace {

struct AvxVnni {
  THAW_INLINE __m256i AddFour(__m256i sum, __m256i w, __m256i a) {
    return _mm256_dpbusd_avx_epi32(sum, w, a);
  }
};

}  // namespace

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<Lanes8Vnni<AvxVnni>>(type, groups, n_groups, activations, out, out_stride,
                                            scratch);
}

}  // namespace thaw::avxvnni
