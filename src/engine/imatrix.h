// Importance matrices: how much each column of a model's matrices matters, from what a calibration
// text sent through them.
//
// Files are GGUF as llama.cpp's imatrix program writes them: general.type is "imatrix"; for a
// matrix NAME of `cols` columns, NAME.in_sum2 is F32 [cols, matrices], the sum of the squares of
// what each column was multiplied with, and NAME.counts F32 [1, matrices] how many vectors that
// were. `matrices` is 1, or how many experts the tensor holds: each has columns of its own.
//
// Nothing is kept but the directory: columns are read when asked for. Any thread may ask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"

namespace thaw {

struct ColumnImportance {
  // [matrices, cols]: mean squares, divided by their mean over the columns of a matrix, so that 1
  // is usual. At least kLeastColumnWeight. A matrix that nothing was counted for has 1 everywhere.
  std::vector<float> weights;
  // [matrices]: what was divided by; 0 for a matrix that nothing was counted for.
  std::vector<double> mean_squares;
};

// A column that the calibration text left silent can speak in another: it stays 1/1024 of the
// usual.
inline constexpr float kLeastColumnWeight = 0x1p-10F;

class ImportanceMatrix {
 public:
  // kUnsupported for the format before GGUF (.dat), kCorrupt for another kind of GGUF.
  static Result<ImportanceMatrix> Open(const std::string& path);

  bool Has(std::string_view tensor) const;

  // Of a tensor that it has. kCorrupt names the tensor for columns or matrices that are not as many
  // as these, and for numbers that are negative or not finite.
  Result<ColumnImportance> Read(std::string_view tensor, int64_t cols, int64_t matrices) const;

 private:
  explicit ImportanceMatrix(GgufFile file) : file_(std::move(file)) {}

  GgufFile file_;
};

}  // namespace thaw
