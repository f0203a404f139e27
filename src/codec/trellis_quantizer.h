// The quantizer of the kind `ecq`: weights to integers that keep to the trellis (docs/format.md,
// section 5), chosen for the least error and cost together.
//
// A row's scale is `step` times its root mean square. For every lane the path through the eight
// states of the trellis is searched (Viterbi) that minimises
//
//   sum of column weight * (weight - scale * q)^2 + lambda * bits of the numbers
//
// with the bits that numbers cost in a sample of the tensor, and lambda a fixed share of scale^2.
//
// Pure functions; a quantizer is const after Learn and may be used by any thread. The result for a
// group of 16 rows depends on the group and the quantizer alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/stream_encoder.h"

namespace thaw {

struct QuantizedRows {
  std::vector<int8_t> q;         // [rows, cols]
  std::vector<uint16_t> scales;  // [rows], f16
  std::vector<BlockShift> shifts;
  double error = 0;   // sum of column weight * (weight - decoded)^2
  double energy = 0;  // sum of column weight * weight^2
};

class TrellisQuantizer {
 public:
  // Learns from `sample`, rows of `cols` floats (whole groups of 16), for a step in units of a
  // row's root mean square. `column_weights`: [cols], positive, or empty for 1.
  static TrellisQuantizer Learn(int64_t cols, std::span<const float> sample, double step,
                                std::span<const float> column_weights);

  // Of the sample: what its stream takes per weight, all counted but the states; and
  // sqrt(error / energy).
  double bits_per_weight() const { return bits_per_weight_; }
  double relative_rmse() const { return relative_rmse_; }
  double step() const { return step_; }

  // `weights`: [rows, cols], rows a multiple of 16, all finite.
  QuantizedRows Quantize(int64_t rows, std::span<const float> weights) const;

 private:
  TrellisQuantizer() = default;

  int64_t cols_ = 0;
  double step_ = 0;
  double bits_per_weight_ = 0;
  double relative_rmse_ = 0;
  std::vector<float> column_weights_;
  std::vector<float> costs_;  // lambda in units of scale^2 times the bits of each number m
};

}  // namespace thaw
