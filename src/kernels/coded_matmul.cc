#include "kernels/coded_matmul.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Groups that are thawed at a time. Few tokens are multiplied best while one group is still in the
// nearest cache; many are multiplied by panels of two groups.
constexpr int64_t kMostGroups = 2;
constexpr int64_t kFewTokens = 8;

int64_t ToLines(int64_t bytes) { return RoundUp(bytes, 64); }

// Rows of `packed` as they would lie in a file, for tables that take no packed ones.
void Unpack(ElementType type, int64_t k, int64_t n_rows, const std::byte* packed, std::byte* rows) {
  const int64_t row_bytes = RowBytes(type, k);
  for (int64_t row = 0; row < n_rows; ++row) {
    CopyPackedRow(type, k, n_rows, packed, row, rows + row * row_bytes);
  }
}

// The scratch of products with one token that is multiplied while it is decoded.
struct TokenScratch {
  uint8_t* has_outliers;  // [k / 32]
  uint8_t* is_outlier;    // [k]
  OutlierPatch* outlier_patches;
  int32_t* patch_sums;  // [k / 32, 16]
  std::byte* kept;

  TokenScratch(int64_t k, std::byte* memory) {
    const auto take = [&](int64_t bytes) { return std::exchange(memory, memory + ToLines(bytes)); };
    has_outliers = reinterpret_cast<uint8_t*>(take(k / kActivationStep));
    is_outlier = reinterpret_cast<uint8_t*>(take(k));
    outlier_patches = reinterpret_cast<OutlierPatch*>(take(OutlierPatchBytes(k)));
    patch_sums = reinterpret_cast<int32_t*>(take(PatchSumBytes(k)));
    kept = memory;
  }

  static int64_t Bytes(int64_t k) {
    return ToLines(k / kActivationStep) + ToLines(k) + ToLines(OutlierPatchBytes(k)) +
           ToLines(PatchSumBytes(k)) + kKeptBlocks * kKeptBlockBytes;
  }

 private:
  // One of every row for each outlier that there can be.
  static int64_t OutlierPatchBytes(int64_t k) {
    return kFrozenGroupRows * MaxOutliers(k) * static_cast<int64_t>(sizeof(OutlierPatch));
  }
  static int64_t PatchSumBytes(int64_t k) {
    return k / kActivationStep * kFrozenGroupRows * static_cast<int64_t>(sizeof(int32_t));
  }
};

// What the patches of the cursor's group, of kind ecq, change for the token.
void SumPatches(StreamCursor& cursor, const TokenScratch& scratch, CodedToken& token) {
  const int64_t k = cursor.stream.cols;
  const int8_t* quants = token.activations->quants;
  std::fill_n(scratch.patch_sums, k / kActivationStep * kFrozenGroupRows, 0);
  token.n_outlier_patches = 0;
  TakePatches(cursor, kFrozenGroupRows * k, [&](int64_t weight, uint8_t value) {
    const int64_t col = weight / kFrozenLanes * kFrozenColsOfVector + weight % kFrozenColsOfVector;
    const int64_t row = weight % kFrozenLanes / kFrozenColsOfVector;
    const int added = kFrozenPatchUnit * static_cast<int8_t>(value);
    scratch.patch_sums[col / kActivationStep * kFrozenGroupRows + row] += added * quants[col];
    if (scratch.is_outlier[col] == 0) return;
    scratch.outlier_patches[token.n_outlier_patches++] = {.col = static_cast<int32_t>(col),
                                                          .row = static_cast<int16_t>(row),
                                                          .added = static_cast<int16_t>(added)};
  });
}

