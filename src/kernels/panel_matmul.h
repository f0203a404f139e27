// What KernelTable::matmul is made of: whole groups of packed rows go to the products of
// kernels/packed_products.h, all other rows through small panels, as follows.
//
// A few weight rows are unpacked to int8 with a scale (and, for some types, an offset) for each 16
// weights, and the panel is multiplied with all tokens. One driver and one panel format serve every
// quantized type. The panel lies in the caller's scratch, small enough for a near cache; a float
// copy of the weights never exists. Float rows are multiplied as they lie, converted in registers.
// What differs between instruction sets is the functions of PanelKernels. Everything is pure; see
// kernel_table.h for row invariance.
//
// The struct fields are plain so that code compiled for a larger instruction set can read them
// without instantiating anything (see x86/avx2.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/kernel_table.h"
#include "kernels/unpack.h"

namespace thaw {

inline constexpr int64_t kMaxPanelRows = 4;

// Rows of a panel. They share each load of activations; 4 of them take 6 k bytes. A panel must stay
// in half of a 32 KiB L1 cache: at k = 5632 one token was multiplied 1.18 times as fast by 2 rows
// as by 4, at k = 576 0.97 times.
constexpr int64_t PanelRows(int64_t k) {
  constexpr int64_t kHalfOfNearCache = 16 << 10;
  return 6 * k <= kHalfOfNearCache ? kMaxPanelRows : kMaxPanelRows / 2;
}

// What kernels/panel_products.h unpacks a part of two groups of packed rows to, 186 KiB, or
// kernels/x86/packed_tiles.h, with its products and sums, 170 KiB at most.
inline constexpr int64_t kPackedScratchBytes = int64_t{186} << 10;

// Unpacked rows (kernels/unpack.h):
// weight[row][i] = scales[row][i / 16] * quants[row][i] + offsets[row][i / 16].
struct WeightPanel {
  const int8_t* quants;  // [n_rows, k], aligned to 64
  const float* scales;   // [n_rows, k / 16]
  const float* offsets;  // [n_rows, k / 16], or nullptr when all are zero
  int64_t n_rows;        // at most kMaxPanelRows
  int64_t k;             // multiple of 32
};

// Rows of F32, F16 or BF16.
struct FloatRows {
  ElementType type;
  const std::byte* data;
  int64_t row_bytes;
  int64_t n_rows;
  int64_t k;
};

// out[token * out_stride + row] for the rows of the panel or of the float matrix; of a panel
// without what the outliers of the activations contribute, which MatMulByPanels adds.
struct PanelKernels {
  void (*multiply_panel)(const WeightPanel& panel, const Activations& activations, float* out,
                         int64_t out_stride);
  void (*multiply_floats)(const FloatRows& rows, const Activations& activations, float* out,
                          int64_t out_stride);
  // Whole groups of packed rows (tensor/packed_rows.h), outliers included; nullptr where rows are
  // not packed. `scratch`: kPackedScratchBytes aligned to 64.
  void (*multiply_packed)(ElementType type, const std::byte* groups, int64_t n_groups,
                          const Activations& activations, float* out, int64_t out_stride,
                          std::byte* scratch);

  // The same but for multiply_packed.
  constexpr PanelKernels With(decltype(multiply_packed) other) const {
    return {multiply_panel, multiply_floats, other};
  }
};

// KernelTable::matmul by these kernels.
void MatMulByPanels(const PanelKernels& kernels, const WeightRows& weights, int64_t row_begin,
                    int64_t row_end, const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch);

}  // namespace thaw
