// Which tensors of a model are frozen, and how their rows are cut into streams and tiles.
//
// Frozen are the matrices that a forward pass multiplies, whole ones of two dimensions or those of
// all experts of a layer, of a size that the format (docs/format.md) and its overhead allow. All
// others are kept as they are. Plain data and pure functions; no weights are read.
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
  const TensorInfo* tensor = nullptr;  // of the model's file, which must outlive the plan
  // Why it is kept as it is; empty where it is to be frozen. What follows is for those.
  std::string kept_because;
  FrozenKind kind = FrozenKind::kEcq;
  int dimensions = 2;
  int64_t cols = 0;
  int64_t rows = 0;  // of a matrix
  int64_t matrices = 1;
  // Of its matrices, how many a token goes through: less than 1 for experts.
  double visited_share = 1;

  bool is_output = false;  // logits are products of it

  bool is_frozen() const { return kept_because.empty(); }
  int64_t weights() const { return cols * rows * matrices; }
};

struct PlanRules {
  bool is_lossless = false;       // BF16 alone, and F32 that may hold the same numbers
  std::vector<std::string> kept;  // patterns of names, * for any characters
};

// One for each tensor, in the order of the file. The errors of DescribeModel for a model that
// cannot be run; kInvalidArgument for one that holds frozen tensors already, and for a pattern that
// no tensor's name matches.
Result<std::vector<TensorPlan>> PlanFreezing(const GgufFile& file, const PlanRules& rules);

// Rows of each stream but the last of a matrix: as even as groups of 16 rows allow, of about
// WeightsOfStream weights.
int64_t RowsPerStream(FrozenKind kind, int64_t cols, int64_t rows);

// As many streams of `stream_bytes` as fit 512 KiB, the unit in which weights are read and kept;
// the same for all tiles of a matrix of `streams` but the last.
int64_t StreamsPerTile(int64_t streams, double stream_bytes);

}  // namespace thaw
