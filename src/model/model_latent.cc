// Latent attention (LatentConfig): what makes queries, keys and values before attention runs over
// them, and values of the latents that it gives after.
//
// A token's result does not depend on the batch: each row of activations is multiplied for itself,
// those of one head and all tokens together.
#include <algorithm>

#include "model/model.h"

namespace thaw {

ActivationCopy Model::CopyForLatents(const LatentWeights& weights) const {
  const LinearWeights& queries = weights.q_down.rows != 0 ? weights.q_down : weights.q;
  return CopyFor({&weights.kv_down, &queries, &weights.indexer.k, &weights.indexer.weights});
}

Result<void> Model::ProjectLatent(int64_t index, std::span<const BatchToken> batch,
                                  const Activations& normed) {
  const LatentConfig& c = config_.latent;
  const LatentWeights& weights = *weights_.layers[static_cast<size_t>(index)].latent;
  const int64_t n_tokens = normed.n_tokens;
  float* queries = c.is_absorbed ? work_.heads : work_.q;
  const bool has_low_rank = weights.q_down.rows != 0;
  const IndexerWeights& indexer = weights.indexer;
  const Product down[] = {
      {&weights.kv_down, &normed, work_.kv_down},
      has_low_rank ? Product{&weights.q_down, &normed, work_.q_latent}
                   : Product{&weights.q, &normed, queries},
      {&indexer.k, &normed, work_.index_k},
      {&indexer.weights, &normed, work_.index_weights},
  };
  THAW_TRY(Multiply(std::span(down, indexer.is_there() ? 4 : 2)));
  if (has_low_rank) {
    const Activations latent = ViewActivations(work_.q_latent, n_tokens, c.q_rank, work_.quantized,
                                               CopyFor({&weights.q, &indexer.q}));
    ForEachToken(n_tokens, [&](int64_t i) {
      float* of_token = work_.q_latent + i * c.q_rank;
      kernels_.rms_norm(of_token, weights.q_norm.data(), c.q_rank, config_.norm_epsilon, of_token);
      kernels_.quantize_activations(latent, i, i + 1);
    });
    const Product up[] = {{&weights.q, &latent, queries}, {&indexer.q, &latent, work_.index_q}};
    THAW_TRY(Multiply(std::span(up, indexer.is_there() ? 2 : 1)));
  }
  ForEachToken(n_tokens, [&](int64_t i) {
    const BatchToken& token = batch[static_cast<size_t>(i)];
    PrepareLatent(index, token, queries, i);
    if (indexer.is_there()) PrepareIndexer(index, token, i);
  });
  if (indexer.is_there() && !sparse_.empty()) ChooseKeysOfAll(index, batch);
  return c.is_absorbed ? AbsorbQueries(index, batch) : ExpandKeys(index, batch);
}

void Model::PrepareLatent(int64_t index, const BatchToken& token, float* queries, int64_t i) {
  const LatentConfig& c = config_.latent;
  const LatentWeights& weights = *weights_.layers[static_cast<size_t>(index)].latent;
  const int64_t n_heads = config_.layers[static_cast<size_t>(index)].heads.n;
  float* latent = work_.kv_down + i * weights.kv_down.rows;
  kernels_.rms_norm(latent, weights.kv_norm.data(), c.rank, config_.norm_epsilon, latent);
  float* q = queries + i * weights.q.rows;
  if (const int rope = config_.layers[static_cast<size_t>(index)].rope; rope != kNoRope) {
    const RopePairing pairing = config_.family->rope_pairing;
    kernels_.rope(q + c.still_size(), n_heads, c.key_size, CosSin(rope, i), c.rope_dim, pairing);
    kernels_.rope(latent + c.rank, 1, c.rope_dim, CosSin(rope, i), c.rope_dim, pairing);
  }
  ScaleQueries(index, token.position, std::span(q, static_cast<size_t>(weights.q.rows)));
}

Result<void> Model::AbsorbQueries(int64_t index, std::span<const BatchToken> batch) {
  const LatentConfig& c = config_.latent;
  const LatentWeights& weights = *weights_.layers[static_cast<size_t>(index)].latent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t n_heads = config_.layers[static_cast<size_t>(index)].heads.n;
  const int64_t still_size = c.still_size();
  const int64_t absorbed_size = c.rank + c.rope_dim;
  const Activations still = ViewActivations(work_.attended, n_heads * n_tokens, still_size,
                                            work_.quantized, CopyFor({&weights.q_absorbed}));
  ForEachToken(n_tokens, [&](int64_t i) {
    for (int64_t h = 0; h < n_heads; ++h) {
      const float* q = work_.heads + (i * n_heads + h) * c.key_size;
      const int64_t row = h * n_tokens + i;
      std::copy_n(q, still_size, work_.attended + row * still_size);
      kernels_.quantize_activations(still, row, row + 1);
      std::copy_n(q + still_size, c.rope_dim, work_.q + (i * n_heads + h) * absorbed_size + c.rank);
    }
  });
  const Product product[] = {
      {&weights.q_absorbed, &still, work_.q, /*expert=*/0, /*head_stride=*/absorbed_size}};
  THAW_TRY(Multiply(product));
  StoreEach(n_tokens, [&](int64_t i) {
    const BatchToken& token = batch[static_cast<size_t>(i)];
    const float* latent = work_.kv_down + i * absorbed_size;
    token.kv->Store(kernels_, index, 0, token.position, latent, latent);
  });
  return {};
}

Result<void> Model::ExpandKeys(int64_t index, std::span<const BatchToken> batch) {
  const LatentConfig& c = config_.latent;
  const LatentWeights& weights = *weights_.layers[static_cast<size_t>(index)].latent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t n_heads = config_.layers[static_cast<size_t>(index)].heads.n;
  const Activations latents =
      ViewActivations(work_.kv_latent, n_tokens, c.rank, work_.quantized, CopyFor({&weights.kv}));
  ForEachToken(n_tokens, [&](int64_t i) {
    std::copy_n(work_.kv_down + i * weights.kv_down.rows, c.rank, work_.kv_latent + i * c.rank);
    kernels_.quantize_activations(latents, i, i + 1);
  });
  const Product product[] = {{&weights.kv, &latents, work_.heads}};
  THAW_TRY(Multiply(product));
  StoreEach(n_tokens, [&](int64_t i) {
    const BatchToken& token = batch[static_cast<size_t>(i)];
    const float* turned = work_.kv_down + i * weights.kv_down.rows + c.rank;
    float* key = work_.k + i * c.key_size;
    std::copy_n(turned, c.rope_dim, key + c.still_size());
    for (int64_t h = 0; h < n_heads; ++h) {
      const float* still = work_.heads + i * weights.kv.rows + h * (c.still_size() + c.value_size);
      std::copy_n(still, c.still_size(), key);
      token.kv->Store(kernels_, index, h, token.position, key, still + c.still_size());
    }
  });
  return {};
}

Result<void> Model::ExpandValues(int64_t index, int64_t n_tokens) {
  const LatentConfig& c = config_.latent;
  const LatentWeights& weights = *weights_.layers[static_cast<size_t>(index)].latent;
  const int64_t n_heads = weights.v.n_heads;
  const Activations latents =
      ViewActivations(work_.q, n_heads * n_tokens, c.rank, work_.quantized, CopyFor({&weights.v}));
  ForEachToken(n_tokens, [&](int64_t i) {
    for (int64_t h = 0; h < n_heads; ++h) {
      const int64_t row = h * n_tokens + i;
      std::copy_n(work_.attended + (i * n_heads + h) * c.rank, c.rank, work_.q + row * c.rank);
      kernels_.quantize_activations(latents, row, row + 1);
    }
  });
  const Product product[] = {
      {&weights.v, &latents, work_.heads, /*expert=*/0, /*head_stride=*/c.value_size}};
  return Multiply(product);
}

}  // namespace thaw
