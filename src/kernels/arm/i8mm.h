// The kernels for 64-bit ARM CPUs with the matrix products of int8 (i8mm) and the dot product
// extension, for what they do better than those of dotprod.h: panels of packed rows. The same bits
// as those. The rule of x86/avx2.h holds for every *_i8mm.cc too.
#pragma once

#include "kernels/panel_matmul.h"

namespace thaw::i8mm {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw::i8mm
