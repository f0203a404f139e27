#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "kernels/dequantize.h"

namespace thaw {
namespace {

// Rows of gate and up whose activation waits for the last of them: a cache line of floats.
constexpr int64_t kActivatedRows = 16;

// Lets gates count from `deviations` standard deviations above their mean: max(gate - cutoff, 0).
void CutGates(float deviations, std::span<float> gates) {
  const auto n = static_cast<double>(gates.size());
  double sum = 0;
  for (const float gate : gates) sum += double{gate};
  const double mean = sum / n;
  double squares = 0;
  for (const float gate : gates) squares += (gate - mean) * (gate - mean);
  const double deviation = std::sqrt(squares / std::max(1.0, n - 1));
  const auto cutoff = static_cast<float>(mean + deviations * deviation);
  for (float& gate : gates) gate = gate < cutoff ? 0 : gate - cutoff;
}

// The tiles of the largest group of products that is multiplied at once, of which `experts` at most
// go through experts at a time.
size_t MostTilesAtOnce(const ModelWeights& weights, const TileMap& map, int64_t experts) {
  const auto tiles = [&](std::initializer_list<const LinearWeights*> group) {
    int64_t count = 0;
    for (const LinearWeights* w : group) {
      if (w->rows == 0) continue;
      const bool is_chosen = map.matrix(w->matrix).is_chosen();
      count += map.tiles_of(w->matrix, 0).count * (is_chosen ? experts : 1);
    }
    return static_cast<size_t>(count);
  };
  size_t most = std::max(tiles({&weights.output}), tiles({&weights.layer_projection}));
  size_t of_streams = 0;
  for (const LinearWeights& input : weights.stream_inputs) of_streams += tiles({&input});
  most = std::max(most, of_streams);
  for (const LinearWeights& output : weights.stream_outputs) {
    most = std::max(most, tiles({&output}));
  }
  const auto count_block = [&](const FeedForwardWeights& block) {
    most = std::max({most, tiles({&block.gate, &block.up}), tiles({&block.down})});
  };
  for (const LayerWeights& layer : weights.layers) {
    most = std::max({most, tiles({&layer.embedding_gate}), tiles({&layer.embedding_output})});
    most = std::max({most, tiles({&layer.q, &layer.k, &layer.v, &layer.attention_gate}),
                     tiles({&layer.attention_output})});
    if (layer.laurel) {
      most = std::max({most, tiles({&layer.laurel->down}), tiles({&layer.laurel->up})});
    }
    if (const auto& latent = layer.latent) {
      const LinearWeights& q = latent->q_down.rows != 0 ? latent->q_down : latent->q;
      const IndexerWeights& indexer = latent->indexer;
      most = std::max({most, tiles({&q, &latent->kv_down, &indexer.k, &indexer.weights}),
                       tiles({&latent->q, &indexer.q}), tiles({&latent->kv}),
                       tiles({&latent->q_absorbed}), tiles({&latent->v})});
    }
    count_block(layer.ffn);
    if (layer.time_mix) {
      const TimeMixWeights& w = *layer.time_mix;
      most = std::max(
          {most,
           tiles({&w.q, &w.k, &w.v, &w.decay.down, &w.rate.down, &w.value.down, &w.gate.down}),
           tiles({&w.decay.up, &w.rate.up, &w.value.up, &w.gate.up}), tiles({&w.output})});
    }
    if (layer.recurrent) {
      const RecurrentWeights& w = *layer.recurrent;
      most = std::max({most,
                       tiles({&w.mixed, &w.queries, &w.keys, &w.values, &w.gate_down, &w.gate,
                              &w.factors, &w.steps}),
                       tiles({&w.rates}), tiles({&w.output})});
    }
    if (!layer.experts) continue;
    const ExpertWeights& of = *layer.experts;
    most = std::max({most, tiles({&of.router, &of.shared_gate}), tiles({&of.latent_down}),
                     tiles({&of.latent_up})});
    count_block(of.each);
  }
  return most;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Create(ModelDescription description, WeightCache& weights,
                                             const KernelTable& kernels, ThreadPool& pool,
                                             const ModelOptions& options) {
  THAW_CHECK(options.max_batch >= 1 && options.max_context >= 1);
  ModelConfig& config = description.config;
  std::vector<RopeAngles> angles;
  for (RopeConfig& rope : config.ropes) {
    const bool is_long = options.max_context > rope.scaling.original_context;
    if (is_long && !config.long_frequency_factors.empty()) {
      rope.frequency_factors = config.long_frequency_factors;
    }
    THAW_ASSIGN(RopeAngles of_rope, RopeAngles::Create(rope));
    angles.push_back(std::move(of_rope));
  }
  std::unique_ptr<Model> model(
      new Model(std::move(description), std::move(angles), weights, kernels, pool, options));
  THAW_ASSIGN(
      model->work_,
      AllocateWorkspace(model->config_,
                        {.max_batch = options.max_batch,
                         .max_context = options.max_context,
                         .threads = pool.thread_count(),
                         .product_bytes = ProductScratchBytes(model->config_, weights.map()),
                         .may_split = MaySplitActivations(kernels, weights.map())}));
  return model;
}

Model::Model(ModelDescription description, std::vector<RopeAngles> angles, WeightCache& weights,
             const KernelTable& kernels, ThreadPool& pool, const ModelOptions& options)
    : config_(std::move(description.config)),
      weights_(std::move(description.weights)),
      angles_(std::move(angles)),
      cache_(weights),
      kernels_(kernels),
      decoder_(*options.decoder),
      pool_(pool),
      options_(options),
      visits_(
          MostTilesAtOnce(weights_, weights.map(),
                          std::min(config_.experts.n, ExpertPairs(config_, options.max_batch)))),
      rows_done_(
          static_cast<size_t>((config_.widest_block() + kActivatedRows - 1) / kActivatedRows)),
      spans_left_(static_cast<size_t>(MostSplitHeads(pool.thread_count()))) {}

PassTimes Model::times() const {
  PassTimes times = times_;
  times.coded_products =
      1e-9 * static_cast<double>(coded_product_ns_.load(std::memory_order_relaxed));
  return times;
}

void Model::Scale(std::span<float> x, float factor) {
  for (float& number : x) number *= factor;
}

void Model::ForEachToken(int64_t n_tokens, FunctionRef<void(int64_t)> body) {
  pool_.ParallelFor(n_tokens, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

ActivationCopy Model::CopyFor(std::initializer_list<const LinearWeights*> readers) const {
  ActivationCopy copy = ActivationCopy::kNone;
  for (const LinearWeights* weights : readers) {
    if (weights->rows == 0) continue;
    copy = std::max(copy, FastestCopy(kernels_, cache_.map().matrix(weights->matrix).type));
  }
  return copy;
}

ActivationCopy Model::CopyForFeedForward(const LayerWeights& layer) const {
  const ActivationCopy of_block = CopyFor({&layer.ffn.gate, &layer.ffn.up});
  if (!layer.experts || layer.experts->before) return of_block;
  const ExpertWeights& experts = *layer.experts;
  const bool has_latents = experts.latent_down.rows != 0;
  const ActivationCopy of_experts = has_latents ? CopyFor({&experts.latent_down})
                                                : CopyFor({&experts.each.gate, &experts.each.up});
  return std::max({of_block, of_experts, CopyFor({&experts.router, &experts.shared_gate})});
}

Activations Model::Quantize(const float* x, int64_t n_tokens, int64_t k, ActivationCopy copy) {
  const Activations activations = ViewActivations(x, n_tokens, k, work_.quantized, copy);
  ForEachToken(n_tokens, [&](int64_t i) { kernels_.quantize_activations(activations, i, i + 1); });
  return activations;
}

Result<void> Model::Forward(std::span<const BatchToken> batch, std::span<float> logits,
                            const std::atomic<bool>* cancel) {
  const auto n_tokens = static_cast<int64_t>(batch.size());
  THAW_CHECK(n_tokens >= 1 && n_tokens <= options_.max_batch);
  for (const BatchToken& token : batch) {
    THAW_CHECK(token.token >= 0 && token.token < config_.n_vocab);
    THAW_CHECK(token.position >= token.kv->length() && token.position < token.kv->capacity());
    THAW_CHECK(token.position < options_.max_context);
    THAW_CHECK(token.position < token.kv->length() + token.kv->max_batch());
  }
  const Stopwatch total(times_.total);
  // Without logits what makes them, whose tiles are the last, is not visited.
  const bool any_logits = std::ranges::any_of(batch, &BatchToken::wants_logits);
  const TileMap& map = cache_.map();
  const LinearWeights& of_logits =
      weights_.stream_outputs.empty() ? weights_.output : weights_.stream_outputs.front();
  THAW_TRY(cache_.BeginPass(any_logits ? map.tile_count() : map.tiles_of(of_logits.matrix).first));
  THAW_TRY(Embed(batch));
  PlanRuns(batch);
  ForEachToken(n_tokens, [&](int64_t i) {
    for (size_t rope = 0; rope < angles_.size(); ++rope) {
      angles_[rope].Fill(batch[static_cast<size_t>(i)].position, CosSin(static_cast<int>(rope), i));
    }
  });
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Fail(ErrorCode::kCancelled, "stopped");
    }
    THAW_TRY(RunLayer(layer, batch));
  }
  THAW_TRY(ComputeLogits(batch, logits));
  for (const TokenRun& run : sequences_) {
    const BatchToken& last = batch[static_cast<size_t>(run.first + run.count - 1)];
    last.kv->Extend(last.position + 1);
  }
  return {};
}

Result<void> Model::Embed(std::span<const BatchToken> batch) {
  THAW_TRY(LookUp(batch));
  const auto n_tokens = static_cast<int64_t>(batch.size());
  ForEachToken(n_tokens, [&](int64_t i) {
    const int64_t d = config_.d_model;
    float* x = work_.x + i * d;
    if (config_.embedding_scale != 1) {
      Scale(std::span(x, static_cast<size_t>(d)), config_.embedding_scale);
    }
    if (weights_.position_embedding >= 0) kernels_.add(x, work_.projected + i * d, d, x);
    if (weights_.embedding_norm) Norm(*weights_.embedding_norm, x, x);
  });
  THAW_TRY(EmbedForLayers(n_tokens));
  return SpreadStreams(n_tokens);
}

Result<void> Model::LookUp(std::span<const BatchToken> batch) {
  rows_.clear();
  for (const BatchToken& token : batch) rows_.push_back({weights_.embedding, token.token});
  if (weights_.position_embedding >= 0) {
    const int64_t n_positions = cache_.map().matrix(weights_.position_embedding).rows;
    for (const BatchToken& token : batch) {
      if (token.position >= n_positions) {
        return Fail(ErrorCode::kInvalidArgument,
                    "position {}: the model has learned positions below {}", token.position,
                    n_positions);
      }
      rows_.push_back({weights_.position_embedding, token.position});
    }
  }
  if (weights_.layer_embedding >= 0) {
    for (const BatchToken& token : batch) rows_.push_back({weights_.layer_embedding, token.token});
  }
  return cache_.ReadRows(rows_, [&](size_t i, std::span<const std::byte> bytes) {
    const int32_t matrix = rows_[i].matrix;
    float* out = matrix == weights_.embedding            ? work_.x
                 : matrix == weights_.position_embedding ? work_.projected
                                                         : work_.layer_inputs;
    const WeightMatrix& table = cache_.map().matrix(matrix);
    const auto width = static_cast<size_t>(table.cols);
    return Dequantize(table.type, bytes, std::span(out + i % batch.size() * width, width));
  });
}

float* Model::CosSin(int rope, int64_t i) {
  return work_.cos_sin + (rope * options_.max_batch + i) * config_.most_rope_dim();
}

void Model::Norm(const NormWeights& norm, const float* x, float* out) const {
  const ModelConfig& c = config_;
  const NormKind kind = c.family->norm;
  if (kind == NormKind::kRms || kind == NormKind::kBiasedRms) {
    kernels_.rms_norm(x, norm.weight.data(), c.d_model, c.norm_epsilon, out);
    if (!norm.bias.empty()) kernels_.add(out, norm.bias.data(), c.d_model, out);
    return;
  }
  const auto or_none = [](const std::vector<float>& values) {
    return values.empty() ? nullptr : values.data();
  };
  kernels_.layer_norm(x, or_none(norm.weight), or_none(norm.bias), c.d_model, c.norm_epsilon, out);
}

void Model::NormByRms(const std::vector<float>& weight, float* x) const {
  if (weight.empty()) return;
  kernels_.rms_norm(x, weight.data(), std::ssize(weight), config_.norm_epsilon, x);
}

void Model::ReadStream(const std::optional<NormWeights>& norm, int64_t i) {
  const float* x = work_.x + i * config_.d_model;
  float* read = work_.normed + i * config_.d_model;
  if (norm) {
    Norm(*norm, x, read);
  } else {
    std::copy_n(x, config_.d_model, read);
  }
}

void Model::AddToStream(const std::vector<float>& bias, const std::optional<NormWeights>& norm,
                        int64_t i) {
  const int64_t d = config_.d_model;
  float* x = work_.x + i * d;
  float* added = work_.projected + i * d;
  if (norm || config_.residual_scale != 1) {
    if (!bias.empty()) kernels_.add(added, bias.data(), d, added);
    if (norm) Norm(*norm, added, added);
    if (config_.residual_scale != 1) {
      Scale(std::span(added, static_cast<size_t>(d)), config_.residual_scale);
    }
    return kernels_.add(x, added, d, x);
  }
  kernels_.add(x, added, d, x);
  if (!bias.empty()) kernels_.add(x, bias.data(), d, x);
}

Result<void> Model::RunLayer(int64_t index, std::span<const BatchToken> batch) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const auto n_tokens = static_cast<int64_t>(batch.size());
  if (layer.experts && config_.family->routes_stream) {
    const ActivationCopy copy = CopyFor({&layer.experts->router});
    THAW_TRY(Route(*layer.experts, Quantize(work_.x, n_tokens, config_.d_model, copy)));
  }
  if (layer.streams) PredictStreams(*layer.streams, n_tokens);
  const LayerConfig& has = config_.layers[static_cast<size_t>(index)];
  const bool attends = has.heads.n != 0;
  if (layer.time_mix) {
    THAW_TRY(RunTimeMix(index, batch));
  } else if (has.recurs) {
    THAW_TRY(RunRecurrence(index, batch));
  }
  if (attends) THAW_TRY(RunAttention(index, batch, has.recurs ? work_.beside : work_.projected));
  if (has.recurs && attends) {
    ForEachToken(n_tokens, [&](int64_t i) {
      float* sum = work_.projected + i * config_.d_model;
      kernels_.add(sum, work_.beside + i * config_.d_model, config_.d_model, sum);
    });
  }
  if (layer.laurel) THAW_TRY(AddWithLaurel(layer, n_tokens));
  THAW_TRY(RunFeedForward(index, batch, (has.recurs || attends) && !layer.laurel));
  if (layer.streams) CorrectStreams(*layer.streams, n_tokens);
  if (layer.embedding_gate.rows != 0) THAW_TRY(AddLayerEmbedding(index, n_tokens));
  if (layer.output_scale != 1) {
    ForEachToken(n_tokens, [&](int64_t i) {
      const auto d = static_cast<size_t>(config_.d_model);
      Scale(std::span(work_.x + static_cast<size_t>(i) * d, d), layer.output_scale);
    });
  }
  return {};
}

Result<void> Model::RunFeedForward(int64_t index, std::span<const BatchToken> batch,
                                   bool has_mixed) {
  const ModelConfig& c = config_;
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const auto add_mixed = [&](int64_t i) {
    if (has_mixed) AddToStream(layer.attention_output.bias, layer.attention_after, i);
  };
  if (!layer.ffn.is_there() && !layer.experts) {
    ForEachToken(n_tokens, add_mixed);
    return {};
  }
  const bool shifts = !layer.ffn_shares.empty();
  const ActivationCopy copy = CopyForFeedForward(layer);
  Activations normed = ViewActivations(work_.normed, n_tokens, c.d_model, work_.quantized, copy);
  ForEachToken(n_tokens, [&](int64_t i) {
    if (c.is_parallel) ReadStream(layer.ffn_norm, i);
    add_mixed(i);
    if (!c.is_parallel) ReadStream(layer.ffn_norm, i);
    if (!shifts) kernels_.quantize_activations(normed, i, i + 1);
  });
  if (shifts) Shift(index, batch, Shifted::kFeedForward, layer.ffn_shares, copy, {&normed, 1});
  if (layer.experts && layer.experts->before) {
    THAW_TRY(RunExpertsBeside(layer, normed));
  } else {
    THAW_TRY(layer.experts ? RunExperts(layer, normed) : RunBlock(layer.ffn, normed));
  }
  const std::vector<float> no_bias;
  const std::vector<float>& bias = layer.experts ? no_bias : layer.ffn.down.bias;
  ForEachToken(n_tokens, [&](int64_t i) { AddToStream(bias, layer.ffn_after, i); });
  return {};
}

Result<void> Model::RunBlock(const FeedForwardWeights& ffn, const Activations& normed) {
  const int64_t n_tokens = normed.n_tokens;
  const Product both[] = {{&ffn.gate, &normed, work_.gate}, {&ffn.up, &normed, work_.up}};
  const std::span gate_up(both, config_.family->is_gated ? 2 : 1);
  if (std::isfinite(ffn.gate_cutoff)) {
    THAW_TRY(Multiply(gate_up));
    ForEachToken(n_tokens, [&](int64_t i) { Activate(ffn, i, 0, ffn.gate.rows); });
  } else {
    for (std::atomic<int32_t>& rows : rows_done_) rows.store(0, std::memory_order_relaxed);
    THAW_TRY(Multiply(
        gate_up, [&](int64_t begin, int64_t end) { ActivateDone(ffn, n_tokens, begin, end); }));
  }
  const Activations hidden = ViewActivations(work_.gate, n_tokens, ffn.gate.rows,
                                             work_.quantized_hidden, CopyFor({&ffn.down}));
  ForEachToken(n_tokens, [&](int64_t i) {
    NormByRms(ffn.sub_norm, work_.gate + i * ffn.gate.rows);
    kernels_.quantize_activations(hidden, i, i + 1);
  });
  const Product down[] = {{&ffn.down, &hidden, work_.projected}};
  return Multiply(down);
}

void Model::ActivateDone(const FeedForwardWeights& ffn, int64_t n_tokens, int64_t begin,
                         int64_t end) {
  const int64_t d_ff = ffn.gate.rows;
  const int32_t products = config_.family->is_gated ? 2 : 1;
  const auto activate_blocks = [&](int64_t first, int64_t last) {
    if (first == last) return;
    for (int64_t i = 0; i < n_tokens; ++i) {
      Activate(ffn, i, first * kActivatedRows, std::min(last * kActivatedRows, d_ff));
    }
  };
  const int64_t block_end = (end + kActivatedRows - 1) / kActivatedRows;
  int64_t whole = begin / kActivatedRows;  // blocks [whole, block) are there
  for (int64_t block = whole; block < block_end; ++block) {
    const int64_t first = block * kActivatedRows;
    const int64_t last = std::min(first + kActivatedRows, d_ff);
    const auto new_rows = static_cast<int32_t>(std::min(last, end) - std::max(first, begin));
    std::atomic<int32_t>& done = rows_done_[static_cast<size_t>(block)];
    if (done.fetch_add(new_rows, std::memory_order_acq_rel) + new_rows ==
        products * (last - first)) {
      continue;
    }
    activate_blocks(whole, block);
    whole = block + 1;
  }
  activate_blocks(whole, block_end);
}

void Model::Activate(const FeedForwardWeights& ffn, int64_t i, int64_t begin, int64_t end) {
  const int64_t d_ff = ffn.gate.rows;
  const auto add_bias = [&](const LinearWeights& weights, float* y) {
    if (!weights.bias.empty()) kernels_.add(y, weights.bias.data() + begin, end - begin, y);
  };
  float* gate = work_.gate + i * d_ff + begin;
  float* up = config_.family->is_gated ? work_.up + i * d_ff + begin : nullptr;
  add_bias(ffn.gate, gate);
  if (up != nullptr) add_bias(ffn.up, up);
  if (std::isfinite(ffn.gate_cutoff)) CutGates(ffn.gate_cutoff, std::span(gate, gate + d_ff));
  kernels_.activate(ffn.activation, gate, up, end - begin, gate);
}

Result<void> Model::ComputeLogits(std::span<const BatchToken> batch, std::span<float> logits) {
  const ModelConfig& c = config_;
  const LinearWeights& output = weights_.output;
  std::vector<int64_t> wanting;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].wants_logits) wanting.push_back(static_cast<int64_t>(i));
  }
  const auto n = static_cast<int64_t>(wanting.size());
  THAW_CHECK(static_cast<int64_t>(logits.size()) == n * c.n_vocab);
  if (n == 0) return {};
  THAW_TRY(MergeStreams(wanting));
  const Activations normed =
      ViewActivations(work_.normed, n, c.d_model, work_.quantized, CopyFor({&output}));
  ForEachToken(n, [&](int64_t i) {
    Norm(weights_.output_norm, work_.x + wanting[static_cast<size_t>(i)] * c.d_model,
         work_.normed + i * c.d_model);
    kernels_.quantize_activations(normed, i, i + 1);
  });
  const Product product[] = {{&output, &normed, logits.data()}};
  THAW_TRY(Multiply(product));
  FinishLogits(logits);
  return {};
}

void Model::FinishLogits(std::span<float> logits) {
  const ModelConfig& c = config_;
  const std::vector<float>& bias = weights_.output.bias;
  if (bias.empty() && c.logit_scale == 1 && c.final_soft_cap == 0) return;
  // Runs that do not reach over the end of a row of logits.
  constexpr int64_t kRun = 4096;
  const int64_t runs = (c.n_vocab + kRun - 1) / kRun;
  const int64_t n = std::ssize(logits) / c.n_vocab;
  ForEachToken(n * runs, [&](int64_t item) {
    const int64_t begin = item % runs * kRun;
    const int64_t size = std::min(kRun, c.n_vocab - begin);
    float* of_run = logits.data() + item / runs * c.n_vocab + begin;
    if (!bias.empty()) kernels_.add(of_run, bias.data() + begin, size, of_run);
    if (c.logit_scale != 1) Scale(std::span(of_run, static_cast<size_t>(size)), c.logit_scale);
    if (c.final_soft_cap != 0) kernels_.soft_cap(of_run, size, c.final_soft_cap);
  });
}

}  // namespace thaw
