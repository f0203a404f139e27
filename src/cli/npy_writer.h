// Writes a float32 array as a NumPy file, piece by piece, in bounded memory.
//
// The format is version 1.0 of
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. The file appears whole at
// Commit or not at all (io/output_file.h). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/output_file.h"

namespace thaw::cli {

class NpyWriter {
 public:
  // `shape` in NumPy's order, the contiguous dimension last; its product fits int64_t.
  static Result<NpyWriter> Create(const std::string& path, std::vector<int64_t> shape);

  // The next elements, in C order.
  Result<void> Append(std::span<const float> elements);

  // All elements of the shape must have been appended.
  Result<void> Commit();

 private:
  NpyWriter(OutputFile file, int64_t elements) : file_(std::move(file)), missing_(elements) {}

  OutputFile file_;
  int64_t missing_;  // elements not yet appended
};

// What stands before the elements: magic, version, length, description; a multiple of 64 bytes.
std::string NpyHeader(std::span<const int64_t> shape);

}  // namespace thaw::cli
