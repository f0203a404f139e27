#include "model/weights.h"

#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "model/tensor_finder.h"

namespace thaw {
namespace {

using enum Presence;

// The slopes of n heads: a geometric series that ends with 2^-bias for the largest power of two
// that is not above n; the other heads have every second number of the series of twice as many.
std::vector<float> HeadSlopes(int64_t n_heads, float bias) {
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n_heads)));
  std::vector<float> slopes;
  for (int64_t head = 0; head < n_heads; ++head) {
    const int64_t halves = head < whole ? 2 * (head + 1) : 2 * (head - whole) + 1;
    slopes.push_back(std::exp2(-bias * static_cast<float>(halves) / static_cast<float>(2 * whole)));
  }
  return slopes;
}

// Finds the tensors of one layer, "blk.N.".
class LayerDescriber {
 public:
  LayerDescriber(TensorFinder& find, const ModelConfig& config, int64_t index)
      : find_(find),
        config_(config),
        of_layer_(config.layers[static_cast<size_t>(index)]),
        heads_(of_layer_.heads),
        family_(*config.family),
        index_(index) {}

  Result<LayerWeights> Describe() {
    LayerWeights layer;
    find_.EnterGroup(index_, WeightGroup::kAttention);
    if (config_.n_streams > 1) {
      THAW_ASSIGN(layer.streams, DescribeStreams());
    }
    const bool mixes = of_layer_.recurs || heads_.n != 0;
    if (family_.norms_before && mixes) {
      const bool has_second =
          family_.has_second_attention_norm && find_.Has(Name("attn_norm_2.weight"));
      THAW_ASSIGN(layer.attention_norm, Norm(has_second ? "attn_norm_2" : "attn_norm"));
    }
    if (of_layer_.recurs && family_.recurrence == Recurrence::kTimeMix) {
      THAW_ASSIGN(layer.time_mix, DescribeTimeMix());
    } else if (of_layer_.recurs) {
      THAW_ASSIGN(layer.recurrent, DescribeRecurrence());
    }
    if (heads_.n != 0) {
      THAW_TRY(of_layer_.is_latent ? DescribeLatent(layer) : DescribeHeads(layer));
      const int64_t value_size = of_layer_.is_latent ? config_.latent.value_size : heads_.v_size;
      THAW_ASSIGN(layer.attention_output,
                  find_.Linear(Name("attn_output"), config_.d_model, heads_.n * value_size,
                               family_.attention_output_bias));
      if (config_.value_scale != 1) {
        std::vector<float>& scale = layer.attention_output.scale;
        scale = {config_.value_scale * (scale.empty() ? 1 : scale.front())};
      }
    }
    if (family_.norms_after && mixes) {
      THAW_ASSIGN(layer.attention_after, Norm(family_.attention_after_norm));
    }
    if (config_.laurel_rank != 0) {
      THAW_ASSIGN(layer.laurel, DescribeLaurel());
    }
    if (!of_layer_.has_block()) return layer;
    find_.EnterGroup(index_, WeightGroup::kFeedForward);
    THAW_TRY(DescribeFeedForward(layer));
    return layer;
  }

 private:
  std::string Name(std::string_view part) const { return fmt::format("blk.{}.{}", index_, part); }

  Result<NormWeights> Norm(std::string_view stem) { return find_.Norm(Name(stem)); }

  Result<StreamWeights> DescribeStreams() {
    const int64_t d = config_.d_model;
    const int64_t n = config_.n_streams;
    const auto floats = [&](std::string_view part, const Dimensions& shape) {
      return find_.Floats(Name(fmt::format("altup_{}.weight", part)), shape, kRequired);
    };
    StreamWeights w;
    THAW_ASSIGN(w.router_norm, floats("router_norm", {d, 1, 1, 1}));
    for (float& weight : w.router_norm) weight /= static_cast<float>(d);
    THAW_ASSIGN(w.router, floats("router", {d, n, 1, 1}));
    THAW_ASSIGN(w.predict, floats("predict_coef", {n, n * n, 1, 1}));
    THAW_ASSIGN(w.correct, floats("correct_coef", {n, n, 1, 1}));
    THAW_ASSIGN(w.scale, floats("correct_scale", {d, 1, 1, 1}));
    return w;
  }

