// Products of float rows that are not packed, in NEON.
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/float_rows.h"

namespace thaw::neon {
void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride) {
  MultiplyFloatRows<Vectors>(rows, activations, out, out_stride);
}

}  // namespace thaw::neon
