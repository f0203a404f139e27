// The arithmetic of a forward pass, one table of functions for each instruction set.
//
// The table is chosen once, at start. "portable" is plain C++ and the reference that the others are
// tested against. All entries of all tables are pure functions of their arguments: they allocate
// nothing, keep nothing, and may run on any thread.
//
// Row invariance: within one table, what is computed for a token depends on that token (and on the
// positions it sees) alone. The same operations are done in the same order whether it stands alone
// or among 500, wherever the range of rows begins and ends. Two tables agree only to rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/cpu_features.h"
#include "base/result.h"
#include "codec/frozen_stream.h"
#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/coded_token.h"
#include "kernels/recurrence.h"
#include "kernels/rope.h"
#include "tensor/element_type.h"

namespace thaw {

// Whole rows of a weight matrix, at any alignment: one after another, as they lie in the file, or
// packed (tensor/packed_rows.h).
struct WeightRows {
  ElementType type = ElementType::kF32;
  const std::byte* data = nullptr;  // n_rows * RowBytes(type, k)
  int64_t n_rows = 0;
  int64_t k = 0;
  bool is_packed = false;
};

// What a block does with a number x of its hidden layer or of a gate.
enum class Nonlinearity {
  kSilu,         // x / (1 + e^-x)
  kGelu,         // x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3): the approximation by tanh
  kReluSquared,  // max(x, 0)^2
  kRelu,         // max(x, 0)
  // x / (1 + e^-1.702x) with x at most 7, times up + 1 with up within +-7.
  kClampedSwish,
  kLogistic,     // 1 / (1 + e^-x)
  kExp,          // e^x
  kSoftPlus,     // ln(1 + e^x)
  kBoundedSilu,  // kSilu's, at most `bound`, times up within +-bound
  kXielu,        // x > 0: (alpha_p x + beta) x; else alpha_n (e^min(x, epsilon) - 1 - x) + beta x
};

inline constexpr Nonlinearity kAllNonlinearities[] = {
    Nonlinearity::kSilu, Nonlinearity::kGelu,         Nonlinearity::kReluSquared,
    Nonlinearity::kRelu, Nonlinearity::kClampedSwish, Nonlinearity::kLogistic,
    Nonlinearity::kExp,  Nonlinearity::kSoftPlus,     Nonlinearity::kBoundedSilu,
    Nonlinearity::kXielu};

// A nonlinearity with the numbers that it takes.
struct Activation {
  Nonlinearity f = Nonlinearity::kSilu;
  float bound = 0;
  float alpha_n = 0;
  float alpha_p = 0;
  float beta = 0;
  float epsilon = 0;
};

inline constexpr float kSwishSlope = 1.702F;
inline constexpr float kSwishBound = 7;

struct KernelTable {
  const char* name;  // what --kernels takes
  bool (*is_available)(const CpuFeatures& cpu);

  // Whether matmul takes packed rows, and is fastest with them.
  bool packs_rows;

  // What matmul multiplies packed groups of BF16 and of F16 with where activations have that copy
  // (kernels/activations.h); elsewhere with the floats, or F16 with shorts. kNone: always so. A
  // table that splits them for F16 rounds them for BF16.
  ActivationCopy copy_for_bf16 = ActivationCopy::kNone;
  ActivationCopy copy_for_f16 = ActivationCopy::kNone;

  // What attend_span takes fastest in place of kF16: itself, or kI16.
  KvType halves = KvType::kF16;

  // Fills the copy of tokens [token_begin, token_end), the same bits in every table. Of int8: lists
  // the outliers; per block of the other values, scale = amax / 127 and quant = round half to even
  // of value * (127 / amax). A block with a NaN or an infinity gets that scale, so that what it is
  // multiplied with becomes NaN.
  void (*quantize_activations)(const Activations& activations, int64_t token_begin,
                               int64_t token_end);

