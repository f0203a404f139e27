#include "engine/freeze_tensor.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "codec/stream_encoder.h"
#include "engine/tensor_rows.h"

namespace thaw {
namespace {

// What a thread needs for each weight of its stream beside the bytes in the file: 4 as a float, 1
// as an integer, 2 for the paths of the trellis, and 5 while the stream is coded, with room to
// grow.
constexpr uint64_t kWorkingBytesPerWeight = 14;

// Coded weights take a third of this where they are worth freezing; exponents all different, 2.1.
constexpr uint64_t kCodedBytesPerWeight = 2;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where a tensor's streams lie in it.
class StreamLayout {
 public:
  StreamLayout(const TensorPlan& plan, double bits_per_weight)
      : rows_(plan.rows),
        matrices_(plan.matrices),
        rows_per_stream_(RowsPerStream(plan)),
        of_matrix_(DivideUp(rows_, rows_per_stream_)) {
    const double coded = static_cast<double>(rows_per_stream_ * plan.cols) * bits_per_weight / 8;
    const double states = kFrozenStates * sizeof(uint16_t);
    streams_per_tile_ = StreamsPerTile(plan, coded + states);
  }

  int64_t rows_per_stream() const { return rows_per_stream_; }
  int64_t streams_per_tile() const { return streams_per_tile_; }
  int64_t count() const { return of_matrix_ * matrices_; }
  int64_t matrix_of(int64_t stream) const { return stream / of_matrix_; }
  bool ends_tile(int64_t stream) const {
    const int64_t within = stream % of_matrix_ + 1;
    return within == of_matrix_ || within % streams_per_tile_ == 0;
  }
  RowRange rows(int64_t stream) const {
    const int64_t first = stream % of_matrix_ * rows_per_stream_;
    return {matrix_of(stream) * rows_ + first, std::min(rows_per_stream_, rows_ - first)};
  }

 private:
  int64_t rows_;
  int64_t matrices_;
  int64_t rows_per_stream_;
  int64_t of_matrix_;
  int64_t streams_per_tile_ = 1;
};

// A stream, encoded.
struct CodedStream {
  std::vector<std::byte> bytes;
  double error = 0;
  double energy = 0;
  bool is_exact = true;
  std::optional<Error> failure;
};

// What a thread keeps from stream to stream.
struct StreamScratch {
  std::vector<std::byte> stored;
  std::vector<float> floats;
  std::vector<uint16_t> bf16;
};

Result<void> EncodeEcq(const GgufFile& file, const TensorPlan& plan,
                       const TrellisQuantizer& quantizer, RowRange rows, StreamScratch& scratch,
                       CodedStream& out) {
  scratch.floats.resize(static_cast<size_t>(rows.count * plan.cols));
  THAW_TRY(ReadRows(file, plan, rows, scratch.stored, scratch.floats));
  const QuantizedRows quantized = quantizer.Quantize(rows.count, scratch.floats);
  AppendEcqStream(rows.count, plan.cols, quantized.q, quantized.scales, quantized.shifts,
                  out.bytes);
  out.error = quantized.error;
  out.energy = quantized.energy;
  return {};
}

Result<void> EncodeBf16(const GgufFile& file, const TensorPlan& plan, RowRange rows,
                        StreamScratch& scratch, CodedStream& out) {
  scratch.bf16.resize(static_cast<size_t>(rows.count * plan.cols));
  THAW_ASSIGN(out.is_exact, ReadBf16Rows(file, plan, rows, scratch.stored, scratch.bf16));
  if (out.is_exact) AppendBf16Stream(rows.count, plan.cols, scratch.bf16, out.bytes);
  return {};
}

// Puts streams together to tiles and writes them.
class TileWriter {
 public:
  TileWriter(FrozenTensor tensor, int64_t tiles, OutputFile& file)
      : tensor_(std::move(tensor)),
        offset_(static_cast<uint64_t>(FrozenHeadBytes(tiles))),
        file_(file) {}

  Result<void> Append(const CodedStream& stream, bool ends_tile) {
    tile_.insert(tile_.end(), stream.bytes.begin(), stream.bytes.end());
    if (!ends_tile) return {};
    const uint64_t hash = XXH3_64bits(tile_.data(), tile_.size());
    tensor_.tiles.push_back({.offset = offset_, .bytes = tile_.size(), .hash = hash});
    THAW_TRY(file_.Append(tile_));
    offset_ += tile_.size();
    bytes_ += tile_.size();
    tile_.clear();
    return {};
  }

