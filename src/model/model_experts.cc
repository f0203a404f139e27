// Layers with experts: routing tokens, and running each needed expert once over its tokens.
//
// A token's result does not depend on the batch: its experts are added in ascending order, and each
// row of activations is multiplied for itself.
#include <algorithm>

#include "model/model.h"

namespace thaw {

Result<void> Model::RunExperts(const LayerWeights& layer, const Activations& normed) {
  const int64_t n_tokens = normed.n_tokens;
  const int64_t d = config_.d_model;
  const ExpertWeights& experts = *layer.experts;
  if (!config_.family->routes_stream) THAW_TRY(Route(experts, normed));
  // Meanwhile the tiles of experts are read.
  const bool has_block = layer.ffn.is_there();
  if (has_block) THAW_TRY(RunBlock(layer.ffn, normed));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* out = work_.projected + i * d;
    if (!has_block) std::fill_n(out, d, 0.0F);
    const std::vector<float>& bias = layer.ffn.down.bias;
    if (!bias.empty()) kernels_.add(out, bias.data(), d, out);
    if (experts.shared_gate.rows == 0) return;
    Scale(std::span(out, static_cast<size_t>(d)), Sigmoid(work_.shared_gate[i]));
  });
  if (experts.latent_down.rows == 0) {
    for (const std::span<const ExpertRun> runs : waves_) {
      THAW_TRY(RunWave(experts.each, runs, normed, work_.projected));
    }
    return {};
  }
  const int64_t width = config_.experts.width;
  const Product down[] = {{&experts.latent_down, &normed, work_.latent}};
  THAW_TRY(Multiply(down));
  const Activations latent = ViewActivations(work_.latent, n_tokens, width, work_.quantized,
                                             CopyFor({&experts.each.gate, &experts.each.up}));
  ForEachToken(n_tokens, [&](int64_t i) {
    kernels_.quantize_activations(latent, i, i + 1);
    std::fill_n(work_.latent_sum + i * width, width, 0.0F);
  });
  for (const std::span<const ExpertRun> runs : waves_) {
    THAW_TRY(RunWave(experts.each, runs, latent, work_.latent_sum));
  }
  THAW_TRY(QuantizeAndMultiply(experts.latent_up, work_.latent_sum, n_tokens, work_.normed));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* out = work_.projected + i * d;
    kernels_.add(out, work_.normed + i * d, d, out);
  });
  return {};
}

Result<void> Model::RunExpertsBeside(const LayerWeights& layer, const Activations& normed) {
  const int64_t n_tokens = normed.n_tokens;
  const int64_t d = config_.d_model;
  const ExpertWeights& experts = *layer.experts;
  // The quantized copy of `normed` is needed after the router.
  const Activations routed = ViewActivations(work_.latent, n_tokens, d, work_.quantized_hidden,
                                             CopyFor({&experts.router}));
  ForEachToken(n_tokens, [&](int64_t i) {
    kernels_.rms_norm(work_.x + i * d, experts.router_norm.data(), d, config_.norm_epsilon,
                      work_.latent + i * d);
    kernels_.quantize_activations(routed, i, i + 1);
  });
  THAW_TRY(Route(experts, routed));
  THAW_TRY(RunBlock(layer.ffn, normed));
  const Activations read = ViewActivations(work_.latent, n_tokens, d, work_.quantized,
                                           CopyFor({&experts.each.gate, &experts.each.up}));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* of_block = work_.projected + i * d;
    Norm(*experts.block_after, of_block, of_block);
    Norm(*experts.before, work_.x + i * d, work_.latent + i * d);
    kernels_.quantize_activations(read, i, i + 1);
    std::fill_n(work_.latent_sum + i * d, d, 0.0F);
  });
  for (const std::span<const ExpertRun> runs : waves_) {
    THAW_TRY(RunWave(experts.each, runs, read, work_.latent_sum));
  }
  ForEachToken(n_tokens, [&](int64_t i) {
    float* sum = work_.latent_sum + i * d;
    float* out = work_.projected + i * d;
    Norm(*experts.after, sum, sum);
    kernels_.add(out, sum, d, out);
  });
  return {};
}