  Result<LaurelWeights> DescribeLaurel() {
    const int64_t d = config_.d_model;
    const int64_t rank = config_.laurel_rank;
    LaurelWeights w;
    THAW_ASSIGN(w.down, find_.Linear(Name("laurel_l"), rank, d, kAbsent));
    THAW_ASSIGN(w.up, find_.Linear(Name("laurel_r"), d, rank, kAbsent));
    THAW_ASSIGN(w.after, Norm("laurel_post_norm"));
    return w;
  }

  // Queries, keys and values: of three tensors, or of one that holds the rows of all.
  Result<void> DescribeHeads(LayerWeights& layer) {
    const int64_t d = config_.d_model;
    const int64_t q_size = heads_.q_width() * (family_.joins_query_gates ? 2 : 1);
    const int64_t k_size = heads_.k_width();
    const int64_t v_size = heads_.v_width();
    const Presence bias = family_.qkv_bias;
    if (find_.Has(Name("attn_qkv.weight"))) {
      THAW_TRY(find_.Joined(Name("attn_qkv"), d, bias,
                            {{&layer.q, q_size}, {&layer.k, k_size}, {&layer.v, v_size}}));
    } else {
      THAW_ASSIGN(layer.q, find_.Linear(Name("attn_q"), q_size, d, bias));
      if (of_layer_.kv_layer >= 0) {
        for (const char* part : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
          find_.Ignore(Name(part));
        }
        THAW_ASSIGN(layer.q_norm, HeadNorm("attn_q_norm.weight", heads_.n));
        return {};
      }
      THAW_ASSIGN(layer.k, find_.Linear(Name("attn_k"), k_size, d, bias));
      const bool is_key = family_.may_lack_values && !find_.Has(Name("attn_v.weight"));
      if (!is_key || k_size != v_size) {
        THAW_ASSIGN(layer.v, find_.Linear(Name("attn_v"), v_size, d, bias));
      }
    }
    if (family_.norms_values) layer.v_norm.assign(static_cast<size_t>(heads_.v_size), 1.0F);
    if (family_.attention_gate != AttentionGate::kNone) {
      const bool of_heads = family_.attention_gate == AttentionGate::kHead;
      const int64_t rows = of_heads ? heads_.n : heads_.out_width();
      THAW_ASSIGN(layer.attention_gate, find_.Linear(Name("attn_gate"), rows, d, kAbsent));
    }
    THAW_ASSIGN(layer.sinks, find_.Vector(Name("attn_sinks.weight"), heads_.n, family_.sinks));
    THAW_ASSIGN(layer.attention_sub_norm, SubNorm("attn_sub_norm", heads_.out_width()));
    if (config_.slope_bias != 0) layer.slopes = HeadSlopes(heads_.n, config_.slope_bias);
    THAW_ASSIGN(layer.q_norm, HeadNorm("attn_q_norm.weight", heads_.n));
    THAW_ASSIGN(layer.k_norm, HeadNorm("attn_k_norm.weight", heads_.n_kv));
    return {};
  }

  Result<std::vector<float>> SubNorm(std::string_view stem, int64_t size) {
    return find_.Vector(Name(fmt::format("{}.weight", stem)), size,
                        family_.has_sub_norms ? kRequired : kAbsent);
  }

