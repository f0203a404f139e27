// The error that weights have in an element type of GGUF: how coarsely they may be frozen so that
// nothing is lost beside that type.
//
// Weights are rounded as llama.cpp's quantizers do without an importance matrix (ggml-quants.c:
// what scales are tried and what is minimised), so that errors agree with its files within 2 %;
// nothing is packed. Pure functions. Costs: 5 ns a weight for Q8_0, 80 for Q4_K, 290 for IQ4_XS.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/element_type.h"

namespace thaw {

// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS.
std::span<const ElementType> TypesWithError();

// What llama.cpp quantizes to in place of `type` where `cols` is no multiple of its block: Q4_K
// gives Q5_0, Q5_K gives Q5_1, Q6_K gives Q8_0, Q2_K and Q3_K give Q4_0, IQ4_XS gives IQ4_NL (its
// llama-quant.cpp). Otherwise `type`. `cols` is a multiple of 32.
ElementType TypeForColumns(ElementType type, int64_t cols);

// sqrt(error / energy) of `rows`, [n, cols] finite floats, quantized to TypeForColumns(type, cols):
// the sums of column weight * (weight - quantized)^2 and column weight * weight^2; 0 where all
// weights are. `column_weights`: [cols], or empty for 1; quantizing does not look at them. `cols`
// is a multiple of 32. kUnsupported names the types there are.
Result<double> TypeRelativeRmse(ElementType type, int64_t cols, std::span<const float> rows,
                                std::span<const float> column_weights);

}  // namespace thaw