Result<void> Model::Route(const ExpertWeights& experts, const Activations& read) {
  const auto n = static_cast<size_t>(config_.experts.n);
  const auto n_used = static_cast<size_t>(config_.experts.n_used);
  const Product both[] = {{&experts.router, &read, work_.router},
                          {&experts.shared_gate, &read, work_.shared_gate}};
  THAW_TRY(Multiply(std::span(both, experts.shared_gate.rows != 0 ? 2 : 1)));
  const std::vector<float>& bias = experts.router.bias;
  ForEachToken(read.n_tokens, [&](int64_t i) {
    const auto token = static_cast<size_t>(i);
    const std::span logits(work_.router + token * n, n);
    if (!bias.empty()) kernels_.add(logits.data(), bias.data(), std::ssize(logits), logits.data());
    ChooseExperts(config_.experts, logits, experts.choice_bias,
                  std::span(work_.router_scratch + token * n, n),
                  std::span(work_.choices + token * n_used, n_used));
  });
  PlanExpertRuns(read.n_tokens);
  ExpectExperts(experts.each);
  return {};
}

void Model::PlanExpertRuns(int64_t n_tokens) {
  const int64_t n_used = config_.experts.n_used;
  const std::span choices(work_.choices, static_cast<size_t>(n_tokens * n_used));
  expert_runs_.assign(static_cast<size_t>(config_.experts.n), {});
  for (const ExpertChoice& choice : choices) {
    ++expert_runs_[static_cast<size_t>(choice.expert)].count;
  }
  int64_t first = 0;
  for (size_t expert = 0; expert < expert_runs_.size(); ++expert) {
    ExpertRun& run = expert_runs_[expert];
    run.expert = static_cast<int32_t>(expert);
    run.first = first;
    first += run.count;
    run.count = 0;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    ExpertRun& run = expert_runs_[static_cast<size_t>(choices[i].expert)];
    const int64_t pair = run.first + run.count++;
    work_.pair_of_choice[i] = static_cast<int32_t>(pair);
    work_.token_of_pair[pair] = static_cast<int32_t>(static_cast<int64_t>(i) / n_used);
  }
  std::erase_if(expert_runs_, [](const ExpertRun& run) { return run.count == 0; });

  const int64_t most = ExpertPairs(config_, options_.max_batch);
  const std::span<const ExpertRun> runs = expert_runs_;
  waves_.clear();
  for (size_t begin = 0; begin < runs.size();) {
    size_t end = begin + 1;
    while (end < runs.size() && runs[end].first + runs[end].count - runs[begin].first <= most) {
      ++end;
    }
    waves_.push_back(runs.subspan(begin, end - begin));
    begin = end;
  }
}

void Model::ExpectExperts(const FeedForwardWeights& each) {
  expected_.clear();
  for (const std::span<const ExpertRun> runs : waves_) {
    for (const LinearWeights* weights : {&each.gate, &each.up, &each.down}) {
      if (weights->rows == 0) continue;
      for (const ExpertRun& run : runs) {
        const TileMap::Range tiles = cache_.map().tiles_of(weights->matrix, run.expert);
        for (int32_t tile = tiles.first; tile < tiles.first + tiles.count; ++tile) {
          expected_.push_back(tile);
        }
      }
    }
  }
  cache_.Expect(expected_);
}

