// Which tensors of a model are frozen, and how their rows are cut into streams and tiles.
//
// Frozen are the matrices that a forward pass multiplies, of a size that the format
// (docs/format.md) and its overhead allow. Where a tensor has the rows of several, one after
// another, tiles begin where they do; where experts of a layer have tensors of their own, these
// become one frozen tensor. All others are kept as they are. Plain data and pure functions; no
// weights are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/frozen_format.h"
#include "gguf/gguf_file.h"

namespace thaw {

struct TensorPlan {
  std::string name;  // of the frozen tensor
  // Of the model's file, which must outlive the plan, all of one type and shape: one, or those of a
  // layer's experts, each with one of the matrices.
  std::vector<const TensorInfo*> tensors = {};
  // Why it is kept as it is; empty where it is to be frozen. What follows is for those.
  std::string kept_because;
  FrozenKind kind = FrozenKind::kEcq;
  int dimensions = 2;
  int64_t cols = 0;
  int64_t rows = 0;  // of a matrix
  int64_t matrices = 1;
  // A tile begins at each multiple of it within a matrix, `rows` or fewer: what a pass multiplies
  // as one begins and ends there.
  int64_t rows_per_part = 0;
  // Of its matrices, how many a token goes through: less than 1 for experts.
  double visited_share = 1;
  bool is_output = false;  // logits are products of it
  bool is_values = false;  // all its rows make values of attention

  bool is_frozen() const { return kept_because.empty(); }
  bool is_in_parts() const { return rows_per_part < rows; }
  int64_t weights() const { return cols * rows * matrices; }
  // As they are in the model's file.
  ElementType source_type() const { return tensors.front()->type; }
  uint64_t source_bytes() const;
};

struct PlanRules {
  bool is_lossless = false;       // BF16 alone, and F32 that may hold the same numbers
  std::vector<std::string> kept;  // patterns of names, * for any characters
};

// One for each tensor, in the order of the file; those of experts that are frozen together have one
// where the first of them stands. The errors of DescribeModel for a model that cannot be run;
// kInvalidArgument for one that holds frozen tensors already, and for a pattern that no tensor's
// name matches.
Result<std::vector<TensorPlan>> PlanFreezing(const GgufFile& file, const PlanRules& rules);

// Rows of each stream but the last of a matrix, whose weights are about half a Mi of ecq: as even
// as groups of 16 rows allow, and in a tensor of parts a divisor of their rows, which must be a
// multiple of 16.
int64_t RowsPerStream(const TensorPlan& plan);

// As many streams of `stream_bytes` as fit 512 KiB, the unit in which weights are read and kept;
// the same for all tiles of a matrix but the last, and a divisor of the streams of a part.
int64_t StreamsPerTile(const TensorPlan& plan, double stream_bytes);

}  // namespace thaw
