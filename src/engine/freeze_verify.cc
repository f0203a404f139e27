#include "engine/freeze_verify.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "codec/frozen_tile.h"
#include "engine/freeze_tensor.h"
#include "engine/tensor_rows.h"
#include "kernels/dequantize.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// The two sums are added in another order and partly as floats of 24 bits.
constexpr double kErrorTolerance = 1e-4;

// What a thread keeps from tile to tile.
struct TileScratch {
  std::vector<std::byte> tile;
  std::vector<std::byte> packed;
  std::vector<std::byte> stored;
  std::vector<std::byte> row;
  std::vector<float> source;
  std::vector<float> thawed;
  std::vector<uint16_t> source_bf16;
};

struct TileSums {
  double error = 0;
  double energy = 0;
  std::optional<Error> failure;
};

class TileVerifier {
 public:
  TileVerifier(const VerifyWork& work, const TensorPlan& plan, const FrozenTensor& frozen,
               std::shared_ptr<const File> file, std::vector<float> column_weights)
      : work_(work),
        plan_(plan),
        frozen_(frozen),
        file_(std::move(file)),
        column_weights_(std::move(column_weights)),
        decoder_(*work.decoder) {}

  // Rows of the tensor that a tile holds.
  RowRange RowsOf(int64_t tile) const {
    const FrozenTileRows rows = RowsOfTile(frozen_, static_cast<size_t>(tile));
    return {rows.row_begin, rows.row_count};
  }

  Result<void> Verify(int64_t tile, TileScratch& scratch, TileSums& sums) const {
    const FrozenTileEntry& entry = frozen_.tiles[static_cast<size_t>(tile)];
    const RowRange rows = RowsOf(tile);
    scratch.tile.resize(entry.bytes);
    THAW_TRY(ReadExactlyAt(*file_, entry.offset, scratch.tile));
    if (XXH3_64bits(scratch.tile.data(), scratch.tile.size()) != entry.hash) {
      return Fail(ErrorCode::kCorrupt, "{}: its {} bytes do not have its hash", Where(tile),
                  entry.bytes);
    }
    const int64_t group_bytes = ThawedGroupBytes(frozen_.kind, frozen_.cols);
    scratch.packed.resize(static_cast<size_t>(rows.count / kFrozenGroupRows * group_bytes));
    if (auto thawed = ThawTile(decoder_, frozen_.kind, frozen_.cols, frozen_.rows_per_stream,
                               rows.count, scratch.tile, scratch.packed.data());
        !thawed) {
      return Fail(std::move(thawed).error().In(Where(tile)));
    }
    for (int64_t row = 0; row < rows.count; row += kFrozenGroupRows) {
      THAW_TRY(CompareGroup(tile, {rows.first + row, kFrozenGroupRows},
                            scratch.packed.data() + row / kFrozenGroupRows * group_bytes, scratch,
                            sums));
    }
    return {};
  }

 private:
  std::string Where(int64_t tile) const {
    return fmt::format("{}: tensor '{}': tile {} at offset {}", file_->path(), plan_.name, tile,
                       frozen_.tiles[static_cast<size_t>(tile)].offset);
  }

  Result<void> CompareGroup(int64_t tile, RowRange rows, const std::byte* packed,
                            TileScratch& scratch, TileSums& sums) const {
    const auto weights = static_cast<size_t>(rows.count * frozen_.cols);
    const bool is_exact = frozen_.kind == FrozenKind::kBf16;
    scratch.row.resize(static_cast<size_t>(RowBytes(ThawedType(frozen_.kind), frozen_.cols)));
    if (is_exact) {
      scratch.source_bf16.resize(weights);
      THAW_ASSIGN(const bool fits,
                  ReadBf16Rows(*work_.input, plan_, rows, scratch.stored, scratch.source_bf16));
      if (!fits) return Fail(ErrorCode::kCorrupt, "{}: the input is no BF16", Where(tile));
    } else {
      scratch.source.resize(weights);
      THAW_TRY(ReadRows(*work_.input, plan_, rows, scratch.stored, scratch.source));
    }
    for (int64_t row = 0; row < rows.count; ++row) {
      CopyPackedRow(ThawedType(frozen_.kind), frozen_.cols, kFrozenGroupRows, packed, row,
                    scratch.row.data());
      const auto begin = static_cast<size_t>(row * frozen_.cols);
      if (!is_exact) {
        THAW_TRY(AddErrors(rows.first + row, begin, scratch, sums));
      } else if (std::memcmp(scratch.row.data(), &scratch.source_bf16[begin], scratch.row.size()) !=
                 0) {
        return Fail(ErrorCode::kCorrupt, "{}: row {} differs from the input", Where(tile),
                    rows.first + row);
      }
    }
    return {};
  }

