// Kernel tables for tests: packed_tiles.h over emulated tiles (emulated_tiles.h) and the vectors of
// AVX-512 or AVX2, so that it is tested on CPUs without AMX. In all else they are the tables
// "avx512" and "avx2", whose bits they must give.
//
// Not thread safe: the products are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernel_table.h"

namespace thaw {

struct EmulatedAmxTable {
  KernelTable table;  // available where `original` is
  const KernelTable* original;
};

std::span<const EmulatedAmxTable> EmulatedAmxTables();

// How many products of two tiles were made.
extern int64_t emulated_tile_products;

namespace emulated_amx {

void MultiplyPackedAvx512(ElementType type, const std::byte* groups, int64_t n_groups,
                          const Activations& activations, float* out, int64_t out_stride,
                          std::byte* scratch);
void MultiplyPackedAvx2(ElementType type, const std::byte* groups, int64_t n_groups,
                        const Activations& activations, float* out, int64_t out_stride,
                        std::byte* scratch);

}  // namespace emulated_amx
}  // namespace thaw
