// Products of float rows that are not packed, in NEON.
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/float_rows.h"

namespace thaw::neon {
namespace {

struct FloatVectors {
  using Floats = float32x4_t;
  static constexpr int kLanes = 4;

  static float32x4_t Zero() { return vdupq_n_f32(0); }
  static float32x4_t Load(const float* p) { return vld1q_f32(p); }
  static float32x4_t LoadFirst(const float* p, int64_t n) { return neon::LoadFirst(p, n); }
  template <ElementType type>
  static float32x4_t LoadWeights(const std::byte* p) {
    if constexpr (type == ElementType::kF32) {
      return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
    } else {
      return type == ElementType::kF16 ? WidenF16(Load16(p)) : WidenBF16(Load16(p));
    }
  }
  static float32x4_t MultiplyAdd(float32x4_t a, float32x4_t b, float32x4_t c) {
    return vfmaq_f32(c, a, b);
  }
  static float SumOfLanes(float32x4_t v) { return neon::SumOfLanes(v); }
};

}  // namespace

void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  MultiplyFloatRows<FloatVectors>(rows, activations, out, out_stride);
}

}  // namespace thaw::neon
