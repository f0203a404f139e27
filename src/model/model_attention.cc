// Attention of a layer: what is done to queries, keys and values, and over which positions it runs.
//
// A token's result does not depend on the batch: tiles of tokens, spans of positions and threads
// only say who computes what (kernels/attention.h).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "model/model.h"

namespace thaw {

Result<void> Model::RunAttention(int64_t index, std::span<const BatchToken> batch, float* out) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const HeadShape& heads = config_.layers[static_cast<size_t>(index)].heads;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const Activations normed = ViewActivations(
      work_.normed, n_tokens, config_.d_model, work_.quantized,
      layer.latent ? CopyForLatents(*layer.latent)
                   : CopyFor({&layer.q, &layer.k, &layer.v, &layer.attention_gate}));
  ForEachToken(n_tokens, [&](int64_t i) {
    ReadStream(layer.attention_norm, i);
    kernels_.quantize_activations(normed, i, i + 1);
  });
  if (layer.latent) {
    THAW_TRY(ProjectLatent(index, batch, normed));
  } else {
    const bool joins_gates = config_.family->joins_query_gates;
    const Product products[] = {{&layer.q, &normed, joins_gates ? work_.attention_gate : work_.q},
                                {&layer.k, &normed, work_.k},
                                {&layer.v, &normed, work_.v},
                                {&layer.attention_gate, &normed, work_.attention_gate}};
    THAW_TRY(Multiply(products));
    StoreEach(n_tokens, [&](int64_t i) {
      if (joins_gates) SplitQueryGates(heads, i);
      PrepareHeads(layer, index, batch[static_cast<size_t>(i)], i);
    });
  }
  AttendAll(index, batch);
  const bool is_absorbed = layer.latent && config_.latent.is_absorbed;
  if (is_absorbed) THAW_TRY(ExpandValues(index, n_tokens));
  const Activations attended = ViewActivations(is_absorbed ? work_.heads : work_.attended, n_tokens,
                                               layer.attention_output.cols, work_.quantized,
                                               CopyFor({&layer.attention_output}));
  ForEachToken(n_tokens, [&](int64_t i) {
    if (config_.gates_attention()) GateAttention(heads, layer.attention_gate.rows, i);
    NormByRms(layer.attention_sub_norm, work_.attended + i * heads.out_width());
    kernels_.quantize_activations(attended, i, i + 1);
  });
  const Product output[] = {{&layer.attention_output, &attended, out}};
  return Multiply(output);
}