  Result<void> DescribeLatent(LayerWeights& layer) {
    const LatentConfig& c = config_.latent;
    const int64_t d = config_.d_model;
    const int64_t n = heads_.n;
    LatentWeights latent;
    if (c.q_rank != 0) {
      THAW_ASSIGN(latent.q_down, find_.Linear(Name("attn_q_a"), c.q_rank, d, kAbsent));
      THAW_ASSIGN(latent.q_norm, find_.Vector(Name("attn_q_a_norm.weight"), c.q_rank, kRequired));
    } else {
      THAW_ASSIGN(latent.q, find_.Linear(Name("attn_q"), n * c.key_size, d, kAbsent));
    }
    THAW_ASSIGN(latent.kv_down,
                find_.Linear(Name("attn_kv_a_mqa"), c.rank + c.rope_dim, d, kAbsent));
    if (of_layer_.index_key_size != 0) {
      THAW_TRY(DescribeIndexer(latent.indexer));
    }
    THAW_ASSIGN(latent.kv_norm, find_.Vector(Name("attn_kv_a_norm.weight"), c.rank, kRequired));
    if (c.q_rank != 0) {
      THAW_ASSIGN(latent.q, find_.Linear(Name("attn_q_b"), n * c.key_size, c.q_rank, kAbsent));
    }
    if (of_layer_.index_key_size != 0) {
      const int64_t rows = config_.indexer.n_heads * of_layer_.index_key_size;
      THAW_ASSIGN(latent.indexer.q,
                  find_.Linear(Name("indexer.attn_q_b"), rows, c.q_rank, kAbsent));
    }
    if (c.is_absorbed) {
      THAW_ASSIGN(latent.q_absorbed, find_.Heads(Name("attn_k_b"), n, c.rank, c.still_size()));
      THAW_ASSIGN(latent.v, find_.Heads(Name("attn_v_b"), n, c.value_size, c.rank));
    } else {
      const int64_t rows = n * (c.still_size() + c.value_size);
      THAW_ASSIGN(latent.kv, find_.Linear(Name("attn_kv_b"), rows, c.rank, kAbsent));
    }
    layer.latent = std::move(latent);
    return {};
  }

  // But for the queries, which come of what the others are made beside.
  Result<void> DescribeIndexer(IndexerWeights& indexer) {
    const int64_t size = of_layer_.index_key_size;
    const int64_t d = config_.d_model;
    THAW_ASSIGN(indexer.k, find_.Linear(Name("indexer.attn_k"), size, d, kAbsent));
    THAW_ASSIGN(indexer.k_norm, find_.Vector(Name("indexer.k_norm.weight"), size, kRequired));
    THAW_ASSIGN(indexer.k_norm_bias, find_.Vector(Name("indexer.k_norm.bias"), size, kRequired));
    THAW_ASSIGN(indexer.weights,
                find_.Linear(Name("indexer.proj"), config_.indexer.n_heads, d, kAbsent));
    return {};
  }

  Result<std::vector<float>> HeadNorm(std::string_view part, int64_t n_heads) {
    switch (family_.qk_norm) {
      case QkNorm::kNone:
        return std::vector<float>();
      case QkNorm::kHead:
        return find_.Vector(Name(part), heads_.size, kRequired);
      case QkNorm::kUnweightedHead:
        if (of_layer_.rope == kNoRope || config_.experts.n == family_.experts_without_qk_norm) {
          return std::vector<float>();
        }
        return std::vector<float>(static_cast<size_t>(heads_.size), 1.0F);
      case QkNorm::kOptionalHead:
        return find_.Vector(Name(part), heads_.size, kOptional);
      case QkNorm::kRow:
        return find_.Vector(Name(part), n_heads * heads_.size, kRequired);
      case QkNorm::kOptionalLayer:
        break;
    }
    return find_.Floats(Name(part), {heads_.size, n_heads, 1, 1}, kOptional);
  }

  Result<void> DescribeFeedForward(LayerWeights& layer) {
    if (family_.norms_before) {
      // Where the blocks are parallel and have one norm, it is that of attention.
      const std::string_view own = family_.is_one_block ? "attn_norm" : family_.ffn_norm;
      const bool has_own = !config_.is_parallel || find_.Has(Name(fmt::format("{}.weight", own)));
      THAW_ASSIGN(layer.ffn_norm, Norm(has_own ? own : "attn_norm"));
    }
    if (family_.recurrence == Recurrence::kTimeMix) {
      THAW_ASSIGN(layer.ffn_shares,
                  find_.Vector(Name("channel_mix_lerp_k.weight"), config_.d_model, kRequired));
    }
    if (of_layer_.has_experts) {
      THAW_TRY(DescribeExperts(layer));
    } else {
      THAW_ASSIGN(layer.ffn, Dense("", of_layer_.d_ff));
    }
    if (family_.norms_after) {
      THAW_ASSIGN(layer.ffn_after, Norm(family_.ffn_after_norm));
    }
    if (config_.layer_embedding != 0) {
      const int64_t d = config_.d_model;
      const int64_t width = config_.layer_embedding;
      THAW_ASSIGN(layer.embedding_gate, find_.Linear(Name("inp_gate"), width, d, kAbsent));
      THAW_ASSIGN(layer.embedding_output, find_.Linear(Name("proj"), d, width, kAbsent));
      THAW_ASSIGN(layer.embedding_after, Norm("post_norm"));
    }
    THAW_ASSIGN(const std::vector<float> scale,
                find_.Vector(Name("layer_output_scale.weight"), 1, kOptional));
    if (!scale.empty()) layer.output_scale = scale.front();
    return {};
  }

