// The kernels for CPUs with AVX-VNNI beside what avx2.h needs, for what they do better than those:
// products of packed rows. The rule of avx2.h holds for every *_avxvnni.cc too.
#pragma once

#include "kernels/panel_matmul.h"

namespace thaw::avxvnni {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw::avxvnni
