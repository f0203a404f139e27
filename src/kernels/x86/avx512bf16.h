// The kernels for CPUs with products of bfloat16 (AVX512_BF16) beside what avx512vbmi.h needs, for
// what they do better than those, but Intel's: products of BF16 with rounded activations. The rule
// of avx2.h holds for every *_avx512bf16.cc too.
#pragma once

#include "codec/frozen_stream.h"
#include "kernels/coded_token.h"
#include "kernels/panel_matmul.h"

namespace thaw::avx512bf16 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

// Where the CPU has VBMI2 too.
void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out);

}  // namespace thaw::avx512bf16
