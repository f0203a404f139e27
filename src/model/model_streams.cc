// Several residual streams (AltUp). Blocks read and add to the first alone. Before a layer every
// stream becomes itself and a mixture of all; after it every stream gets a share of what the layer
// changed of the first. A router that reads the first stream says how to mix and to share.
//
// Beside attention stands a low-rank block that reads what attention reads (LAuReL).
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "model/model.h"

namespace thaw {
namespace {

// Columns that are mixed at a time: those of all streams are two KiB, which stay in the first-level
// cache.
constexpr int64_t kMixedColumns = 64;

// Gives y the length of x; a y of zeros stays as it is.
void MatchLength(std::span<const float> x, std::span<float> y) {
  double of_x = 0;
  double of_y = 0;
  for (const float number : x) of_x += double{number} * double{number};
  for (const float number : y) of_y += double{number} * double{number};
  if (of_y == 0) return;
  const auto factor = static_cast<float>(std::sqrt(of_x / of_y));
  for (float& number : y) number *= factor;
}

// y += factor x
void AddScaled(const float* x, float factor, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

}  // namespace

float* Model::Stream(int64_t stream, int64_t i) {
  return work_.x + (stream * options_.max_batch + i) * config_.d_model;
}

Result<void> Model::SpreadStreams(int64_t n_tokens) {
  if (config_.n_streams == 1) return {};
  const int64_t d = config_.d_model;
  ActivationCopy copy = ActivationCopy::kNone;
  for (const LinearWeights& inputs : weights_.stream_inputs) {
    copy = std::max(copy, CopyFor({&inputs}));
  }
  const Activations first = Quantize(work_.x, n_tokens, d, copy);
  std::vector<Product> products;
  for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
    products.push_back(
        {&weights_.stream_inputs[static_cast<size_t>(stream - 1)], &first, Stream(stream, 0)});
  }
  THAW_TRY(Multiply(products));
  ForEachToken(n_tokens, [&](int64_t i) {
    for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
      float* other = Stream(stream, i);
      MatchLength(std::span(Stream(0, i), Stream(0, i) + d), std::span(other, other + d));
    }
  });
  return {};
}

void Model::MixingOf(const StreamWeights& weights, const std::vector<float>& matrix, int64_t i,
                     int worker, float* out) {
  const int64_t d = config_.d_model;
  const int64_t n = config_.n_streams;
  std::byte* scratch =
      work_.matmul_scratch + static_cast<size_t>(worker) * work_.matmul_scratch_stride;
  const auto multiply = [&](const std::vector<float>& rows, const float* x, int64_t k, float* y) {
    const int64_t n_rows = std::ssize(rows) / k;
    kernels_.matmul({.data = std::as_bytes(std::span(rows)).data(), .n_rows = n_rows, .k = k}, 0,
                    n_rows, {.values = x, .n_tokens = 1, .k = k}, y, n_rows, scratch);
  };
  float* normed = work_.normed + i * d;
  kernels_.rms_norm(Stream(0, i), weights.router_norm.data(), d, config_.norm_epsilon, normed);
  std::array<float, kMaxStreams> routed;
  multiply(weights.router, normed, d, routed.data());
  kernels_.soft_cap(routed.data(), n, 1);
  multiply(matrix, routed.data(), n, out);
}

void Model::PredictStreams(const StreamWeights& weights, int64_t n_tokens) {
  const int64_t d = config_.d_model;
  const int64_t n = config_.n_streams;
  pool_.ParallelFor(n_tokens, 1, [&](int64_t i, int64_t, int worker) {
    std::array<float, kMaxStreams * kMaxStreams> shares;
    MixingOf(weights, weights.predict, i, worker, shares.data());
    for (int64_t begin = 0; begin < d; begin += kMixedColumns) {
      const int64_t columns = std::min(kMixedColumns, d - begin);
      std::array<std::array<float, kMixedColumns>, kMaxStreams> mixed;
      for (int64_t to = 0; to < n; ++to) {
        float* sum = mixed[static_cast<size_t>(to)].data();
        std::copy_n(Stream(to, i) + begin, columns, sum);
        for (int64_t from = 0; from < n; ++from) {
          AddScaled(Stream(from, i) + begin, shares[static_cast<size_t>(to * n + from)], columns,
                    sum);
        }
      }
      for (int64_t to = 0; to < n; ++to) {
        std::copy_n(mixed[static_cast<size_t>(to)].data(), columns, Stream(to, i) + begin);
      }
    }
    std::copy_n(Stream(0, i), d, work_.predicted + i * d);
  });
}

