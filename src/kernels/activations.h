// The activations of a batch, prepared once for all matmuls that read them.
//
// Float weights multiply the floats, those of BF16 a copy that is rounded to their precision where
// the table has products of such numbers and no quantized weights read the same activations, and
// those of F16 likewise one in two parts or of integers (docs/decisions/0020, 0021, 0023).
// Quantized weights multiply an int8 copy with one scale for each 64 values, or for each 256 where
// all weights that meet it have scales that are whole numbers times one of a block of 256
// (docs/decisions/0010), so that the products are integer. The sums of each 16 quantized values let
// a block's offset (its minimum) be added with one multiplication: sum((s q + o) a) = s sum(q a) +
// o sum(a). They sum the quantized values, not the floats: rounding errors of `a` then meet the
// weight s q + o itself, which is small, rather than s q, which is not.
//
// A few numbers of a token are many times larger than the rest (the same channels in every layer).
// In int8 such an outlier would take the whole range of its block and leave the other 63 values a
// few steps, which is where most of the error of a forward pass comes from. So numbers above
// kOutlierRatio (kWideOutlierRatio) times the token's root mean square are kept as floats and
// multiplied apart; their quants are 0. (docs/decisions/0003-outliers.md has the measurement.)
//
// Everything is a view: the caller owns the floats and the memory of the copy. Tokens are
// independent, so different threads may quantize different tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/element_type.h"

namespace thaw {

inline constexpr int64_t kActivationBlock = 64;  // values that share a scale; the last may be half
inline constexpr int64_t kWideActivationBlock = 256;  // values that share one in a wide copy
inline constexpr int64_t kActivationStep = 32;        // what lengths are multiples of
inline constexpr int64_t kActivationSum = 16;  // values under one sum: the finest weight scale
inline constexpr int64_t kStepsOfScale = kActivationBlock / kActivationStep;
inline constexpr int64_t kSumsOfScale = kActivationBlock / kActivationSum;

// What the magnitudes of 16 quants of a wide copy add up to at most: times 32, the largest number
// of 6 bits, as times twice 15, the largest of 4 bits, it fits 16 bits.
inline constexpr int32_t kMostOfWideSum = 1023;

// So that the sum of 64 products with numbers of up to 2^14 fits 32 bits.
inline constexpr int32_t kMostOfShorts = (1 << 17) - 1;

// |value| above this many times the root mean square of the token is an outlier. 4 leaves 0.7 % of
// the numbers of a real model apart and cuts the error of its logits by 3.7; 3 costs twice as much
// for the same error. Wide copies leave half as many apart (docs/decisions/0003-outliers.md).
inline constexpr int64_t kOutlierRatio = 4;
inline constexpr int64_t kWideOutlierRatio = 5;

// Values whose outliers are counted together.
inline constexpr int64_t kOutlierSegment = 2048;

inline constexpr int32_t kCorrectionUnit = 128;
inline constexpr int32_t kPairUnit = 64;

// What is made of the floats for the weights that read them. Where weights want different copies,
// the last of those serves all.
enum class ActivationCopy {
  kNone,
  kRounded,  // bfloat16
  kSplit,    // that, and what it leaves, rounded likewise
  kShorts,   // int16, kActivationBlock values to a scale
  kWide,     // int8, kWideActivationBlock values to a scale
  kNarrow,   // int8, kActivationBlock values to a scale
};

struct Outlier {
  int32_t index;  // in [0, k)
  float value;
};

struct Activations {
  const float* values = nullptr;  // [n_tokens, k]; may be absent where no weights are floats
  int64_t n_tokens = 0;
  int64_t k = 0;
  // kNone when k is no multiple of 32, or of 64 for kShorts: such rows can only be multiplied by
  // float weights. Of a wide copy `scales` holds each scale four times over, and kMostOfWideSum
  // holds.
  ActivationCopy copy = ActivationCopy::kNone;

  // The rounded copy, [n_tokens, RoundedStride(k)]: bfloat16, ties to even. As the others it is
  // written by KernelTable::quantize_activations. A split one has `residues` laid out alike: of the
  // values less the rounded numbers.
  uint16_t* rounded = nullptr;
  uint16_t* residues = nullptr;

  // The copy of shorts, [n_tokens, RoundedStride(k)], with `scales`. The magnitudes of those that
  // share one add up to kMostOfShorts at most.
  int16_t* shorts = nullptr;