  // A block that all tokens go through; `suffix` is that of its tensors' names.
  Result<FeedForwardWeights> Dense(std::string_view suffix, int64_t d_ff) {
    const int64_t d = config_.d_model;
    const Presence bias = family_.ffn_bias;
    const auto name = [&](std::string_view part) {
      return Name(fmt::format("{}{}", part, suffix));
    };
    FeedForwardWeights ffn;
    ffn.activation = of_layer_.activation;
    ffn.gate_cutoff = of_layer_.gate_cutoff;
    if (!family_.is_gated) {
      THAW_ASSIGN(ffn.gate, find_.Linear(name(family_.ffn_up), d_ff, d, bias));
    } else if (family_.joins_gate_up) {
      THAW_TRY(find_.Joined(name(family_.ffn_up), d, bias, {{&ffn.gate, d_ff}, {&ffn.up, d_ff}}));
    } else {
      THAW_ASSIGN(ffn.gate, find_.Linear(name("ffn_gate"), d_ff, d, bias));
      THAW_ASSIGN(ffn.up, find_.Linear(name(family_.ffn_up), d_ff, d, bias));
    }
    THAW_ASSIGN(ffn.sub_norm, SubNorm("ffn_sub_norm", d_ff));
    THAW_ASSIGN(ffn.down, find_.Linear(name(family_.ffn_down), d, d_ff, bias));
    return ffn;
  }

  // In the order in which a pass visits them: router, the block beside the experts, experts.
  Result<void> DescribeExperts(LayerWeights& layer) {
    const int64_t d = config_.d_model;
    const int64_t d_ff = config_.experts.d_ff;
    const int64_t n = config_.experts.n;
    const Presence bias = family_.expert_bias;
    ExpertWeights experts;
    if (family_.keeps_dense_block) {
      experts.router = {.rows = n, .cols = d};
      THAW_ASSIGN(experts.router.matrix, find_.Matrix(Name("ffn_gate_inp.weight"), n, d));
      THAW_ASSIGN(experts.router_norm, find_.Vector(Name("ffn_gate_inp.scale"), d, kRequired));
      const float by_width = 1 / std::sqrt(static_cast<float>(d));
      for (float& weight : experts.router_norm) weight *= by_width;
      THAW_ASSIGN(experts.before, Norm("pre_ffw_norm_2"));
      THAW_ASSIGN(experts.block_after, Norm("post_ffw_norm_1"));
      THAW_ASSIGN(experts.after, Norm("post_ffw_norm_2"));
    } else {
      THAW_ASSIGN(experts.router, find_.Linear(Name("ffn_gate_inp"), n, d, bias));
    }
    THAW_ASSIGN(experts.choice_bias, find_.Vector(Name("exp_probs_b.bias"), n, kOptional));
    if (config_.experts.shared_d_ff > 0) {
      if (find_.Has(Name("ffn_gate_inp_shexp.weight"))) {
        THAW_ASSIGN(experts.shared_gate, find_.Linear(Name("ffn_gate_inp_shexp"), 1, d, kAbsent));
      }
      const char* suffix = family_.keeps_dense_block ? "" : "_shexp";
      THAW_ASSIGN(layer.ffn, Dense(suffix, config_.experts.shared_d_ff));
    }
    const int64_t width = config_.experts.width;
    if (width != d) {
      THAW_ASSIGN(experts.latent_down, find_.Linear(Name("ffn_latent_down"), width, d, kAbsent));
    }
    find_.EnterGroup(index_, WeightGroup::kExperts);
    FeedForwardWeights& each = experts.each;
    each.activation = of_layer_.expert_activation;
    if (config_.experts.joins_gate_up) {
      THAW_ASSIGN(each.gate, find_.Experts(Name("ffn_gate_up"), 2 * d_ff, width, bias));
    } else if (family_.is_gated) {
      THAW_ASSIGN(each.gate, find_.Experts(Name("ffn_gate"), d_ff, width, bias));
      THAW_ASSIGN(each.up, find_.Experts(Name("ffn_up"), d_ff, width, bias));
    } else {
      THAW_ASSIGN(each.gate, find_.Experts(Name("ffn_up"), d_ff, width, bias));
    }
    THAW_ASSIGN(each.down, find_.Experts(Name("ffn_down"), width, d_ff, bias));
    if (width != d) {
      find_.EnterGroup(index_, WeightGroup::kFeedForward);
      THAW_ASSIGN(experts.latent_up, find_.Linear(Name("ffn_latent_up"), d, width, kAbsent));
    }
    layer.experts = std::move(experts);
    return {};
  }

