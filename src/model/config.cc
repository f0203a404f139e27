#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/config_reading.h"

namespace thaw {
namespace {

Result<const Family*> ReadFamily(const GgufFile& file) {
  THAW_ASSIGN(const std::string architecture, file.GetString("general.architecture"));
  if (const Family* family = FindFamily(architecture); family != nullptr) return family;
  std::string known;
  for (const Family& family : AllFamilies()) {
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  return Fail(ErrorCode::kUnsupported, "{}: architecture '{}' is not supported; supported are: {}",
              file.path(), architecture, known);
}

// What the architecture's name allows, but the forward pass lacks.
Result<void> RefuseUnsupported(const GgufFile& file, const MetadataReader& metadata) {
  const std::string causal = metadata.Key("attention.causal");
  THAW_ASSIGN(const bool is_causal, file.GetBoolOr(causal, true));
  if (!is_causal) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is false: only models that generate text are supported",
                file.path(), causal);
  }
  return {};
}

// Residual streams and what comes with several; sizes that no field states are those of tensors.
Result<void> ReadStreams(const GgufFile& file, const MetadataReader& metadata,
                         ModelConfig& config) {
  if (config.family->n_streams == 1) return {};
  constexpr std::string_view kStreams = "altup.num_inputs";
  constexpr std::string_view kActive = "altup.active_idx";
  THAW_ASSIGN(config.n_streams, metadata.SizeOr(kStreams, kMaxStreams, config.family->n_streams));
  if (config.n_streams == 1) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is 1, expected 2 to {}", file.path(),
                metadata.Key(kStreams), kMaxStreams);
  }
  THAW_ASSIGN(const uint64_t active, file.GetUintOr(metadata.Key(kActive), 0));
  if (active != 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is {}; only 0 is supported: blocks read the first stream",
                file.path(), metadata.Key(kActive), active);
  }
  const auto extent = [&](const char* name, size_t dimension) -> Result<int64_t> {
    const TensorInfo* tensor = file.FindTensor(name);
    if (tensor != nullptr && tensor->dims[dimension] != 0) return tensor->dims[dimension];
    return Fail(ErrorCode::kCorrupt, "{}: tensor '{}' is missing or empty", file.path(), name);
  };
  THAW_ASSIGN(config.laurel_rank, extent("blk.0.laurel_l.weight", 1));
  if (config.layer_embedding != 0) return {};
  THAW_ASSIGN(config.layer_embedding, extent("per_layer_proj_norm.weight", 0));
  return {};
}

// Factors on embeddings, scores, blocks and logits, and their bounds.
Result<void> ReadScales(const GgufFile& file, const MetadataReader& metadata, ModelConfig& config) {
  const Family& family = *config.family;
  const bool by_width =
      family.layers_of_width_scale != 0 && config.n_layers == family.layers_of_width_scale;
  const HeadShape heads = config.first_heads();
  const int64_t head_size = family.has_latent_attention ? config.latent.key_size : heads.size;
  const int64_t scaled_by = by_width ? config.d_model / heads.n : head_size;
  const DefaultScales& missing = family.default_scales;
  const char* scale_key =
      metadata.Has("attention.output_scale") ? "attention.output_scale" : "attention.scale";
  THAW_ASSIGN(config.attention_scale, metadata.PositiveOrNone(scale_key, missing.attention));
  if (config.attention_scale == 0 && heads.n != 0) {
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(scaled_by));
    if (family.has_latent_attention && !config.ropes.empty()) {
      const double factor = ScoreFactor(config.ropes.front().scaling);
      config.attention_scale = static_cast<float>(config.attention_scale * factor);
    }
  }
  THAW_ASSIGN(config.attention_soft_cap,
              metadata.PositiveOrNone("attn_logit_softcapping", family.attention_soft_cap));
  THAW_ASSIGN(config.final_soft_cap,
              metadata.PositiveOrNone("final_logit_softcapping", family.final_soft_cap));
  THAW_ASSIGN(config.value_scale, metadata.PositiveOr("attention.value_scale", 1));
  THAW_ASSIGN(config.qkv_clamp, metadata.PositiveOrNone("attention.clamp_kqv", 0));
  THAW_ASSIGN(config.temperature_scale,
              metadata.PositiveOrNone("attention.temperature_scale", family.chunk_temperature));
  if (family.chunk != 0) {
    config.temperature_interval = family.chunk;
    config.temperature_offset = 1;
  } else if (!config.ropes.empty()) {
    const int64_t original_context = config.ropes.front().scaling.original_context;
    THAW_ASSIGN(config.temperature_interval,
                metadata.SizeOrNone("attention.temperature_length", kMaxContext, original_context));
  }
  const auto or_one = [](float scale) { return scale == 0 ? 1 : scale; };
  const float width_scale = std::sqrt(static_cast<float>(config.d_model));
  const bool states_all = family.stated_scales == StatedScales::kAll;
  const bool states_logits = family.stated_scales != StatedScales::kNone;
  const auto scale = [&](const char* key, bool is_stated, float otherwise) {
    return is_stated ? metadata.Positive(key) : metadata.PositiveOr(key, otherwise);
  };
  THAW_ASSIGN(config.embedding_scale,
              scale("embedding_scale", states_all,
                    family.scales_embedding_by_width ? width_scale : or_one(missing.embedding)));
  const float depth_scale =
      missing.residual_by_depth / std::sqrt(static_cast<float>(config.n_layers));
  THAW_ASSIGN(config.residual_scale, scale("residual_scale", states_all, or_one(depth_scale)));
  const float logits =
      missing.logits + missing.logits_by_width / static_cast<float>(config.d_model);
  THAW_ASSIGN(config.logit_scale, scale("logit_scale", states_logits, or_one(logits)));
  if (family.divides_logits) config.logit_scale = 1 / config.logit_scale;
  if (family.residual == Residual::kByField) {
    THAW_ASSIGN(config.is_parallel, file.GetBoolOr(metadata.Key("use_parallel_residual"), true));
  } else if (family.residual == Residual::kByFfnNorm) {
    config.is_parallel = file.FindTensor("blk.0.ffn_norm.weight") == nullptr;
  } else {
    config.is_parallel = family.residual == Residual::kParallel;
  }
  return {};
}