  int8_t* quants = nullptr;    // [n_tokens, QuantStride(k)], within +-127
  float* scales = nullptr;     // [n_tokens, ActivationBlocks(k)]: value = scale * quant, or short
  float* sums = nullptr;       // [n_tokens, k / 16]: the sums of 16 quants, whole numbers
  float* step_sums = nullptr;  // [n_tokens, k / 32]: of 32
  // The same in 16 bits, for products of pairs of them; written for wide copies alone.
  int16_t* half_sums = nullptr;
  int16_t* half_step_sums = nullptr;

  // -kCorrectionUnit times the sum of 16 and of 32 quants. What unsigned weights q + z, z a power
  // of two up to that unit, make a sum of products too large by is a shift of it:
  // sum(q a) = sum((q + z) a) - z sum(a).
  int32_t* corrections = nullptr;       // [n_tokens, k / 16]
  int32_t* step_corrections = nullptr;  // [n_tokens, k / 32]
  // [n_tokens, k / 32], written for wide copies alone: those of the second 16 of each 32, plus
  // 2^15.
  int32_t* second_corrections = nullptr;

  // -kPairUnit times the sum of the quants that are the first or second of their four, and of those
  // that are the third or fourth, modulo 2^16: what unsigned weights q + kPairUnit make sums of
  // products of pairs too large by. Of 8 quants; of 16, written for wide copies alone.
  int16_t* pair_corrections = nullptr;       // [n_tokens, k / 8, 2]
  int16_t* wide_pair_corrections = nullptr;  // [n_tokens, k / 16, 2]

  // [n_tokens, MaxOutliers(k)], indexes ascending. outlier_ends [n_tokens, OutlierSegments(k)]: how
  // many of a token's lie in this segment or before it.
  Outlier* outliers = nullptr;
  int32_t* outlier_ends = nullptr;
};

// Always inlined, as the next four are: files that are compiled for an instruction set of their
// own call them, and their copies must not become everybody's.

// Scales of a token.
[[gnu::always_inline]] constexpr int64_t ActivationBlocks(int64_t k) {
  return (k + kActivationBlock - 1) / kActivationBlock;
}

// Bytes from the quants of a token to the next one's: an odd number of cache lines, so that the
// same elements of the tokens of a tile do not meet in one set of a cache.
[[gnu::always_inline]] constexpr int64_t QuantStride(int64_t k) {
  constexpr int64_t kLine = 64;
  return ((k + kLine - 1) / kLine | 1) * kLine;
}

// Numbers from one token of a rounded copy, or one of shorts, to the next one's: so many lines for
// the same reason.
[[gnu::always_inline]] constexpr int64_t RoundedStride(int64_t k) {
  constexpr int64_t kNumberBytes = 2;
  return QuantStride(kNumberBytes * k) / kNumberBytes;
}

// How many outliers a token can have: n numbers above r times the root mean square of k numbers
// have a sum of squares above n r^2 / k times that of all, so n < k / r^2.
[[gnu::always_inline]] constexpr int64_t MaxOutliers(int64_t k) {
  return k / (kOutlierRatio * kOutlierRatio);
}

[[gnu::always_inline]] constexpr int64_t OutlierSegments(int64_t k) {
  return (k + kOutlierSegment - 1) / kOutlierSegment;
}

// The scale of number i of a token.
inline float ScaleOf(const Activations& a, int64_t token, int64_t i) {
  return a.scales[token * ActivationBlocks(a.k) + i / kActivationBlock];
}

// How many outliers a token has.
inline int32_t OutlierCount(const Activations& a, int64_t token) {
  const int64_t segments = OutlierSegments(a.k);
  return segments == 0 ? 0 : a.outlier_ends[(token + 1) * segments - 1];
}

// Bytes that ViewActivations lays any copy out in, or any but a split one, which is the largest; 0
// when k is no multiple of 32.
int64_t ActivationBytes(int64_t n_tokens, int64_t k, bool may_be_split = true);

// Activations over `values` [n_tokens, k] whose copy lies in `memory`: ActivationBytes of them,
// aligned to 64. The copy is not filled in yet. A wide one takes k in whole wide blocks.
Activations ViewActivations(const float* values, int64_t n_tokens, int64_t k, std::byte* memory,
                            ActivationCopy copy = ActivationCopy::kNarrow);

// Tokens [first, first + count) of others.
Activations TokensOf(const Activations& all, int64_t first, int64_t count);

// Copies what `from` has of a token besides its values into `to`, a view of the same length and
// copy.
void CopyToken(const Activations& from, int64_t from_token, const Activations& to,
               int64_t to_token);

}  // namespace thaw