  // The recurrent block of the layer.
  Result<RecurrentWeights> DescribeRecurrence() {
    const RecurrenceConfig& of = config_.recurrence;
    const Recurrence kind = family_.recurrence;
    const bool is_short = kind == Recurrence::kShortConvolution;
    RecurrentWeights w;
    if (is_short) THAW_TRY(DescribeShortConvolution(w));
    if (kind == Recurrence::kMamba) THAW_TRY(DescribeMamba(w));
    if (kind == Recurrence::kMamba2) THAW_TRY(DescribeMamba2(w));
    if (kind == Recurrence::kDelta) THAW_TRY(DescribeDelta(w));
    if (kind == Recurrence::kChannelDelta) THAW_TRY(DescribeChannelDelta(w));
    if (w.convolution.empty()) {
      const std::string stem = Name(is_short ? "shortconv.conv" : "ssm_conv1d");
      THAW_ASSIGN(w.convolution,
                  find_.Floats(stem + ".weight", {of.taps, of.convolved, 1, 1}, kRequired));
      THAW_ASSIGN(w.convolution_bias, find_.Vector(stem + ".bias", of.convolved, kOptional));
    }
    // Channel by channel in the file, tap by tap here.
    w.convolution = Transposed(w.convolution, of.convolved);
    const char* output = is_short                            ? "shortconv.out_proj"
                         : kind == Recurrence::kChannelDelta ? "attn_output"
                                                             : "ssm_out";
    THAW_ASSIGN(w.output, find_.Linear(Name(output), config_.d_model, of.inner, kAbsent));
    return w;
  }

  Result<void> DescribeShortConvolution(RecurrentWeights& w) {
    const int64_t d = config_.d_model;
    return find_.Joined(Name("shortconv.in_proj"), d, kAbsent,
                        {{&w.factors, d}, {&w.gate, d}, {&w.mixed, d}});
  }

  Result<void> DescribeMamba(RecurrentWeights& w) {
    const RecurrenceConfig& of = config_.recurrence;
    THAW_TRY(find_.Joined(Name("ssm_in"), config_.d_model, kAbsent,
                          {{&w.mixed, of.inner}, {&w.gate, of.inner}}));
    THAW_ASSIGN(w.steps, find_.Linear(Name("ssm_x"), of.rank + 2 * of.keys, of.inner, kAbsent));
    THAW_ASSIGN(w.rates, find_.Linear(Name("ssm_dt"), of.inner, of.rank, kAbsent));
    THAW_ASSIGN(w.step_bias, find_.Vector(Name("ssm_dt.bias"), of.inner, kRequired));
    THAW_ASSIGN(w.a, find_.Floats(Name("ssm_a"), {of.keys, of.inner, 1, 1}, kRequired));
    w.a = Transposed(w.a, of.inner);
    THAW_ASSIGN(w.d, find_.Vector(Name("ssm_d"), of.inner, kRequired));
    THAW_ASSIGN(w.step_norm, StepNorm("ssm_dt_norm.weight", of.rank));
    THAW_ASSIGN(w.b_norm, StepNorm("ssm_b_norm.weight", of.keys));
    THAW_ASSIGN(w.c_norm, StepNorm("ssm_c_norm.weight", of.keys));
    return {};
  }

