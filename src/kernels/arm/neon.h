// The kernels that 64-bit ARM CPUs run without any extension: NEON is part of the architecture, so
// the files *_neon.cc have no flags and no rules of their own.
//
// The functions are the entries of KernelTable (kernels/kernel_table.h) and PanelKernels
// (kernels/panel_matmul.h) of the same name.
#pragma once

#include "kernels/attention.h"
#include "kernels/panel_matmul.h"
#include "kernels/recurrence.h"
#include "kernels/rope.h"

namespace thaw::neon {

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end);

void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride);

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

}  // namespace thaw::neon
