// Whether rows of weights hold numbers: a scale or a plain number that is infinite or NaN makes
// everything that it is multiplied with NaN, and is better reported where it is than in an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tensor/element_type.h"

namespace thaw {

// The first of n_rows rows of k elements, as they lie in a file, that holds an infinity or a NaN:
// in a plain number, or in a scale of a quantized block. Types whose scales are always finite
// (MXFP4, NVFP4) and integers have none. Pure; reads plain numbers once, of blocks the scales.
std::optional<int64_t> FindRowNotFinite(ElementType type, int64_t k, int64_t n_rows,
                                        const std::byte* rows);

}  // namespace thaw