  // out[token * out_stride + row] = dot(row, activations of token), for all tokens and the rows
  // [row_begin, row_end). CanMultiply(weights.type) must hold, activations.k == weights.k, and
  // quantized weights take activations with an int8 copy. A range of packed rows begins and ends
  // with a group, or with the matrix; it costs least in pairs of groups. Other rows are taken in
  // fours, long ones in twos: a range of another length is right, but its last rows cost more.
  // `scratch`: MatMulScratchBytes(k) bytes aligned to 64, of this caller alone.
  void (*matmul)(const WeightRows& weights, int64_t row_begin, int64_t row_end,
                 const Activations& activations, float* out, int64_t out_stride,
                 std::byte* scratch);

  // Decodes the group of 16 rows that comes next and multiplies it with one token:
  // out[row] gets the bits of `matmul` for the thawed rows, packed. May be called where TileDecoder
  // "avx512vbmi2" may; nullptr where there is none.
  void (*multiply_coded_group)(StreamCursor& cursor, const CodedToken& token, float* out) = nullptr;

  // out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]; out may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float epsilon, float* out);

  // out[i] = (x[i] - mean(x)) / sqrt(variance(x) + epsilon) * weight[i] + bias[i]; out may be x.
  // Without weights (nullptr) they are 1, without biases 0.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t n,
                     float epsilon, float* out);

  // out[i] = f(gate[i]) * up[i], or f(gate[i]) where up is nullptr; out may be gate or up. Of
  // kClampedSwish it is f(gate[i]) * (up[i] + 1).
  void (*activate)(const Activation& by, const float* gate, const float* up, int64_t n, float* out);

  // x[i] = cap * tanh(x[i] / cap), cap > 0.
  void (*soft_cap)(float* x, int64_t n, float cap);

  // out[i] = a[i] + b[i]; out may be a or b.
  void (*add)(const float* a, const float* b, int64_t n, float* out);

  // Turns the first rope_dim numbers of each of `n_heads` heads, head_stride numbers apart, in
  // place by a row of RopeAngles::Fill.
  void (*rope)(float* heads, int64_t n_heads, int64_t head_stride, const float* cos_sin,
               int64_t rope_dim, RopePairing pairing);

  // One step of a recurrent state (kernels/recurrence.h).
  void (*step_state)(const StateStep& step);

  // A row as a KV cache stores it: `out` gets KvRowBytes(type, n) bytes (float16, bfloat16: rounded
  // to nearest, ties to even). CanStoreKv(type, n) must hold. The same bits in every table.
  void (*store_kv)(const float* x, int64_t n, KvType type, std::byte* out);

  // Attention of a tile to the positions of one span (kernels/attention.h): `states` gets a row of
  // AttentionStateFloats(v_head_dim) for each row of the tile, aligned to 64 bytes; tokens before
  // the span have no weight in it. `arguments.out` is not used. `scratch`: SpanScratchBytes of this
  // caller alone, aligned to 64.
  void (*attend_span)(const AttentionArguments& arguments, int64_t span, float* states,
                      std::byte* scratch);
};

// The copy that the table multiplies weights of this type with fastest.
ActivationCopy FastestCopy(const KernelTable& table, ElementType type);

// Scratch of one matmul call over rows of up to k weights, whatever the type and the table.
int64_t MatMulScratchBytes(int64_t k);

// Whether matmul takes weights of this type: F32, F16, BF16 and every quantized type. Rows of a
// quantized type must hold a multiple of 32 weights, which whole blocks always do.
bool CanMultiply(ElementType type);

// Every table in this build, best first, whether this CPU can run it or not.
std::span<const KernelTable* const> AllKernelTables();

// The first table that this CPU runs for "", or the one of that name. kInvalidArgument, with the
// names that are available, for one that does not exist or that this CPU cannot run.
Result<const KernelTable*> SelectKernels(std::string_view name);
Result<const KernelTable*> SelectKernels(std::span<const KernelTable* const> tables,
                                         std::string_view name);

}  // namespace thaw