// The rows of a stream times one token, decoded in registers.
void MultiplyStream(const KernelTable& kernels, StreamCursor& cursor,
                    const Activations& activations, const TokenScratch& scratch, float* out) {
  CodedToken token{.activations = &activations,
                   .kept = scratch.kept,
                   .patch_sums = scratch.patch_sums,
                   .outlier_patches = scratch.outlier_patches,
                   .has_outliers = scratch.has_outliers};
  while (cursor.group < cursor.stream.groups()) {
    if (cursor.stream.kind == FrozenKind::kEcq) SumPatches(cursor, scratch, token);
    kernels.multiply_coded_group(cursor, token, out);
    out += kFrozenGroupRows;
  }
}

void FindOutliers(const Activations& activations, const TokenScratch& scratch) {
  std::fill_n(scratch.has_outliers, activations.k / kActivationStep, uint8_t{0});
  std::fill_n(scratch.is_outlier, activations.k, uint8_t{0});
  for (int32_t i = 0; i < OutlierCount(activations, 0); ++i) {
    const int32_t col = activations.outliers[i].index;
    scratch.has_outliers[col / kActivationStep] = 1;
    scratch.is_outlier[col] = 1;
  }
}

// Whether products with one token are decoded in registers.
bool DecodesInRegisters(const KernelTable& kernels, const TileDecoder& decoder) {
  return kernels.multiply_coded_group != nullptr && decoder.name == std::string_view("avx512vbmi2");
}

}  // namespace

int64_t CodedScratchBytes(FrozenKind kind, int64_t k) {
  // Groups packed and not.
  return std::max(
      ToLines(MatMulScratchBytes(k)) + 2 * kMostGroups * ToLines(ThawedGroupBytes(kind, k)),
      TokenScratch::Bytes(k));
}

void MultiplyCoded(const KernelTable& kernels, const TileDecoder& decoder, const CodedRows& weights,
                   int64_t row_begin, int64_t row_end, const Activations& activations, float* out,
                   int64_t out_stride, std::byte* scratch) {
  const int64_t per_stream = weights.rows_per_stream;
  THAW_CHECK(row_begin % per_stream == 0);
  THAW_CHECK(row_end % per_stream == 0 || row_end == weights.n_rows);
  const ElementType type = ThawedType(weights.kind);
  const int64_t group_bytes = ThawedGroupBytes(weights.kind, weights.k);
  std::byte* packed = scratch + ToLines(MatMulScratchBytes(weights.k));
  std::byte* unpacked = packed + kMostGroups * ToLines(group_bytes);
  const int64_t groups_at_once = activations.n_tokens <= kFewTokens ? 1 : kMostGroups;
  const bool in_registers = activations.n_tokens == 1 && DecodesInRegisters(kernels, decoder);
  const TokenScratch token_scratch(weights.k, scratch);
  if (in_registers && weights.kind == FrozenKind::kEcq) FindOutliers(activations, token_scratch);
  const std::byte* at = weights.data;
  for (int64_t row = 0; row < row_end; row += per_stream) {
    const FrozenStream stream = TrustedFrozenStream(weights.kind, weights.k, at);
    at += stream.bytes;
    if (row < row_begin) continue;
    StreamCursor cursor(stream);
    if (in_registers) {
      MultiplyStream(kernels, cursor, activations, token_scratch, out + row);
      continue;
    }
    for (int64_t group = 0; group < stream.groups(); group += groups_at_once) {
      const int64_t n = std::min(groups_at_once, stream.groups() - group);
      for (int64_t i = 0; i < n; ++i) DecodeGroup(decoder, cursor, packed + i * group_bytes);
      WeightRows rows{.type = type,
                      .data = packed,
                      .n_rows = n * kFrozenGroupRows,
                      .k = weights.k,
                      .is_packed = true};
      if (!kernels.packs_rows) {
        Unpack(type, rows.k, rows.n_rows, packed, unpacked);
        rows.data = unpacked;
        rows.is_packed = false;
      }
      kernels.matmul(rows, 0, rows.n_rows, activations, out + row + group * kFrozenGroupRows,
                     out_stride, scratch);
    }
  }
}

}  // namespace thaw
