// The kernels for CPUs with AMX (tiles of int8 and bfloat16) beside what avx512vbmi.h needs, for
// what they do better than those: products of packed rows with many tokens, of BF16 and F16 with
// activations of such numbers. The rule of avx2.h holds for every *_amx.cc too.
#pragma once

#include "codec/frozen_stream.h"
#include "kernels/coded_token.h"
#include "kernels/panel_matmul.h"

namespace thaw::amx {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

// Where the CPU has VBMI2 too.
void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out);

}  // namespace thaw::amx
