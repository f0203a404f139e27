// See avx2.h for what may be called here.
#include "kernels/packed_products.h"
#include "kernels/x86/emulated_tables.h"
#include "kernels/x86/lanes_avxvnni.h"

namespace thaw::emulated_avxvnni {
namespace {

// vpdpbusd of AVX-VNNI: four products of an unsigned byte with a signed one, added without
// saturation. Of 16 bits each, the even bytes and the odd ones.
struct EmulatedVnni {
  THAW_INLINE __m256i AddFour(__m256i sum, __m256i w, __m256i a) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(0xff)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(a, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
  }
};

}  // namespace

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  MultiplyPackedGroups<Lanes8Vnni<EmulatedVnni>>(type, groups, n_groups, activations, out,
                                                 out_stride, scratch);
}

}  // namespace thaw::emulated_avxvnni
