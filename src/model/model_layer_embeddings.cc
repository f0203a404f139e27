// What each layer has of a token: a row of a table by the token's id, and a projection of its
// embedding. A layer gates it by the stream and adds what comes of it; of several streams
// (model_streams.cc) the first gates it, and the others get it.
#include <cmath>
#include <numbers>

#include "model/model.h"

namespace thaw {

Result<void> Model::EmbedForLayers(int64_t n_tokens) {
  const int64_t size = config_.layer_embedding;
  if (size == 0) return {};
  const int64_t d = config_.d_model;
  const int64_t width = config_.n_layers * size;
  THAW_TRY(
      QuantizeAndMultiply(weights_.layer_projection, work_.x, n_tokens, work_.layer_projected));

  const float of_rows = std::sqrt(static_cast<float>(size));
  const float of_stream = 1 / std::sqrt(static_cast<float>(d));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* inputs = work_.layer_inputs + i * width;
    float* projected = work_.layer_projected + i * width;
    Scale(std::span(inputs, static_cast<size_t>(width)), of_rows);
    Scale(std::span(projected, static_cast<size_t>(width)), of_stream);
    for (int64_t at = 0; at < width; at += size) {
      NormByRms(weights_.layer_projection_norm, projected + at);
    }
    kernels_.add(inputs, projected, width, inputs);
    Scale(std::span(inputs, static_cast<size_t>(width)), 1 / std::numbers::sqrt2_v<float>);
  });
  return {};
}

Result<void> Model::AddLayerEmbedding(int64_t index, int64_t n_tokens) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const int64_t size = config_.layer_embedding;
  THAW_TRY(QuantizeAndMultiply(layer.embedding_gate, layer.streams ? work_.normed : work_.x,
                               n_tokens, work_.layer_gate));
  const Activations gated = ViewActivations(work_.layer_gate, n_tokens, size, work_.quantized,
                                            CopyFor({&layer.embedding_output}));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* of_token = work_.layer_gate + i * size;
    const float* input = work_.layer_inputs + (i * config_.n_layers + index) * size;
    kernels_.activate(layer.ffn.activation, of_token, input, size, of_token);
    kernels_.quantize_activations(gated, i, i + 1);
  });
  const Product output[] = {{&layer.embedding_output, &gated, work_.projected}};
  THAW_TRY(Multiply(output));
  ForEachToken(n_tokens, [&](int64_t i) {
    if (layer.streams) return AddToOtherStreams(*layer.embedding_after, i);
    AddToStream({}, layer.embedding_after, i);
  });
  return {};
}

}  // namespace thaw