  // Of the row in `scratch.row`, whose source begins at `begin`.
  Result<void> AddErrors(int64_t row, size_t begin, TileScratch& scratch, TileSums& sums) const {
    const auto cols = static_cast<size_t>(frozen_.cols);
    scratch.thawed.resize(cols);
    THAW_TRY(Dequantize(ElementType::kQ8_0, scratch.row, scratch.thawed));
    const size_t matrix = static_cast<size_t>(row / frozen_.rows);
    for (size_t col = 0; col < cols; ++col) {
      const double weight = scratch.source[begin + col];
      const double error = weight - scratch.thawed[col];
      const double of_column = column_weights_.empty() ? 1 : column_weights_[matrix * cols + col];
      sums.error += of_column * error * error;
      sums.energy += of_column * weight * weight;
    }
    return {};
  }

  const VerifyWork& work_;
  const TensorPlan& plan_;
  const FrozenTensor& frozen_;
  std::shared_ptr<const File> file_;
  std::vector<float> column_weights_;  // [matrices, cols], or empty
  const TileDecoder& decoder_;
};

Result<const TensorInfo*> FindFrozen(const VerifyWork& work, const TensorPlan& plan) {
  const TensorInfo* info = work.output->FindTensor(plan.name);
  const FrozenTensor* frozen = info == nullptr ? nullptr : info->frozen.get();
  if (frozen != nullptr && frozen->kind == plan.kind && frozen->dimensions == plan.dimensions &&
      frozen->cols == plan.cols && frozen->rows == plan.rows && frozen->matrices == plan.matrices) {
    return info;
  }
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor '{}' is not there, frozen with the kind and shape asked for",
              work.output->path(), plan.name);
}

Result<void> CheckSums(const VerifyWork& work, const VerifiedTensor& tensor, double error,
                       double energy) {
  const auto near = [](double found, double expected) {
    return std::abs(found - expected) <= kErrorTolerance * std::abs(expected);
  };
  if (near(error, tensor.error) && near(energy, tensor.energy)) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: tensor '{}': its sum of squared errors is {} of {}, but {} of {} was reported",
              work.output->path(), tensor.plan->name, error, energy, tensor.error, tensor.energy);
}

}  // namespace

Result<void> VerifyFrozenTensor(const VerifyWork& work, const VerifiedTensor& tensor,
                                FunctionRef<void(int64_t weights)> on_weights) {
  const TensorPlan& plan = *tensor.plan;
  THAW_ASSIGN(const TensorInfo* info, FindFrozen(work, plan));
  const FrozenTensor& frozen = *info->frozen;
  std::vector<float> column_weights;
  if (work.importance != nullptr && work.importance->Has(plan.name)) {
    THAW_ASSIGN(ColumnImportance columns,
                work.importance->Read(plan.name, plan.cols, plan.matrices));
    column_weights = std::move(columns.weights);
  }
  const TileVerifier verifier(work, plan, frozen, work.output->file(info->file_index),
                              std::move(column_weights));
  const auto count = std::ssize(frozen.tiles);
  const int64_t batch = work.pool->thread_count();
  std::vector<TileScratch> scratch(static_cast<size_t>(batch));
  double error = 0;
  double energy = 0;
  for (int64_t begin = 0; begin < count; begin += batch) {
    if (work.cancel != nullptr && *work.cancel) return Fail(ErrorCode::kCancelled, "stopped");
    std::vector<TileSums> sums(static_cast<size_t>(std::min(batch, count - begin)));
    work.pool->ParallelFor(std::ssize(sums), 1, [&](int64_t first, int64_t end, int worker) {
      for (int64_t i = first; i < end; ++i) {
        TileSums& own = sums[static_cast<size_t>(i)];
        if (auto verified = verifier.Verify(begin + i, scratch[static_cast<size_t>(worker)], own);
            !verified) {
          own.failure = std::move(verified).error();
        }
      }
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].failure) return Fail(std::move(*sums[i].failure));
      error += sums[i].error;
      energy += sums[i].energy;
      on_weights(verifier.RowsOf(begin + static_cast<int64_t>(i)).count * plan.cols);
    }
  }
  return plan.kind == FrozenKind::kEcq ? CheckSums(work, tensor, error, energy) : Result<void>();
}

uint64_t VerifyingBytes(const TensorPlan& plan) {
  // Coded and thawed streams of a tile of 512 KiB and at least 2 bits a weight, and a group of
  // rows.
  constexpr int64_t kWeightsOfTile = 2 << 20;
  constexpr int64_t kBytesPerWeight = 3;
  const int64_t rows = RowsPerStream(plan);
  return static_cast<uint64_t>(kBytesPerWeight * std::max(kWeightsOfTile, rows * plan.cols));
}

}  // namespace thaw
