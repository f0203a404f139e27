// The kernels for 64-bit ARM CPUs with the dot product extension (asimddp), for what needs it; the
// others are those of neon.h.
//
// The functions are the entries of PanelKernels (kernels/panel_matmul.h) of the same name. The rule
// of x86/avx2.h holds for every *_dotprod.cc: no symbol that another object file may also emit.
#pragma once

#include "kernels/panel_matmul.h"

namespace thaw::dotprod {

void MultiplyPanel(const WeightPanel& panel, const Activations& activations, float* out,
                   int64_t out_stride);
void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw::dotprod
