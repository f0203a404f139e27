// What KernelTable::multiply_coded_group is given beside the coded rows: one token's activations
// and what the patches of the group (docs/format.md, section 4) change for them. Plain structs, so
// that code compiled for a larger instruction set can read them without instantiating anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"

namespace thaw {

// A patch of a weight that meets an outlier, which is multiplied apart.
struct OutlierPatch {
  int32_t col;
  int16_t row;    // of the group
  int16_t added;  // to its integer
};

struct CodedToken {
  const Activations* activations = nullptr;
  std::byte* kept = nullptr;  // scratch, kKeptBlocks of kKeptBlockBytes aligned to 64

  // Of ecq alone.
  // [k / 32, 16], aligned to 64: what the group's patches add to the sums of products of a block.
  const int32_t* patch_sums = nullptr;
  const OutlierPatch* outlier_patches = nullptr;
  int64_t n_outlier_patches = 0;
  const uint8_t* has_outliers = nullptr;  // [k / 32]: whether a block of the activations has any
};

// Of ecq, blocks that meet outliers are kept until those of the segment are multiplied: 8 lines of
// integers and one of scales. One more is written to than can be kept.
inline constexpr int64_t kKeptBlockBytes = 9 * 64;
inline constexpr int64_t kKeptBlocks = kOutlierSegment / kActivationStep + 1;

}  // namespace thaw
