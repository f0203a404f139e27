// One tensor of a model file as numbers: what they are like, and all of them as a NumPy file.
//
// Tensors are read and dequantized a piece at a time, so memory stays at about a MiB whatever their
// size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"

namespace thaw::cli {

// Of the elements as float32. NaN and infinite ones are counted and otherwise left out.
struct TensorSummary {
  int64_t elements = 0;
  int64_t zeros = 0;
  int64_t not_finite = 0;
  double min = 0;
  double max = 0;
  double mean = 0;
  double rms = 0;            // sqrt(mean of squares)
  std::vector<float> first;  // up to 8 elements
};

// Reads all of the tensor; also writes it to `npy_path`, unless that is empty, in the shape that
// NumpyShape gives. kCancelled when a signal came.
Result<TensorSummary> ReadTensorElements(const GgufFile& file, const TensorInfo& tensor,
                                         const std::string& npy_path);

// The tensor's own dimensions with the contiguous one last: rows before columns.
std::vector<int64_t> NumpyShape(const TensorInfo& tensor);

}  // namespace thaw::cli
