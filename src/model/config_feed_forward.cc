#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_reading.h"

namespace thaw {
namespace {

// The second extent of a tensor; 0 where the file has none of this name.
int64_t RowsOf(const GgufFile& file, const std::string& name) {
  const TensorInfo* tensor = file.FindTensor(name);
  return tensor == nullptr ? 0 : tensor->dims[1];
}

// `layer` is the first with experts.
Result<Gating> ReadGating(const GgufFile& file, const MetadataReader& metadata,
                          const Family& family, int64_t layer) {
  constexpr std::string_view kKey = "expert_gating_func";
  THAW_ASSIGN(const uint64_t stated, file.GetUintOr(metadata.Key(kKey), 0));
  if (stated == 0) {
    const bool is_sigmoid = family.choice_bias_means_sigmoid &&
                            file.FindTensor(fmt::format("blk.{}.exp_probs_b.bias", layer));
    return is_sigmoid ? Gating::kSigmoid : family.gating;
  }
  if (stated > static_cast<uint64_t>(Gating::kSoftmaxOfChosen)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is {}; supported are: 1 (softmax), 2 (sigmoid), 3 (softmax of the "
                "chosen)",
                file.path(), metadata.Key(kKey), stated);
  }
  return static_cast<Gating>(stated);
}

// The nonlinearity by its name, where the family's files may state one.
Result<Nonlinearity> ReadNonlinearity(const GgufFile& file, const MetadataReader& metadata,
                                      const Family& family) {
  const std::string key = metadata.Key("hidden_activation");
  if (!family.states_nonlinearity || file.Find(key) == nullptr) return family.nonlinearity;
  THAW_ASSIGN(const std::string name, file.GetString(key));
  if (name == "silu") return Nonlinearity::kSilu;
  if (name == "relu2") return Nonlinearity::kReluSquared;
  return Fail(ErrorCode::kUnsupported, "{}: field '{}' is '{}'; supported are: silu, relu2",
              file.path(), key, name);
}

// The bounds of SiLU in each layer; those of bounds that are near zero have none.
Result<void> ReadBounds(const MetadataReader& metadata, std::string_view key, ModelConfig& config,
                        Activation LayerConfig::*activation) {
  constexpr float kLeastBound = 1e-6F;
  std::vector<float> bounds(config.layers.size());
  if (metadata.Has(key)) {
    THAW_ASSIGN(bounds, metadata.FloatsOfLayers(metadata.Key(key), config));
  }
  for (size_t i = 0; i < bounds.size(); ++i) {
    Activation& by = config.layers[i].*activation;
    by = bounds[i] > kLeastBound ? Activation{.f = Nonlinearity::kBoundedSilu, .bound = bounds[i]}
                                 : Activation{.f = Nonlinearity::kSilu};
  }
  return {};
}

// From where the gates of each layer count.
Result<void> ReadGateCutoffs(const MetadataReader& metadata, ModelConfig& config) {
  constexpr std::string_view kKey = "activation_sparsity_scale";
  const GateCutoff& missing = config.family->gate_cutoff;
  if (missing.layers == 0) return {};
  std::vector<float> cutoffs(config.layers.size(), LayerConfig().gate_cutoff);
  std::fill_n(cutoffs.begin(), std::min(missing.layers, config.n_layers), missing.deviations);
  if (metadata.Has(kKey)) {
    THAW_ASSIGN(cutoffs, metadata.FloatsOfLayers(metadata.Key(kKey), config,
                                                 -std::numeric_limits<float>::infinity()));
  }
  for (size_t i = 0; i < cutoffs.size(); ++i) config.layers[i].gate_cutoff = cutoffs[i];
  return {};
}

}  // namespace

Result<void> ReadFeedForward(const GgufFile& file, const MetadataReader& metadata,
                             ModelConfig& config) {
  const Family& family = *config.family;
  if (family.attention_layers == AttentionLayers::kNone && family.is_one_block) return {};
  const auto part = [](int64_t layer, std::string_view name) {
    return fmt::format("blk.{}.{}.weight", layer, name);
  };
  THAW_ASSIGN(const uint64_t n_experts, file.GetUintOr(metadata.Key("expert_count"), 0));
  int64_t with_experts = -1;  // the first layer that has them
  const auto is_dense = [](const LayerConfig& layer) { return !layer.has_experts; };
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const bool has = n_experts > 0 && file.FindTensor(part(i, "ffn_gate_inp")) != nullptr;
    config.layers[static_cast<size_t>(i)].has_experts = has;
    if (has && with_experts < 0) with_experts = i;
  }
  if (family.keeps_dense_block && with_experts >= 0) {
    THAW_ASSIGN(config.experts.shared_d_ff, metadata.Size("feed_forward_length", kMaxWidth));
  }
  if (std::ranges::any_of(config.layers, is_dense)) {
    const bool may_have_none = family.recurrence != Recurrence::kNone;
    THAW_ASSIGN(const std::vector<int64_t> d_ff,
                metadata.OfLayers("feed_forward_length", config, may_have_none ? 0 : 1, kMaxWidth));
    for (size_t i = 0; i < d_ff.size(); ++i) {
      LayerConfig& layer = config.layers[i];
      const bool is_other_block = family.is_one_block && layer.heads.n != 0;
      if (is_dense(layer) && !is_other_block) layer.d_ff = d_ff[i];
    }
  }
  if (with_experts < 0) return {};

