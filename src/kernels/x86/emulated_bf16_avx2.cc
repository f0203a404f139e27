// See avx2.h for what may be called here.
#include "kernels/rounded_products.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/emulated_tables.h"
#include "kernels/x86/lanes_avx2.h"

namespace thaw::emulated_bf16 {
namespace {

// vdpbf16ps, by two multiplications of floats.
struct EmulatedBf16 : Lanes8 {
  THAW_INLINE Floats AddPair(Floats sum, Ints w, const uint16_t* pair) {
    const Floats low = MultiplyAdd(AsFloats(ShiftLeft<16>(w)), Float(pair[0]), sum);
    const Ints high = Lanes8::Broadcast(static_cast<int32_t>(0xffff0000));
    return MultiplyAdd(AsFloats(And(w, high)), Float(pair[1]), low);
  }

 private:
  THAW_INLINE Floats Float(uint16_t number) {
    return AsFloats(Lanes8::Broadcast(static_cast<int32_t>(uint32_t{number} << 16)));
  }
};

}  // namespace

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  if (IsMultipliedRounded(type, activations)) {
    return MultiplyRoundedGroups<EmulatedBf16>(groups, n_groups, activations, out, out_stride);
  }
  avx2::MultiplyPacked(type, groups, n_groups, activations, out, out_stride, scratch);
}

}  // namespace thaw::emulated_bf16
