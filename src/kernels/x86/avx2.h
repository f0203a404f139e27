// The kernels for CPUs with AVX2, FMA and F16C.
//
// The functions are the entries of KernelTable (kernels/kernel_table.h) and PanelKernels
// (kernels/panel_matmul.h) of the same name. They may be called only where the CPU has those three.
//
// Rule for every *_avx2.cc: nothing in it may be emitted as a symbol that another object file also
// emits, because the linker keeps one copy for the whole program, and if it is the one made of AVX2
// instructions, the program dies on a CPU without them. So these files call no inline function or
// template of another header (std:: included) and keep their own in an anonymous namespace:
// pointers, intrinsics and plain C only. A test lists the symbols of their objects: none may be
// weak.
#pragma once

#include "kernels/attention.h"
#include "kernels/panel_matmul.h"
#include "kernels/recurrence.h"
#include "kernels/rope.h"

namespace thaw::avx2 {

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end);

void MultiplyPanel(const WeightPanel& panel, const Activations& activations, float* out,
                   int64_t out_stride);
void MultiplyFloats(const FloatRows& rows, const Activations& activations, float* out,
                    int64_t out_stride);
void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

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

}  // namespace thaw::avx2
