// The portable kernels: plain C++, readable, and the reference that every other table is tested
// against. The functions are the entries of KernelTable of the same name (kernels/kernel_table.h).
#pragma once

#include "kernels/kernel_table.h"

namespace thaw::portable {

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end);
void MatMul(const WeightRows& weights, int64_t row_begin, int64_t row_end,
            const Activations& activations, float* out, int64_t out_stride, std::byte* scratch);

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out);
void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out);
void Activate(const Activation& by, const float* gate, const float* up, int64_t n, float* out);
void SoftCap(float* x, int64_t n, float cap);
void Add(const float* a, const float* b, int64_t n, float* out);
void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing);
void StepState(const StateStep& step);

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out);
void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch);

}  // namespace thaw::portable