  Result<void> DescribeMamba2(RecurrentWeights& w) {
    const RecurrenceConfig& of = config_.recurrence;
    THAW_TRY(find_.Joined(Name("ssm_in"), config_.d_model, kAbsent,
                          {{&w.gate, of.inner}, {&w.mixed, of.convolved}, {&w.steps, of.heads}}));
    THAW_ASSIGN(w.step_bias, find_.Vector(Name("ssm_dt.bias"), of.heads, kRequired));
    THAW_ASSIGN(w.a, find_.Floats(Name("ssm_a"), {1, of.heads, 1, 1}, kRequired));
    THAW_ASSIGN(w.d, find_.Floats(Name("ssm_d"), {1, of.heads, 1, 1}, kRequired));
    THAW_ASSIGN(w.norm, find_.Floats(Name("ssm_norm.weight"),
                                     {of.inner / of.groups, of.groups, 1, 1}, kOptional));
    return {};
  }

  Result<void> DescribeDelta(RecurrentWeights& w) {
    const int64_t d = config_.d_model;
    const RecurrenceConfig& of = config_.recurrence;
    if (of.is_interleaved) {
      THAW_ASSIGN(w.mixed, find_.Linear(Name("ssm_in"), of.convolved + of.inner, d, kAbsent));
    } else {
      THAW_ASSIGN(w.mixed, find_.Linear(Name("attn_qkv"), of.convolved, d, kAbsent));
      THAW_ASSIGN(w.gate, find_.Linear(Name("attn_gate"), of.inner, d, kAbsent));
    }
    if (find_.Has(Name("ssm_ba.weight"))) {
      THAW_ASSIGN(w.steps, find_.Linear(Name("ssm_ba"), 2 * of.heads, d, kAbsent));
    } else {
      THAW_ASSIGN(w.steps, find_.Linear(Name("ssm_alpha"), of.heads, d, kAbsent));
      THAW_ASSIGN(w.factors, find_.Linear(Name("ssm_beta"), of.heads, d, kAbsent));
    }
    THAW_ASSIGN(w.step_bias, find_.Vector(Name("ssm_dt.bias"), of.heads, kRequired));
    THAW_ASSIGN(w.a, find_.Vector(Name("ssm_a"), of.heads, kRequired));
    return DescribeHeadNorms(w);
  }

  Result<void> DescribeChannelDelta(RecurrentWeights& w) {
    const int64_t d = config_.d_model;
    const RecurrenceConfig& of = config_.recurrence;
    for (const auto& [part, weights] :
         {std::pair("q", &w.queries), {"k", &w.keys}, {"v", &w.values}}) {
      THAW_ASSIGN(*weights, find_.Linear(Name(fmt::format("attn_{}", part)), of.inner, d, kAbsent));
      THAW_ASSIGN(const std::vector<float> channels,
                  find_.Floats(Name(fmt::format("ssm_conv1d_{}.weight", part)),
                               {of.taps, 1, of.inner, 1}, kRequired));
      w.convolution.insert(w.convolution.end(), channels.begin(), channels.end());
    }
    THAW_ASSIGN(w.gate_down, find_.Linear(Name("ssm_g_a"), of.rank, d, kAbsent));
    THAW_ASSIGN(w.factors, find_.Linear(Name("ssm_beta"), of.heads, d, kAbsent));
    THAW_ASSIGN(w.steps, find_.Linear(Name("ssm_f_a"), of.rank, d, kAbsent));
    THAW_ASSIGN(w.rates, find_.Linear(Name("ssm_f_b"), of.heads * of.keys, of.rank, kAbsent));
    THAW_ASSIGN(w.gate, find_.Linear(Name("ssm_g_b"), of.inner, of.rank, kAbsent));
    THAW_ASSIGN(w.step_bias, find_.Vector(Name("ssm_dt.bias"), of.heads * of.keys, kRequired));
    THAW_ASSIGN(w.a, find_.Floats(Name("ssm_a"), {1, of.heads, 1, 1}, kRequired));
    return DescribeHeadNorms(w);
  }

