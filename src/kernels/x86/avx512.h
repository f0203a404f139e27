// The kernels for CPUs with AVX-512 (F, BW, VL) and VNNI, for what they do better than those of
// avx2.h. The rule of that header holds for every *_avx512.cc too.
#pragma once

#include "codec/frozen_stream.h"
#include "kernels/attention.h"
#include "kernels/coded_token.h"
#include "kernels/panel_matmul.h"
#include "kernels/recurrence.h"
#include "kernels/rope.h"

namespace thaw::avx512 {

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end);

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

// Where the CPU has VBMI and VBMI2 too.
void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out);

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out);
void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out);
void Activate(const Activation& by, const float* gate, const float* up, int64_t n, float* out);
void SoftCap(float* x, int64_t n, float cap);
void Add(const float* a, const float* b, int64_t n, float* out);
void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing);
void StepState(const StateStep& step);

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch);

}  // namespace thaw::avx512
