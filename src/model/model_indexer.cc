// Attention to chosen keys (IndexerConfig): their scores, and attention to copies of those chosen.
//
// Tokens that see no more keys than may be chosen are computed as in any other model; the others
// are the sparse ones. What is computed for a token depends on its position and those before it
// alone: scores are sums in the order of heads, and attention runs over the chosen in their order.
#include <algorithm>

#include "model/model.h"

namespace thaw {
namespace {

// DeepSeek's own; files do not state it.
constexpr float kIndexNormEpsilon = 1e-6F;

// Keys that one thread copies at a time: whole units, so that no two threads write to one.
constexpr int64_t kCopiedKeys = 4 * kKeyUnit;

}  // namespace

void Model::PrepareIndexer(int64_t index, const BatchToken& token, int64_t i) {
  const IndexerConfig& c = config_.indexer;
  const IndexerWeights& weights = weights_.layers[static_cast<size_t>(index)].latent->indexer;
  float* q = work_.index_q + i * weights.q.rows;
  float* key = work_.index_k + i * c.key_size;
  kernels_.layer_norm(key, weights.k_norm.data(), weights.k_norm_bias.data(), c.key_size,
                      kIndexNormEpsilon, key);
  if (const int rope = config_.layers[static_cast<size_t>(index)].rope; rope != kNoRope) {
    const RopePairing pairing = config_.family->indexer_pairing;
    const int64_t rope_dim = config_.latent.rope_dim;
    kernels_.rope(q, c.n_heads, c.key_size, CosSin(rope, i), rope_dim, pairing);
    kernels_.rope(key, 1, c.key_size, CosSin(rope, i), rope_dim, pairing);
  }
  token.kv->StoreIndexKey(kernels_, index, token.position, key);
}

void Model::ChooseKeysOfAll(int64_t index, std::span<const BatchToken> batch) {
  const int64_t top_k = config_.indexer.top_k;
  ForEachSparse([&](std::span<const int64_t> some) {
    int64_t most_spans = 0;
    for (const int64_t i : some) {
      const int64_t last = batch[static_cast<size_t>(i)].position;
      most_spans = std::max(most_spans, last / kIndexSpan + 1);
    }
    const auto scores_of = [&](int64_t n) { return work_.index_scores + n * options_.max_context; };
    pool_.ParallelFor(std::ssize(some) * most_spans, 1, [&](int64_t item, int64_t, int worker) {
      const int64_t n = item / most_spans;
      const int64_t i = some[static_cast<size_t>(n)];
      ScoreKeys(index, batch[static_cast<size_t>(i)], i, item % most_spans, worker, scores_of(n));
    });
    pool_.ParallelFor(std::ssize(some), 1, [&](int64_t n, int64_t, int) {
      const int64_t i = some[static_cast<size_t>(n)];
      const auto visible = static_cast<size_t>(batch[static_cast<size_t>(i)].position + 1);
      ChooseKeys(std::span(scores_of(n), visible),
                 std::span(work_.index_order + n * options_.max_context, visible),
                 std::span(work_.chosen_keys + i * top_k, static_cast<size_t>(top_k)));
    });
  });
}

void Model::ScoreKeys(int64_t index, const BatchToken& token, int64_t i, int64_t span, int worker,
                      float* scores) {
  const IndexerConfig& c = config_.indexer;
  const int64_t begin = span * kIndexSpan;
  const int64_t n = std::min(token.position + 1 - begin, kIndexSpan);
  if (n <= 0) return;
  const Activations queries{
      .values = work_.index_q + i * c.n_heads * c.key_size, .n_tokens = c.n_heads, .k = c.key_size};
  float* products = work_.index_products + worker * c.n_heads * kIndexSpan;
  kernels_.matmul(token.kv->IndexKeys(index, begin, n), 0, n, queries, products, kIndexSpan,
                  work_.matmul_scratch + static_cast<size_t>(worker) * work_.matmul_scratch_stride);
  std::fill_n(scores + begin, n, 0.0F);
  for (int64_t h = 0; h < c.n_heads; ++h) {
    const float weight = work_.index_weights[i * c.n_heads + h];
    const float* of_head = products + h * kIndexSpan;
    for (int64_t p = 0; p < n; ++p) scores[begin + p] += weight * std::max(of_head[p], 0.0F);
  }
}

void Model::AttendChosen(int64_t index, std::span<const BatchToken> batch) {
  const HeadShape& heads = config_.layers[static_cast<size_t>(index)].heads;
  const int64_t top_k = config_.indexer.top_k;
  const auto arguments = [&](std::span<const int64_t> some, int64_t n) {
    AttentionArguments a = ArgumentsOf(index, batch, {some[static_cast<size_t>(n)], 1}, 0);
    std::byte* copies = work_.chosen_copies + n * work_.chosen_copies_stride;
    a.first_position = top_k - 1;
    a.k = copies;
    a.v = copies + KeyBytes(a.kv_type, heads.size, top_k);
    return a;
  };
  const int64_t copiers = (top_k + kCopiedKeys - 1) / kCopiedKeys;
  const int64_t parts = (heads.n + kSparseHeads - 1) / kSparseHeads;
  ForEachSparse([&](std::span<const int64_t> some) {
    pool_.ParallelFor(std::ssize(some) * copiers, 1, [&](int64_t item, int64_t, int) {
      const int64_t n = item / copiers;
      const int64_t i = some[static_cast<size_t>(n)];
      KvCache& kv = *batch[static_cast<size_t>(i)].kv;
      std::byte* keys = work_.chosen_copies + n * work_.chosen_copies_stride;
      std::byte* values = keys + KeyBytes(kv.type(), heads.size, top_k);
      const int64_t begin = item % copiers * kCopiedKeys;
      for (int64_t k = begin; k < std::min(begin + kCopiedKeys, top_k); ++k) {
        const int64_t position = work_.chosen_keys[i * top_k + k];
        CopyKey(kv.type(), heads.size, kv.Keys(index, 0), position, keys, k);
        CopyValue(kv.type(), heads.v_size, kv.Values(index, 0), position, values, k);
      }
    });
    pool_.ParallelFor(std::ssize(some) * parts, 1, [&](int64_t item, int64_t, int worker) {
      AttentionArguments a = arguments(some, item / parts);
      const int64_t first = item % parts * kSparseHeads;
      a.group = std::min(kSparseHeads, heads.n - first);
      a.q += first * heads.size;
      a.out += first * heads.v_size;
      Attend(
          kernels_, a,
          work_.attention_scratch + static_cast<size_t>(worker) * work_.attention_scratch_stride);
    });
  });
}

void Model::ForEachSparse(FunctionRef<void(std::span<const int64_t> some)> body) {
  const auto most = static_cast<size_t>(pool_.thread_count());
  for (size_t first = 0; first < sparse_.size(); first += most) {
    body(std::span(sparse_).subspan(first, std::min(most, sparse_.size() - first)));
  }
}

}  // namespace thaw
