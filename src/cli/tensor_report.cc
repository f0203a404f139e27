#include "cli/tensor_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include "base/function_ref.h"
#include "base/interrupt.h"
#include "cli/npy_writer.h"
#include "codec/frozen_tile.h"
#include "kernels/dequantize.h"

namespace thaw::cli {
namespace {

constexpr size_t kFirstElements = 8;

// Elements handled at a time: 256 KiB of floats, and a whole number of blocks of every type.
constexpr int64_t kPieceElements = 65536;

// Sums up elements as they come.
class Summary {
 public:
  void Add(std::span<const float> elements) {
    for (const float element : elements) Add(element);
  }

  TensorSummary Finish() && {
    const auto n = static_cast<double>(result_.elements - result_.not_finite);
    if (n > 0) {
      result_.min = min_;
      result_.max = max_;
      result_.mean = sum_ / n;
      result_.rms = std::sqrt(squares_ / n);
    }
    return std::move(result_);
  }

 private:
  void Add(float element) {
    ++result_.elements;
    if (result_.first.size() < kFirstElements) result_.first.push_back(element);
    if (!std::isfinite(element)) {
      ++result_.not_finite;
      return;
    }
    if (element == 0) ++result_.zeros;
    const double value = element;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    sum_ += value;
    squares_ += value * value;
  }

  TensorSummary result_;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0;
  double squares_ = 0;
};

using OnPiece = FunctionRef<Result<void>(std::span<const float> piece)>;

// Calls `on_piece` for the elements of a tensor, some after the others: of a frozen one tile by
// tile.
Result<void> ForEachPiece(const GgufFile& file, const TensorInfo& tensor, OnPiece on_piece) {
  std::vector<float> floats;
  if (tensor.frozen != nullptr) {
    const File& holder = *file.file(tensor.file_index);
    // The decoder that every CPU has: looking at one tensor is no matter of speed.
    for (size_t tile = 0; tile < tensor.frozen->tiles.size(); ++tile) {
      THAW_ASSIGN(const auto rows,
                  ReadFrozenTile(holder, tensor.name, *tensor.frozen, tile, PortableDecoder()));
      floats.resize(
          static_cast<size_t>(RowsOfTile(*tensor.frozen, tile).row_count * tensor.dims[0]));
      THAW_TRY(Dequantize(tensor.type, rows, floats));
      THAW_TRY(on_piece(floats));
    }
    return {};
  }
  const int64_t elements = tensor.elements();
  std::vector<std::byte> stored(
      static_cast<size_t>(RowBytes(tensor.type, std::min(elements, kPieceElements))));
  floats.resize(static_cast<size_t>(std::min(elements, kPieceElements)));
  for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, elements - begin);
    const auto bytes = std::span(stored).first(static_cast<size_t>(RowBytes(tensor.type, count)));
    const auto piece = std::span(floats).first(static_cast<size_t>(count));
    THAW_TRY(file.ReadTensor(tensor, static_cast<uint64_t>(RowBytes(tensor.type, begin)), bytes));
    THAW_TRY(Dequantize(tensor.type, bytes, piece));
    THAW_TRY(on_piece(piece));
  }
  return {};
}

}  // namespace

std::vector<int64_t> NumpyShape(const TensorInfo& tensor) {
  const auto dims = tensor.extents();
  return {dims.rbegin(), dims.rend()};
}

Result<TensorSummary> ReadTensorElements(const GgufFile& file, const TensorInfo& tensor,
                                         const std::string& npy_path) {
  static_assert(kPieceElements % 256 == 0);
  std::optional<NpyWriter> npy;
  if (!npy_path.empty()) {
    THAW_ASSIGN(npy, NpyWriter::Create(npy_path, NumpyShape(tensor)));
  }
  Summary summary;
  THAW_TRY(ForEachPiece(file, tensor, [&](std::span<const float> piece) -> Result<void> {
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    summary.Add(piece);
    return npy ? npy->Append(piece) : Result<void>();
  }));
  if (npy) THAW_TRY(npy->Commit());
  return std::move(summary).Finish();
}

}  // namespace thaw::cli
