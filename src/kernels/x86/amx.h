// The kernels for CPUs with AMX (tiles of int8) beside what avx512vbmi.h needs, for what they do
// better than those: products of packed rows with many tokens. The rule of avx2.h holds for every
// *_amx.cc too.
#pragma once

#include "kernels/panel_matmul.h"

namespace thaw::amx {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw::amx
