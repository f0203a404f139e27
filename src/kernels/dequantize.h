// Stored elements of any type as floats.
//
// Quantized types go through kernels/unpack.h, which holds the one decoder of each format. For
// loading norms and tables, for tests and for tools: products do not use it, since floats are up to
// 20 times the bytes. Pure; works in chunks on the stack and allocates nothing.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "tensor/element_type.h"

namespace thaw {

// `rows` holds exactly out.size() elements of `type`, in whole blocks. Integers and doubles are
// rounded to the nearest float; doubles beyond the range of floats become infinite.
Result<void> Dequantize(ElementType type, std::span<const std::byte> rows, std::span<float> out);

}  // namespace thaw
