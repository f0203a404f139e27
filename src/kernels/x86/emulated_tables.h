// Kernel tables for tests, whose instructions are emulated, so that what is written over them is
// tested on CPUs without them: packed_tiles.h over tiles of AMX (emulated_tiles.h) and the vectors
// of AVX-512 or AVX2, rounded_products.h and lanes_avxvnni.h over AVX2. In all else they are the
// tables "avx512" and "avx2", whose bits they must give, but in rounded_products.h.
//
// Not thread safe: the products of tiles are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernel_table.h"

namespace thaw {

struct EmulatedTable {
  KernelTable table;  // available where `original` is
  const KernelTable* original;
};

// Those by tiles of AMX first, that of AVX-VNNI last.
std::span<const EmulatedTable> EmulatedTables();
std::span<const EmulatedTable> EmulatedAmxTables();

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

namespace emulated_bf16 {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace emulated_bf16

namespace emulated_avxvnni {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace emulated_avxvnni
}  // namespace thaw