void Model::CorrectStreams(const StreamWeights& weights, int64_t n_tokens) {
  const int64_t d = config_.d_model;
  const int64_t n = config_.n_streams;
  pool_.ParallelFor(n_tokens, 1, [&](int64_t i, int64_t, int worker) {
    std::array<float, kMaxStreams> shares;
    MixingOf(weights, weights.correct, i, worker, shares.data());
    float* first = Stream(0, i);
    float* changed = work_.normed + i * d;
    const float* predicted = work_.predicted + i * d;
    for (int64_t k = 0; k < d; ++k) changed[k] = first[k] - predicted[k];
    std::copy_n(predicted, d, first);
    for (int64_t stream = 0; stream < n; ++stream) {
      AddScaled(changed, 1 + shares[static_cast<size_t>(stream)], d, Stream(stream, i));
    }
    // What gates of the layer's embedding read.
    for (int64_t k = 0; k < d; ++k) {
      work_.normed[i * d + k] = first[k] * weights.scale[static_cast<size_t>(k)];
    }
  });
}

void Model::AddToOtherStreams(const NormWeights& norm, int64_t i) {
  float* added = work_.projected + i * config_.d_model;
  Norm(norm, added, added);
  for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
    kernels_.add(Stream(stream, i), added, config_.d_model, Stream(stream, i));
  }
}

Result<void> Model::MergeStreams(std::span<const int64_t> tokens) {
  if (config_.n_streams == 1) return {};
  const int64_t d = config_.d_model;
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const auto token = [&](int64_t i) { return tokens[static_cast<size_t>(i)]; };
  for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
    ForEachToken(n_tokens, [&](int64_t i) {
      std::copy_n(Stream(stream, token(i)), d, work_.normed + i * d);
    });
    THAW_TRY(QuantizeAndMultiply(weights_.stream_outputs[static_cast<size_t>(stream - 1)],
                                 work_.normed, n_tokens, Stream(stream, 0)));
  }
  ForEachToken(n_tokens, [&](int64_t i) {
    const std::span first(Stream(0, token(i)), static_cast<size_t>(d));
    for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
      MatchLength(first, std::span(Stream(stream, i), first.size()));
    }
    for (int64_t stream = 1; stream < config_.n_streams; ++stream) {
      kernels_.add(first.data(), Stream(stream, i), d, first.data());
    }
    Scale(first, 1 / static_cast<float>(config_.n_streams));
  });
  return {};
}

Result<void> Model::AddWithLaurel(const LayerWeights& layer, int64_t n_tokens) {
  const LaurelWeights& laurel = *layer.laurel;
  const int64_t d = config_.d_model;
  THAW_TRY(QuantizeAndMultiply(laurel.down, work_.normed, n_tokens, work_.laurel));
  THAW_TRY(QuantizeAndMultiply(laurel.up, work_.laurel, n_tokens, work_.beside));
  ForEachToken(n_tokens, [&](int64_t i) {
    AddToStream(layer.attention_output.bias, layer.attention_after, i);
    float* x = Stream(0, i);
    float* added = work_.beside + i * d;
    Norm(laurel.after, added, added);
    kernels_.add(added, work_.normed + i * d, d, added);
    kernels_.add(x, added, d, x);
    Scale(std::span(x, static_cast<size_t>(d)), 1 / std::numbers::sqrt2_v<float>);
  });
  return {};
}

}  // namespace thaw
