// Packed rows: weight rows in the order in which vector kernels read them.
//
// Sixteen rows of a matrix lie interleaved, so that one vector register holds the same elements of
// all sixteen and a product reads memory once, in one stream. Packing moves bits and changes none:
// a packed group takes exactly the bytes that its rows took, and every row can be had back. Rows
// that do not fill a group, fewer than 16 at the end, stay as in the file, behind the groups.
//
// Everything is pure and allocates nothing. Costs: about the bytes of a memory copy, and for
// numbers that lie step by step some shifts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/element_type.h"

namespace thaw {

// A group is cut along the row into units of `unit_blocks` blocks (the last may hold fewer). For
// each field of a block the sixteen rows' elements stand next to each other, row 0 first:
//
//   unit = [lead fields of all its blocks][body of block 0][body of block 1]...
//   field = [elements in their order in the block][16 rows]
//
// An element is 1, 2 or 4 bytes of the block as they lie there; with 4, a line of 64 bytes holds
// for example four consecutive quants of every row. One exception: numbers of 2, 3, 5 and 6 bits,
// which the file keeps in one or two fields, lie step by step of 32 elements, in as many lines as
// they have bits (tensor/packed_numbers.h). Rows of plain numbers are one field without blocks, cut
// into elements of 4 bytes. tensor/blocks.h names the fields.
//
//   type          unit  lead           body
//   Q4_0, IQ4_NL  2     d              qs:4
//   Q4_1          1     d, m           qs:4
//   Q5_0          2     d              numbers of qs and qh
//   Q5_1          1     d, m           numbers of qs and qh
//   Q8_0          2     d              qs:4
//   MXFP4         4     e              qs:4
//   NVFP4         1                    d:4, qs:4
//   Q2_K          1     d, dmin        scales:4, numbers of qs
//   Q3_K          2     d              scales:4, numbers of qs and hmask
//   Q4_K          1     d, dmin        scales:4, qs:4
//   Q5_K          1     d, dmin        scales:4, numbers of qs and qh
//   Q6_K          2     d              scales:4, numbers of ql and qh
//   IQ4_XS        1     d, scales_h    scales_l:4, qs:4
//   TQ1_0         2     d              qs:4, qh:4
//   TQ2_0         2     d              numbers of qs
//   IQ1_S         2     d              qh:4, qs:4
//   IQ1_M         1                    scales:4, qh:4, qs:4
//   IQ2_XXS       2     d              groups:4
//   IQ2_XS        2     d              scales:4, qs:4
//   IQ2_S, IQ3_S  2     d              scales:4, qh:4, qs:4, signs:4
//   IQ3_XXS       2     d              qs:4, signs_and_scale:4
//   thawed IQ1_S  2     d              scales:4, numbers of qs
//   thawed IQ1_M  2     d              scales:4, less:4, numbers of qs
//   thawed IQ2    2     d              scales:4, numbers of qs and signs
//   thawed IQ3    2     d              scales:4, qs:4
inline constexpr int64_t kPackedGroupRows = 16;

// Whether rows of k elements (whole blocks) have a packed form: those of the types above, F32, and
// F16 and BF16 of even length.
bool CanPackRows(ElementType type, int64_t k);

// Scratch of PackRows.
int64_t PackScratchBytes(ElementType type, int64_t k);

// Packs n_rows rows of k elements that lie one after another. `packed` may be where the rows are,
// or overlap them from below (packed <= rows). CanPackRows must hold.
void PackRows(ElementType type, int64_t k, int64_t n_rows, const std::byte* rows, std::byte* packed,
              std::byte* scratch);

// Copies row `row` of n_rows packed ones to `out`, RowBytes(type, k) bytes as in the file.
void CopyPackedRow(ElementType type, int64_t k, int64_t n_rows, const std::byte* packed,
                   int64_t row, std::byte* out);

}  // namespace thaw