void Model::StoreEach(int64_t n_tokens, FunctionRef<void(int64_t)> body) {
  // Neighbours share the cache lines of a unit of keys: one thread takes them where there are
  // enough units for all.
  const int64_t grain = n_tokens >= 2 * kKeyUnit * pool_.thread_count() ? kKeyUnit : 1;
  pool_.ParallelFor(n_tokens, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

void Model::GateAttention(const HeadShape& heads, int64_t n_gates, int64_t i) {
  const int64_t width = heads.out_width();
  float* attended = work_.attended + i * width;
  // Queries stood beside gates that came with them.
  const int64_t stride = config_.family->joins_query_gates ? 2 * heads.q_width() : n_gates;
  float* gate = work_.attention_gate + i * stride;
  if (config_.family->attention_gate != AttentionGate::kHead) {
    return kernels_.activate({Nonlinearity::kLogistic}, gate, attended, width, attended);
  }
  kernels_.activate({Nonlinearity::kLogistic}, gate, nullptr, heads.n, gate);
  for (int64_t head = 0; head < heads.n; ++head) {
    float* of_head = attended + head * heads.v_size;
    Scale(std::span(of_head, static_cast<size_t>(heads.v_size)), gate[head]);
  }
}

void Model::SplitQueryGates(const HeadShape& heads, int64_t i) {
  float* joined = work_.attention_gate + i * 2 * heads.q_width();
  for (int64_t head = 0; head < heads.n; ++head) {
    const float* both = joined + 2 * head * heads.size;
    std::copy_n(both, heads.size, work_.q + i * heads.q_width() + head * heads.size);
    // Towards the front, past what is read already.
    std::copy_n(both + heads.size, heads.size, joined + head * heads.size);
  }
}

void Model::PrepareHeads(const LayerWeights& layer, int64_t index, const BatchToken& token,
                         int64_t i) {
  const ModelConfig& c = config_;
  const auto add_bias = [&](const LinearWeights& weights, float* y) {
    if (!weights.bias.empty()) kernels_.add(y, weights.bias.data(), weights.rows, y);
  };
  const HeadShape& heads = c.layers[static_cast<size_t>(index)].heads;
  float* q = work_.q + i * heads.q_width();
  float* k = work_.k + i * heads.k_width();
  float* v = work_.v + i * heads.v_width();
  if (layer.v.rows == 0) std::copy_n(k, layer.k.rows, v);
  add_bias(layer.q, q);
  add_bias(layer.k, k);
  add_bias(layer.v, v);
  if (c.qkv_clamp != 0) {
    for (const auto& [weights, x] : {std::pair(&layer.q, q), {&layer.k, k}, {&layer.v, v}}) {
      for (int64_t n = 0; n < weights->rows; ++n) {
        x[n] = std::clamp(x[n], -c.qkv_clamp, c.qkv_clamp);
      }
    }
  }
  const bool norms_last = c.family->norms_turned_heads;
  const LayerConfig& of_layer = c.layers[static_cast<size_t>(index)];
  const int rope = of_layer.rope;
  NormHeads(layer.v_norm, heads.n_kv, heads.v_size, v);
  for (const auto& [norm, n_heads, x] :
       {std::tuple(&layer.q_norm, heads.n, q), {&layer.k_norm, heads.n_kv, k}}) {
    if (x == k && of_layer.kv_layer >= 0) continue;
    if (!norms_last) NormHeads(*norm, n_heads, heads.size, x);
    if (rope != kNoRope) {
      kernels_.rope(x, n_heads, heads.size, CosSin(rope, i),
                    c.ropes[static_cast<size_t>(rope)].rope_dim, c.family->rope_pairing);
    }
    if (norms_last) NormHeads(*norm, n_heads, heads.size, x);
  }
  ScaleQueries(index, token.position, std::span(q, static_cast<size_t>(heads.q_width())));
  if (of_layer.kv_layer >= 0) return;
  for (int64_t h = 0; h < heads.n_kv; ++h) {
    token.kv->Store(kernels_, index, h, token.position, k + h * heads.size, v + h * heads.v_size);
  }
}

void Model::ScaleQueries(int64_t index, int64_t position, std::span<float> q) const {
  const ModelConfig& c = config_;
  if (c.temperature_scale == 0 || !c.layers[static_cast<size_t>(index)].has_temperature) return;
  const auto intervals =
      static_cast<float>((position + c.temperature_offset) / c.temperature_interval);
  Scale(q, 1 + c.temperature_scale * std::log(1 + intervals));
}

void Model::NormHeads(const std::vector<float>& norm, int64_t n_heads, int64_t size,
                      float* heads) const {
  const ModelConfig& c = config_;
  if (norm.empty()) return;
  if (c.family->qk_norm == QkNorm::kRow) {
    return kernels_.rms_norm(heads, norm.data(), n_heads * size, c.norm_epsilon, heads);
  }
  for (int64_t h = 0; h < n_heads; ++h) {
    float* head = heads + h * size;
    if (c.family->qk_norm != QkNorm::kOptionalLayer) {
      kernels_.rms_norm(head, norm.data(), size, c.norm_epsilon, head);
    } else {
      kernels_.layer_norm(head, norm.data() + h * size, nullptr, size, c.norm_epsilon, head);
    }
  }
}

void Model::PlanRuns(std::span<const BatchToken> batch) {
  const int64_t most = AttentionTileTokens(config_.Most(
      [](const LayerConfig& layer) { return layer.heads.n == 0 ? 1 : layer.heads.group(); }));
  runs_.clear();
  sparse_.clear();
  sequences_.clear();
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool goes_on = i > 0 && batch[i].kv == batch[i - 1].kv;
    const auto add_to = [&](std::vector<TokenRun>& runs, int64_t most_tokens) {
      if (goes_on && runs.back().count < most_tokens) {
        ++runs.back().count;
      } else {
        runs.push_back({static_cast<int64_t>(i), 1});
      }
    };
    add_to(sequences_, options_.max_batch);
    if (config_.indexer.Chooses(batch[i].position)) {
      sparse_.push_back(static_cast<int64_t>(i));
    } else {
      add_to(runs_, most);
    }
    const int64_t expected = goes_on ? batch[i - 1].position + 1 : batch[i].kv->length();
    THAW_CHECK(batch[i].position == expected);
  }
}

AttentionArguments Model::ArgumentsOf(int64_t index, std::span<const BatchToken> batch,
                                      const TokenRun& run, int64_t kv_head) {
  const LayerConfig& layer = config_.layers[static_cast<size_t>(index)];
  const HeadShape& heads = layer.heads;
  const BatchToken& token = batch[static_cast<size_t>(run.first)];
  const int64_t head = run.first * heads.n + kv_head * heads.group();
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  const auto of_heads = [&](const std::vector<float>& numbers) {
    return numbers.empty() ? nullptr : numbers.data() + kv_head * heads.group();
  };
  return {.q = work_.q + head * heads.size,
          .q_stride = heads.q_width(),
          .n_tokens = run.count,
          .first_position = token.position,
          .group = heads.group(),
          .head_dim = heads.size,
          .v_head_dim = heads.v_size,
          .kv_type = token.kv->type(),
          .k = token.kv->Keys(index, kv_head),
          .v = token.kv->Values(index, kv_head),
          .ring = token.kv->Ring(index),
          .scale = config_.attention_scale,
          .soft_cap = config_.attention_soft_cap,
          .window = layer.window,
          .sinks = of_heads(weights.sinks),
          .slopes = of_heads(weights.slopes),
          .out = work_.attended + head * heads.v_size,
          .out_stride = heads.out_width()};
}

void Model::AttendAll(int64_t index, std::span<const BatchToken> batch) {
  const Stopwatch attention(times_.attention);
  if (!sparse_.empty()) AttendChosen(index, batch);
  if (runs_.empty()) return;
  const int64_t n_heads = config_.layers[static_cast<size_t>(index)].heads.n_kv;
  const auto n_runs = static_cast<int64_t>(runs_.size());
  if (n_runs == static_cast<int64_t>(batch.size()) &&
      n_runs * n_heads <= MostSplitHeads(pool_.thread_count())) {
    AttendBySpans(index, batch);
    return;
  }
  // The last run of a sequence sees the most positions and so goes first.
  pool_.ParallelFor(n_runs * n_heads, 1, [&](int64_t item, int64_t, int worker) {
    const TokenRun& run = runs_[static_cast<size_t>(n_runs - 1 - item / n_heads)];
    Attend(kernels_, ArgumentsOf(index, batch, run, item % n_heads),
           work_.attention_scratch + static_cast<size_t>(worker) * work_.attention_scratch_stride);
  });
}

void Model::AttendBySpans(int64_t index, std::span<const BatchToken> batch) {
  const int64_t n_heads = config_.layers[static_cast<size_t>(index)].heads.n_kv;
  const auto n_items = static_cast<int64_t>(runs_.size()) * n_heads;
  const auto arguments = [&](int64_t item) {
    return ArgumentsOf(index, batch, runs_[static_cast<size_t>(item / n_heads)], item % n_heads);
  };
  int64_t most_spans = 1;
  for (const BatchToken& token : batch) {
    most_spans = std::max(most_spans, AttentionSpanOf(token.position) + 1);
  }
  for (int64_t item = 0; item < n_items; ++item) {
    const AttentionArguments a = arguments(item);
    spans_left_[static_cast<size_t>(item)].store(
        AttentionSpanOf(a.first_position) - FirstSpanOf(a) + 1, std::memory_order_relaxed);
  }
  pool_.ParallelFor(n_items * most_spans, 1, [&](int64_t part, int64_t, int worker) {
    const int64_t item = part / most_spans;
    const AttentionArguments a = arguments(item);
    const int64_t span = part % most_spans;
    if (span < FirstSpanOf(a) || span > AttentionSpanOf(a.first_position)) return;
    float* states = work_.attention_states + item * work_.attention_states_stride;
    kernels_.attend_span(
        a, span, states + span * a.group * AttentionStateFloats(a.v_head_dim),
        work_.attention_scratch + static_cast<size_t>(worker) * work_.attention_scratch_stride);
    // Most of its states are in the cache of whoever comes last.
    std::atomic<int64_t>& left = spans_left_[static_cast<size_t>(item)];
    if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) MergeSpans(a, states);
  });
}

}  // namespace thaw
