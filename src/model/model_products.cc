// Products of weights and activations: which rows a thread takes, tiles in memory first.
#include <algorithm>
#include <mutex>
#include <utility>

#include "base/round_up.h"
#include "base/stopwatch.h"
#include "kernels/coded_matmul.h"
#include "model/model.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// A thread takes one of so many parts of its share that are left: long runs, which are read in one
// stream, at first, and short ones at the end, so that another thread can take them if it is done
// sooner.
constexpr int64_t kPartsOfShare = 2;

// A run of fewer rows than this costs more in bookkeeping than it evens out.
constexpr int64_t kMinRowsPerItem = 2 * kPackedGroupRows;

}  // namespace

void Model::PlanWork(std::span<const Product> products) {
  work_items_.clear();
  share_ends_.clear();
  visit_count_ = 0;
  in_memory_.clear();
  streamed_.clear();
  int64_t rows_in_memory = 0;
  int64_t rows_streamed = 0;
  for (const Product& product : products) {
    if (product.weights->rows == 0) continue;
    const TileMap::Range tiles = cache_.map().tiles_of(product.weights->matrix, product.expert);
    for (int32_t tile = tiles.first; tile < tiles.first + tiles.count; ++tile) {
      const bool is_in_memory =
          cache_.HasPlace(tile) || (cache_.map().is_chosen(tile) && cache_.IsResident(tile));
      (is_in_memory ? in_memory_ : streamed_).push_back({&product, tile});
      (is_in_memory ? rows_in_memory : rows_streamed) += cache_.map().tile(tile).row_count;
    }
  }

  const int64_t threads = pool_.thread_count();
  int64_t rows_left = rows_in_memory;
  // Of the share of the thread that is planned for.
  const auto left_of_share = [&] {
    const int64_t threads_behind = threads - 1 - std::ssize(share_ends_);
    return rows_left - rows_in_memory * threads_behind / threads;
  };
  const auto end_shares = [&] {
    while (std::ssize(share_ends_) < threads && left_of_share() <= 0) {
      share_ends_.push_back(std::ssize(work_items_));
    }
  };
  for (const auto& [product, tile] : in_memory_) {
    PlanTile(*product, tile, [&](int64_t planned) {
      rows_left -= planned;
      end_shares();
      return left_of_share() / kPartsOfShare;
    });
  }
  end_shares();
  rows_left = rows_streamed;
  for (const auto& [product, tile] : streamed_) {
    PlanTile(*product, tile, [&](int64_t planned) {
      rows_left -= planned;
      return rows_left / (kPartsOfShare * threads);
    });
  }
  share_ends_.push_back(std::ssize(work_items_));
}

void Model::PlanTile(const Product& product, int32_t tile,
                     FunctionRef<int64_t(int64_t planned)> next_rows) {
  const int64_t rows = cache_.map().tile(tile).row_count;
  // Coded rows are decoded stream by stream.
  const int64_t unit = cache_.map().tile(tile).is_coded
                           ? cache_.map().matrix_of(tile).frozen->rows_per_stream
                           : kMinRowsPerItem;
  SharedPin& visit = visits_[visit_count_++];
  int32_t parts = 0;
  int64_t wanted = next_rows(0);
  for (int64_t begin = 0; begin < rows; ++parts) {
    const int64_t end = std::min(begin + RoundUp(std::max(wanted, unit), unit), rows);
    work_items_.push_back(
        {.product = &product, .tile = tile, .visit = &visit, .row_begin = begin, .row_end = end});
    wanted = next_rows(end - begin);
    begin = end;
  }
  visit.Start(tile, parts);
}

void Model::ScaleRows(const Product& product, int64_t begin, int64_t end) {
  const std::vector<float>& scale = product.weights->scale;
  if (scale.empty()) return;
  for (int64_t token = 0; token < product.activations->n_tokens; ++token) {
    float* rows = product.out + token * product.token_stride();
    Scale(std::span(rows + begin, rows + end), scale[static_cast<size_t>(product.expert)]);
  }
}