// Refuses the size of a family that Thaw does not run.
Result<void> RefuseSize(const GgufFile& file, const ModelConfig& config) {
  const int64_t only = config.family->only_layers;
  const int64_t other = config.family->layers_of_slopes;
  if (only == 0 || config.n_layers == only || config.n_layers == other) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: architecture '{}' with {} layers is not supported; with {}{} it is", file.path(),
              config.family->name, config.n_layers, only,
              other == 0 ? "" : fmt::format(" or {}", other));
}

}  // namespace

int64_t ModelConfig::Most(FunctionRef<int64_t(const LayerConfig& layer)> size) const {
  int64_t most = 0;
  for (const LayerConfig& layer : layers) most = std::max(most, size(layer));
  return most;
}

HeadShape ModelConfig::first_heads() const {
  const auto first = std::ranges::find_if(layers, [](const LayerConfig& l) { return l.heads.n; });
  return first == layers.end() ? HeadShape() : first->heads;
}

int64_t ModelConfig::widest_block() const {
  return std::max(Most([](const LayerConfig& layer) { return layer.d_ff; }), experts.shared_d_ff);
}

int64_t ModelConfig::most_rope_dim() const {
  int64_t most = 0;
  for (const RopeConfig& rope : ropes) most = std::max(most, rope.rope_dim);
  return most;
}

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  ModelConfig config;
  THAW_ASSIGN(config.family, ReadFamily(file));
  const MetadataReader metadata(file, config.family->name);
  THAW_TRY(RefuseUnsupported(file, metadata));
  THAW_ASSIGN(config.name, file.GetStringOr("general.name", ""));
  THAW_ASSIGN(config.n_layers, metadata.Size("block_count", kMaxLayers));
  THAW_ASSIGN(config.d_model, metadata.Size("embedding_length", kMaxWidth));
  THAW_ASSIGN(config.context_length, metadata.Size("context_length", kMaxContext));
  THAW_TRY(RefuseSize(file, config));
  THAW_ASSIGN(const uint64_t n_unused, file.GetUintOr(metadata.Key("nextn_predict_layers"), 0));
  if (n_unused >= static_cast<uint64_t>(config.n_layers)) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected less than the {} layers",
                file.path(), metadata.Key("nextn_predict_layers"), n_unused, config.n_layers);
  }
  config.n_unused_layers = static_cast<int64_t>(n_unused);
  config.n_layers -= config.n_unused_layers;
  config.layers.resize(static_cast<size_t>(config.n_layers));
  const bool is_rms =
      config.family->norm == NormKind::kRms || config.family->norm == NormKind::kBiasedRms;
  THAW_ASSIGN(config.norm_epsilon, metadata.Positive(is_rms ? "attention.layer_norm_rms_epsilon"
                                                            : "attention.layer_norm_epsilon"));
  THAW_TRY(ReadAttention(file, metadata, config));
  THAW_TRY(ReadLayers(file, metadata, config));
  THAW_TRY(ReadSharing(file, metadata, config));
  THAW_ASSIGN(config.layer_embedding,
              metadata.SizeOrNone("embedding_length_per_layer_input", kMaxWidth, 0));
  THAW_TRY(ReadStreams(file, metadata, config));
  THAW_TRY(ReadFeedForward(file, metadata, config));
  THAW_TRY(ReadRecurrence(file, metadata, config));
  THAW_TRY(ReadActivations(file, metadata, config));
  THAW_TRY(ReadScales(file, metadata, config));
  const TensorInfo* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor 'token_embd.weight' is missing{}", file.path(),
                file.tensors().empty() ? ": the file holds no weights" : "");
  }
  config.n_vocab = embedding->dims[1];
  if (config.n_vocab < 1) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor 'token_embd.weight' has no rows", file.path());
  }
  return config;
}

}  // namespace thaw