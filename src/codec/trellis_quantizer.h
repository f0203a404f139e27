// The quantizer of the kind `ecq`: weights to integers that keep to the trellis (docs/format.md,
// section 5), chosen for the least error and cost together.
//
// A row's scale is `step` times its root mean square. For every lane the path through the eight
// states of the trellis is searched (trellis_search.h) that minimises
//
//   sum of column weight * (weight / scale - q)^2 + 0.35 * bits of the numbers
//
// with column weights of mean 1 and the bits that numbers cost in a sample of the tensor. Then the
// row's scale becomes the one of least error for these integers.
//
// A block of 32 columns whose largest weight is beyond 127 scales gets a shift. Scales are halves:
// rows so small that theirs rounds to 0 become zeros, and of rows beyond 127 * 65504 the largest
// weights are cut off; both show in `error`.
//
// Pure functions; a quantizer is const after Learn and may be used by any thread. The result for a
// group of 16 rows depends on the group and the quantizer alone. Costs: trellis_quantizer_bench.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/stream_encoder.h"
#include "codec/trellis_search.h"

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
  // row's root mean square. `column_weights`: [cols], positive, or empty for 1. Quantizes the
  // sample three times.
  static TrellisQuantizer Learn(int64_t cols, std::span<const float> sample, double step,
                                std::span<const float> column_weights);

  // The same for the step that gives this relative_rmse() within 0.1 %, or these bits_per_weight()
  // within 0.003. Where none does, the nearest between steps of 1/40 (integers of 8 bits allow no
  // error below 0.013 to 0.018, at 6.4 bits) and 4: compare what is asked with what is found.
  // Learns some 3 times, at most 10.
  static TrellisQuantizer ForError(int64_t cols, std::span<const float> sample,
                                   double relative_rmse, std::span<const float> column_weights);
  static TrellisQuantizer ForBits(int64_t cols, std::span<const float> sample,
                                  double bits_per_weight, std::span<const float> column_weights);

  // Of the sample: what its stream takes per weight, all counted but the states; and
  // sqrt(error / energy).
  double bits_per_weight() const { return bits_per_weight_; }
  double relative_rmse() const { return relative_rmse_; }
  double step() const { return step_; }

  // `weights`: [rows, cols], rows a multiple of 16, all finite.
  QuantizedRows Quantize(int64_t rows, std::span<const float> weights) const;

 private:
  TrellisQuantizer() = default;
  struct Group;
  // Of row r of the group: its scale and shifts before the search, and the scale that fits best
  // after it.
  void ScaleRow(int64_t r, Group& group, QuantizedRows& out) const;
  void FitRow(int64_t r, const Group& group, QuantizedRows& out) const;

  int64_t cols_ = 0;
  double step_ = 0;
  double bits_per_weight_ = 0;
  double relative_rmse_ = 0;
  double mean_column_weight_ = 1;
  std::vector<float> column_weights_;  // [cols], of mean 1
  TrellisCosts costs_;
};

}  // namespace thaw
