// Products of frozen rows that stay coded, so that memory is read coded: a group of rows is thawed
// into a near cache and multiplied there, or, with one token, decoded and multiplied in registers
// where the table can (KernelTable::multiply_coded_group).
//
// What comes out are the bits that the table's matmul gives for the thawed rows (Q8_0 or BF16).
// Pure: nothing is kept or allocated; any thread may call. Costs: the decoder's, about that of
// reading the thawed rows from memory twice, and, but in registers, the product from a near cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/tile_decoder.h"
#include "kernels/kernel_table.h"

namespace thaw {

// A frozen tile that was looked through when it was read (CheckTile).
struct CodedRows {
  FrozenKind kind = FrozenKind::kEcq;
  const std::byte* data = nullptr;
  int64_t n_rows = 0;
  int64_t k = 0;
  int64_t rows_per_stream = 0;
};

// Scratch of one MultiplyCoded call.
int64_t CodedScratchBytes(FrozenKind kind, int64_t k);

// As KernelTable::matmul for the rows [row_begin, row_end): whole streams. `scratch`:
// CodedScratchBytes, aligned to 64, of this caller alone.
void MultiplyCoded(const KernelTable& kernels, const TileDecoder& decoder, const CodedRows& weights,
                   int64_t row_begin, int64_t row_end, const Activations& activations, float* out,
                   int64_t out_stride, std::byte* scratch);

}  // namespace thaw