Result<void> Model::Multiply(std::span<const Product> products) {
  return Multiply(products, [](int64_t, int64_t) {});
}

Result<void> Model::QuantizeAndMultiply(const LinearWeights& weights, const float* x,
                                        int64_t n_tokens, float* out) {
  const Activations read = Quantize(x, n_tokens, weights.cols, CopyFor({&weights}));
  const Product product[] = {{&weights, &read, out}};
  return Multiply(product);
}

Result<void> Model::Multiply(std::span<const Product> products,
                             FunctionRef<void(int64_t begin, int64_t end)> done) {
  const Stopwatch matmul(times_.matmul);
  PlanWork(products);
  std::mutex outcome_mutex;
  Result<void> outcome;  // the first error
  const auto keep_error = [&](Error error) {
    const std::lock_guard lock(outcome_mutex);
    if (outcome) outcome = Fail(std::move(error));
  };
  pool_.ParallelFor(share_ends_, [&](int64_t index, int worker) {
    const WorkItem& item = work_items_[static_cast<size_t>(index)];
    if (const std::byte* data = item.visit->Enter(cache_, keep_error)) {
      const Tile& tile = cache_.map().tile(item.tile);
      const Product& product = *item.product;
      // Of the product's rows; an expert's begin somewhere in the matrix.
      const int64_t first = tile.row_begin - product.expert * product.weights->rows;
      MultiplyRows(
          item, data, first,
          work_.matmul_scratch + static_cast<size_t>(worker) * work_.matmul_scratch_stride);
      ScaleRows(product, first + item.row_begin, first + item.row_end);
      done(first + item.row_begin, first + item.row_end);
    }
    item.visit->Leave();
  });
  return outcome;
}

void Model::MultiplyRows(const WorkItem& item, const std::byte* data, int64_t first,
                         std::byte* scratch) {
  const Product& product = *item.product;
  const WeightMatrix& matrix = cache_.map().matrix_of(item.tile);
  const Tile& tile = cache_.map().tile(item.tile);
  const auto multiply = [&](int64_t begin, int64_t end, const Activations& x, float* out) {
    if (tile.is_coded) {
      double seconds = 0;
      {
        const Stopwatch coded_product(seconds);
        MultiplyCoded(kernels_, decoder_,
                      {.kind = matrix.frozen->kind,
                       .data = data,
                       .n_rows = tile.row_count,
                       .k = matrix.cols,
                       .rows_per_stream = matrix.frozen->rows_per_stream},
                      begin, end, x, out, product.token_stride(), scratch);
      }
      coded_product_ns_.fetch_add(static_cast<int64_t>(1e9 * seconds), std::memory_order_relaxed);
      return;
    }
    const WeightRows rows{.type = tile.type,
                          .data = data,
                          .n_rows = tile.row_count,
                          .k = matrix.cols,
                          .is_packed = tile.is_packed};
    kernels_.matmul(rows, begin, end, x, out, product.token_stride(), scratch);
  };
  const int64_t n_heads = product.weights->n_heads;
  if (n_heads == 1) {
    return multiply(item.row_begin, item.row_end, *product.activations, product.out + first);
  }
  // Frozen tiles hold rows of one head each.
  const int64_t head_rows = product.weights->rows / n_heads;
  const int64_t n_tokens = product.activations->n_tokens / n_heads;
  for (int64_t begin = item.row_begin; begin < item.row_end;) {
    const int64_t head = (first + begin) / head_rows;
    const int64_t end = std::min(item.row_end, (head + 1) * head_rows - first);
    float* out = product.out + first + head * (product.head_stride - head_rows);
    multiply(begin, end, TokensOf(*product.activations, head * n_tokens, n_tokens), out);
    begin = end;
  }
}

}  // namespace thaw