  ExpertConfig& experts = config.experts;
  THAW_ASSIGN(experts.n, metadata.Size("expert_count", kMaxExperts));
  THAW_ASSIGN(experts.n_used, metadata.Size("expert_used_count", static_cast<uint64_t>(experts.n)));
  const int64_t joined = RowsOf(file, part(with_experts, "ffn_gate_up_exps"));
  experts.joins_gate_up = family.is_gated && joined != 0;
  int64_t in_tensor =
      experts.joins_gate_up ? joined / 2 : RowsOf(file, part(with_experts, "ffn_up_exps"));
  // A tensor for each expert.
  if (in_tensor == 0) in_tensor = RowsOf(file, part(with_experts, "ffn_up.0"));
  THAW_ASSIGN(experts.d_ff,
              metadata.SizeOrNone("expert_feed_forward_length", kMaxWidth, in_tensor));
  if (experts.d_ff < 1) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor '{}' is missing", file.path(),
                part(with_experts, "ffn_up_exps"));
  }
  THAW_ASSIGN(experts.gating, ReadGating(file, metadata, family, with_experts));
  THAW_ASSIGN(experts.renormalizes,
              file.GetBoolOr(metadata.Key("expert_weights_norm"), family.renormalizes_experts));
  THAW_ASSIGN(experts.weight_scale, metadata.PositiveOrNone("expert_weights_scale", 1));
  if (experts.weight_scale == 0) experts.weight_scale = 1;
  THAW_ASSIGN(experts.n_groups, metadata.SizeOrNone("expert_group_count", kMaxExperts, 1));
  if (experts.n % experts.n_groups != 0) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a divisor of {}", file.path(),
                metadata.Key("expert_group_count"), experts.n_groups, experts.n);
  }
  THAW_ASSIGN(experts.n_groups_used,
              metadata.SizeOrNone("expert_group_used_count", kMaxExperts, experts.n_groups));
  THAW_ASSIGN(experts.width, metadata.SizeOrNone("moe_latent_size", kMaxWidth, config.d_model));
  experts.n_groups_used = std::min(experts.n_groups_used, experts.n_groups);
  if (experts.n_groups_used * (experts.n / experts.n_groups) < experts.n_used) {
    return Fail(ErrorCode::kCorrupt, "{}: {} of {} groups of experts hold fewer than {} experts",
                file.path(), experts.n_groups_used, experts.n_groups, experts.n_used);
  }
  // Shared experts stand side by side in one block.
  THAW_ASSIGN(const uint64_t n_shared, file.GetUintOr(metadata.Key("expert_shared_count"), 0));
  const int64_t shared = n_shared == 0
                             ? RowsOf(file, part(with_experts, "ffn_up_shexp"))
                             : static_cast<int64_t>(std::min(n_shared, kMaxExperts)) * experts.d_ff;
  if (family.keeps_dense_block) return {};
  THAW_ASSIGN(experts.shared_d_ff,
              metadata.SizeOrNone("expert_shared_feed_forward_length", kMaxWidth, shared));
  return {};
}
Result<void> ReadActivations(const GgufFile& file, const MetadataReader& metadata,
                             ModelConfig& config) {
  THAW_TRY(ReadGateCutoffs(metadata, config));
  THAW_ASSIGN(const Nonlinearity f, ReadNonlinearity(file, metadata, *config.family));
  for (LayerConfig& layer : config.layers) {
    layer.activation.f = f;
    layer.expert_activation.f = f;
  }
  if (f == Nonlinearity::kBoundedSilu) {
    THAW_TRY(ReadBounds(metadata, "swiglu_clamp_shexp", config, &LayerConfig::activation));
    return ReadBounds(metadata, "swiglu_clamp_exp", config, &LayerConfig::expert_activation);
  }
  if (f != Nonlinearity::kXielu) return {};
  // The alphas of the file are what positive ones are the softplus of.
  const auto softplus = [](float x) {
    return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x)));
  };
  THAW_ASSIGN(const std::vector<float> alpha_n, metadata.FloatsOfLayers("xielu.alpha_n", config));
  THAW_ASSIGN(const std::vector<float> alpha_p, metadata.FloatsOfLayers("xielu.alpha_p", config));
  THAW_ASSIGN(const std::vector<float> beta, metadata.FloatsOfLayers("xielu.beta", config));
  THAW_ASSIGN(const std::vector<float> epsilon, metadata.FloatsOfLayers("xielu.eps", config));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    Activation& by = config.layers[i].activation;
    by.alpha_n = beta[i] + softplus(alpha_n[i]);
    by.alpha_p = softplus(alpha_p[i]);
    by.beta = beta[i];
    by.epsilon = epsilon[i];
    config.layers[i].expert_activation = by;
  }
  return {};
}

}  // namespace thaw