  // The norms of the delta rule: of queries and keys, and of what a head gives.
  Result<void> DescribeHeadNorms(RecurrentWeights& w) {
    const RecurrenceConfig& of = config_.recurrence;
    THAW_ASSIGN(w.norm, find_.Vector(Name("ssm_norm.weight"), of.values(), kRequired));
    // x / |x| is the norm of the mean square by the root of the length; scores are scaled like
    // those of attention.
    const float root = std::sqrt(static_cast<float>(of.keys));
    w.key_norm.assign(static_cast<size_t>(of.keys), 1 / root);
    w.query_norm.assign(static_cast<size_t>(of.keys), 1 / static_cast<float>(of.keys));
    return {};
  }

  // In the order in which a pass visits them.
  Result<TimeMixWeights> DescribeTimeMix() {
    const int64_t d = config_.d_model;
    const RecurrenceConfig& of = config_.recurrence;
    TimeMixWeights w;
    THAW_ASSIGN(w.shares, find_.Floats(Name("time_mix_lerp_fused.weight"),
                                       {d, 1, 1, kShiftedInputs}, kRequired));
    THAW_ASSIGN(w.q, find_.Linear(Name("time_mix_receptance"), d, d, kAbsent));
    THAW_ASSIGN(w.k, find_.Linear(Name("time_mix_key"), d, d, kAbsent));
    THAW_ASSIGN(w.v, find_.Linear(Name("time_mix_value"), d, d, kAbsent));
    struct Part {
      char letter;
      LowRankWeights* weights;
      int64_t rank;
      Presence bias;
    };
    std::vector<Part> parts = {{'w', &w.decay, of.ranks.decay, kRequired},
                               {'a', &w.rate, of.ranks.rate, kRequired},
                               {'v', &w.value, of.ranks.value, kRequired},
                               {'g', &w.gate, of.ranks.gate, kAbsent}};
    const auto name = [&](char letter, int which) {
      return Name(fmt::format("time_mix_{}{}", letter, which));
    };
    if (index_ == 0) {  // its values are those that the others take a share of
      for (const int which : {0, 1, 2}) find_.Ignore(name('v', which) + ".weight");
      std::erase_if(parts, [](const Part& part) { return part.letter == 'v'; });
    }
    for (const Part& part : parts) {
      THAW_ASSIGN(part.weights->down, find_.Linear(name(part.letter, 1), part.rank, d, kAbsent));
    }
    for (const Part& part : parts) {
      LinearWeights& up = part.weights->up;
      THAW_ASSIGN(up, find_.Linear(name(part.letter, 2), d, part.rank, kAbsent));
      THAW_ASSIGN(up.bias, find_.Vector(name(part.letter, 0) + ".weight", d, part.bias));
    }
    THAW_ASSIGN(w.probe, find_.Vector(Name("time_mix_k_k.weight"), d, kRequired));
    THAW_ASSIGN(w.shrinking, find_.Vector(Name("time_mix_k_a.weight"), d, kRequired));
    THAW_ASSIGN(w.own_value, find_.Vector(Name("time_mix_r_k.weight"), d, kRequired));
    THAW_ASSIGN(w.norm, Norm("time_mix_ln"));
    // x / |x| is the norm of the mean square by the root of the length.
    w.probe_norm.assign(static_cast<size_t>(of.keys), 1 / std::sqrt(static_cast<float>(of.keys)));
    THAW_ASSIGN(w.output, find_.Linear(Name("time_mix_output"), d, d, kAbsent));
    return w;
  }

  // The norm of a part of Mamba's time steps: of the file, without weights, or none.
  Result<std::vector<float>> StepNorm(std::string_view part, int64_t size) {
    if (!config_.recurrence.norms_steps) return find_.Vector(Name(part), size, kOptional);
    return std::vector<float>(static_cast<size_t>(size), 1.0F);
  }

  // [rows, n] of a matrix [n, rows].
  static std::vector<float> Transposed(const std::vector<float>& matrix, int64_t n) {
    const auto columns = static_cast<size_t>(n);
    const size_t rows = matrix.size() / columns;
    std::vector<float> transposed(matrix.size());
    for (size_t i = 0; i < matrix.size(); ++i) {
      transposed[i % rows * columns + i / rows] = matrix[i];
    }
    return transposed;
  }

  TensorFinder& find_;
  const ModelConfig& config_;
  const LayerConfig& of_layer_;
  const HeadShape& heads_;
  const Family& family_;
  const int64_t index_;
};

