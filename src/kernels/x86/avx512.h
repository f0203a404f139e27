// The kernels for CPUs with AVX-512 (F, BW, VL) and VNNI, for what they do better than those of
// avx2.h. The rule of that header holds for every *_avx512.cc too.
#pragma once

#include "codec/frozen_stream.h"
#include "kernels/attention.h"
#include "kernels/coded_token.h"
#include "kernels/panel_matmul.h"

namespace thaw::avx512 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

// Where the CPU has VBMI and VBMI2 too.
void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out);

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch);

}  // namespace thaw::avx512