  uint64_t bytes() const { return bytes_; }
  FrozenTensor Take() && { return std::move(tensor_); }

 private:
  FrozenTensor tensor_;
  std::vector<std::byte> tile_;
  uint64_t offset_;
  uint64_t bytes_ = 0;
  OutputFile& file_;
};

TileWriter StartTiles(const TensorPlan& plan, const StreamLayout& layout, OutputFile& file) {
  FrozenTensor tensor{.kind = plan.kind,
                      .dimensions = plan.dimensions,
                      .cols = plan.cols,
                      .rows = plan.rows,
                      .matrices = plan.matrices,
                      .rows_per_stream = layout.rows_per_stream(),
                      .streams_per_tile = layout.streams_per_tile(),
                      .tiles = {}};
  const int64_t tiles = tensor.tiles_per_matrix() * tensor.matrices;
  return {std::move(tensor), tiles, file};
}

}  // namespace

Result<FreezeOutcome> FreezeTensor(const FreezeWork& work, const TensorPlan& plan,
                                   const FreezeRecipe& recipe, OutputFile& tiles,
                                   FunctionRef<void(int64_t weights)> on_weights) {
  const bool is_ecq = plan.kind == FrozenKind::kEcq;
  const auto quantizers = static_cast<int64_t>(recipe.quantizers.size());
  THAW_CHECK(!is_ecq || quantizers == 1 || quantizers == plan.matrices);
  const StreamLayout layout(plan, recipe.bits_per_weight);
  TileWriter writer = StartTiles(plan, layout, tiles);
  std::vector<StreamScratch> scratch(static_cast<size_t>(work.pool->thread_count()));
  FreezeOutcome outcome;
  for (int64_t begin = 0; begin < layout.count(); begin += work.batch_streams) {
    if (work.cancel != nullptr && *work.cancel) return Fail(ErrorCode::kCancelled, "stopped");
    std::vector<CodedStream> batch(
        static_cast<size_t>(std::min(work.batch_streams, layout.count() - begin)));
    const auto encode = [&](int64_t first, int64_t end, int worker) {
      for (int64_t i = first; i < end; ++i) {
        CodedStream& out = batch[static_cast<size_t>(i)];
        StreamScratch& own = scratch[static_cast<size_t>(worker)];
        const RowRange rows = layout.rows(begin + i);
        const auto matrix = quantizers > 1 ? layout.matrix_of(begin + i) : 0;
        Result<void> done =
            is_ecq ? EncodeEcq(*work.file, plan, recipe.quantizers[static_cast<size_t>(matrix)],
                               rows, own, out)
                   : EncodeBf16(*work.file, plan, rows, own, out);
        if (!done) out.failure = std::move(done).error();
      }
    };
    work.pool->ParallelFor(static_cast<int64_t>(batch.size()), 1, encode);
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t stream = begin + static_cast<int64_t>(i);
      if (batch[i].failure) return Fail(std::move(*batch[i].failure));
      if (!batch[i].is_exact) return FreezeOutcome{.is_exact = false};
      THAW_TRY(writer.Append(batch[i], layout.ends_tile(stream)));
      outcome.error += batch[i].error;
      outcome.energy += batch[i].energy;
      on_weights(layout.rows(stream).count * plan.cols);
    }
  }
  outcome.tile_bytes = writer.bytes();
  outcome.tensor = std::move(writer).Take();
  return outcome;
}

uint64_t WorkerBytes(const TensorPlan& plan) {
  const int64_t rows = RowsPerStream(plan);
  const auto weights = static_cast<uint64_t>(rows * plan.cols);
  const auto stored = static_cast<uint64_t>(rows * RowBytes(plan.source_type(), plan.cols));
  return stored + kWorkingBytesPerWeight * weights;
}

uint64_t StreamBytesAtMost(const TensorPlan& plan) {
  const int64_t weights = RowsPerStream(plan) * plan.cols;
  return kCodedBytesPerWeight * static_cast<uint64_t>(weights);
}

}  // namespace thaw