// Frequency factors of the ropes: one table, or one for sessions within the original context and
// one for longer ones.
Result<void> DescribeFrequencyFactors(TensorFinder& find, ModelConfig& config) {
  if (config.ropes.empty()) return {};
  // Those of the widest rope; narrower ones take the first.
  const int64_t pairs = config.most_rope_dim() / 2;
  std::vector<float> factors;
  if (find.Has(kLongFactors)) {
    THAW_ASSIGN(factors, find.Vector(kShortFactors, pairs, kRequired));
    THAW_ASSIGN(config.long_frequency_factors, find.Vector(kLongFactors, pairs, kRequired));
  } else {
    THAW_ASSIGN(factors, find.Vector("rope_freqs.weight", pairs, kOptional));
  }
  for (RopeConfig& rope : config.ropes) {
    const bool is_full = &rope == &config.ropes.front();
    if (factors.empty() || (!is_full && config.family->windows.factors_full_rope)) continue;
    rope.frequency_factors.assign(factors.begin(), factors.begin() + rope.rope_dim / 2);
  }
  return {};
}

}  // namespace

Result<ModelDescription> DescribeModel(const GgufFile& file) {
  ModelDescription model;
  THAW_ASSIGN(model.config, ReadModelConfig(file));
  ModelConfig& config = model.config;
  TensorFinder find(file, model);

  const bool tied = file.FindTensor("output.weight") == nullptr;
  THAW_TRY(DescribeFrequencyFactors(find, config));
  if (config.family->norms_embedding) {
    THAW_ASSIGN(model.weights.embedding_norm, find.Norm("token_embd_norm"));
  }
  const int64_t layer_width = config.layer_embedding * config.n_layers;
  if (layer_width != 0) {
    find.EnterGroup(0, WeightGroup::kAttention);
    THAW_ASSIGN(model.weights.layer_projection,
                find.Linear("per_layer_model_proj", layer_width, config.d_model, kAbsent));
    THAW_ASSIGN(model.weights.layer_projection_norm,
                find.Vector("per_layer_proj_norm.weight", config.layer_embedding, kRequired));
  }
  const int64_t n_others = config.n_streams - 1;
  if (n_others != 0) {
    find.EnterGroup(0, WeightGroup::kAttention);
    THAW_ASSIGN(model.weights.stream_inputs,
                find.Stacked("altup_proj", n_others, config.d_model, config.d_model));
  }
  for (int64_t i = 0; i < config.n_layers; ++i) {
    THAW_ASSIGN(LayerWeights layer, LayerDescriber(find, config, i).Describe());
    model.weights.layers.push_back(std::move(layer));
  }
  THAW_ASSIGN(model.weights.output_norm, find.Norm(std::string(config.family->output_norm)));
  find.EnterGroup(config.n_layers, WeightGroup::kOutput);
  if (n_others != 0) {
    THAW_ASSIGN(model.weights.stream_outputs,
                find.Stacked("altup_unembd_proj", n_others, config.d_model, config.d_model));
  }
  if (config.family->positions == Positions::kLearned) {
    THAW_ASSIGN(model.weights.position_embedding,
                find.Matrix("position_embd.weight", config.context_length, config.d_model,
                            MatrixUse::kLookedUp));
  }
  if (layer_width != 0) {
    THAW_ASSIGN(model.weights.layer_embedding,
                find.Matrix("per_layer_token_embd.weight", config.n_vocab, layer_width,
                            MatrixUse::kLookedUp));
  }
  THAW_ASSIGN(model.weights.embedding,
              find.Matrix("token_embd.weight", config.n_vocab, config.d_model,
                          tied ? MatrixUse::kBoth : MatrixUse::kLookedUp));
  LinearWeights& output = model.weights.output;
  if (tied) {
    output = {.matrix = model.weights.embedding, .rows = config.n_vocab, .cols = config.d_model};
    THAW_ASSIGN(output.bias,
                find.Vector("output.bias", config.n_vocab, config.family->output_bias));
  } else {
    THAW_ASSIGN(output,
                find.Linear("output", config.n_vocab, config.d_model, config.family->output_bias));
  }
  THAW_TRY(find.CheckAllUsed());
  return model;
}

}  // namespace thaw