Result<void> Model::RunWave(const FeedForwardWeights& each, std::span<const ExpertRun> runs,
                            const Activations& read, float* sums) {
  const int64_t d = read.k;
  const int64_t d_ff = config_.experts.d_ff;
  const int64_t first = runs.front().first;
  const int64_t count = runs.back().first + runs.back().count - first;
  const auto for_each_pair = [&](FunctionRef<void(const ExpertRun& run, int64_t pair)> body) {
    pool_.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t pair = begin; pair < end; ++pair) {
        const auto run = std::ranges::upper_bound(runs, first + pair, {}, &ExpertRun::first) - 1;
        body(*run, pair);
      }
    });
  };
  // Products of each run, of two matrices where there are gates; run_activations_ says of what.
  const auto multiply = [&](std::initializer_list<std::pair<const LinearWeights*, float*>> parts) {
    expert_products_.clear();
    for (const auto& [weights, out] : parts) {
      if (weights->rows == 0) continue;
      for (size_t i = 0; i < runs.size(); ++i) {
        expert_products_.push_back({.weights = weights,
                                    .activations = &run_activations_[i],
                                    .out = out + (runs[i].first - first) * weights->rows,
                                    .expert = runs[i].expert});
      }
    }
    return Multiply(expert_products_);
  };
  const auto add_bias = [&](const LinearWeights& weights, int32_t expert, float* y) {
    if (weights.bias.empty()) return;
    kernels_.add(y, weights.bias.data() + expert * weights.rows, weights.rows, y);
  };

  const bool scales_input = config_.family->scales_expert_input;
  const int64_t n_used = config_.experts.n_used;
  const auto weight_of = [&](int32_t expert, int64_t token) {
    const std::span choices(work_.choices + token * n_used, static_cast<size_t>(n_used));
    return std::ranges::find(choices, expert, &ExpertChoice::expert)->weight;
  };
  // All experts of a single token read the same row.
  const bool shares_row = read.n_tokens == 1 && !scales_input;
  // Whatever the copy, rows of floats that fill no group are multiplied with the values.
  const auto is_float = [&](const LinearWeights& weights) {
    return weights.rows != 0 && IsWeightFloat(cache_.map().matrix(weights.matrix).type);
  };
  const bool has_values = scales_input || is_float(each.gate) || is_float(each.up);
  const Activations gathered = ViewActivations(has_values ? work_.pair_rows : nullptr, count, d,
                                               work_.quantized_hidden, read.copy);
  if (!shares_row) {
    for_each_pair([&](const ExpertRun& run, int64_t pair) {
      const int64_t token = work_.token_of_pair[first + pair];
      float* row = work_.pair_rows + pair * d;
      if (has_values) std::copy_n(read.values + token * d, d, row);
      if (!scales_input) return CopyToken(read, token, gathered, pair);
      Scale(std::span(row, static_cast<size_t>(d)), weight_of(run.expert, token));
      kernels_.quantize_activations(gathered, pair, pair + 1);
    });
  }
  run_activations_.clear();
  for (const ExpertRun& run : runs) {
    run_activations_.push_back(shares_row ? read
                                          : TokensOf(gathered, run.first - first, run.count));
  }
  const bool is_joined = config_.experts.joins_gate_up;
  THAW_TRY(multiply(
      {{&each.gate, is_joined ? work_.pair_up : work_.pair_gate}, {&each.up, work_.pair_up}}));

  const Activations hidden =
      ViewActivations(work_.pair_gate, count, d_ff, work_.quantized_hidden, CopyFor({&each.down}));
  for_each_pair([&](const ExpertRun& run, int64_t pair) {
    float* out = work_.pair_gate + pair * d_ff;
    float* gate = is_joined ? work_.pair_up + pair * 2 * d_ff : out;
    float* up = nullptr;
    if (is_joined) {
      up = gate + d_ff;
    } else if (each.up.rows != 0) {
      up = work_.pair_up + pair * d_ff;
      add_bias(each.up, run.expert, up);
    }
    add_bias(each.gate, run.expert, gate);
    kernels_.activate(each.activation, gate, up, d_ff, out);
    kernels_.quantize_activations(hidden, pair, pair + 1);
  });
  for (size_t i = 0; i < runs.size(); ++i) {
    run_activations_[i] = TokensOf(hidden, runs[i].first - first, runs[i].count);
  }
  THAW_TRY(multiply({{&each.down, work_.pair_rows}}));

  ForEachToken(read.n_tokens, [&](int64_t i) {
    float* sum = sums + i * d;
    for (int64_t n = i * n_used; n < (i + 1) * n_used; ++n) {
      const int64_t pair = work_.pair_of_choice[n] - first;
      if (pair < 0 || pair >= count) continue;
      const ExpertChoice& choice = work_.choices[n];
      float* out = work_.pair_rows + pair * d;
      add_bias(each.down, choice.expert, out);
      const float weight = scales_input ? 1 : choice.weight;
      for (int64_t j = 0; j < d; ++j) sum[j] += weight * out[j];
    }
  });
  return {};
}

}  // namespace thaw
