// Element-wise kernels in AVX2. See avx2.h for what may be called here.
#include "kernels/quantize_tokens.h"
#include "kernels/vector_ops.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {

void QuantizeActivations(const Activations& activations, int64_t token_begin, int64_t token_end) {
  QuantizeTokens<Blocks>(activations, token_begin, token_end);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float epsilon, float* out) {
  VectorOps<Vectors>::RmsNorm(x, weight, n, epsilon, out);
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float epsilon,
               float* out) {
  VectorOps<Vectors>::LayerNorm(x, weight, bias, n, epsilon, out);
}

void Activate(const Activation& by, const float* gate, const float* up, int64_t n, float* out) {
  VectorOps<Vectors>::Activate(by, gate, up, n, out);
}

void SoftCap(float* x, int64_t n, float cap) { VectorOps<Vectors>::SoftCap(x, n, cap); }

void Add(const float* a, const float* b, int64_t n, float* out) {
  VectorOps<Vectors>::Add(a, b, n, out);
}

void Rope(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
          int64_t rope_dim, RopePairing pairing) {
  VectorOps<Vectors>::Rope(heads, n_heads, head_stride, cos_sin, rope_dim, pairing);
}

void StepState(const StateStep& step) { VectorOps<Vectors>::StepState(step); }

}  // namespace thaw::avx2
