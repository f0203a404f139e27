// The kernels for CPUs with VBMI beside what avx512.h needs, for what they do better than those:
// products of packed rows of points of a grid. The rule of avx2.h holds for every *_avx512vbmi.cc
// too.
#pragma once

#include "kernels/panel_matmul.h"

namespace thaw::avx512vbmi {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw::avx512vbmi
