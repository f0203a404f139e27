#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_types.h"
#include "model/config_reading.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

Result<RopeScaling> ReadRopeScaling(const GgufFile& file, const MetadataReader& metadata,
                                    const ModelConfig& config) {
  RopeScaling scaling;
  const std::string type_key = metadata.Key("rope.scaling.type");
  THAW_ASSIGN(const std::string type, file.GetStringOr(type_key, "linear"));
  if (type == "linear") {
    scaling.kind = RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    scaling.kind = RopeScalingKind::kYarn;
  } else if (type == "longrope") {
    if (file.FindTensor(kLongFactors) == nullptr) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' is 'longrope', but tensor '{}' is missing",
                  file.path(), type_key, kLongFactors);
    }
  } else if (type != "none") {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is '{}'; supported are: none, linear, yarn, longrope", file.path(),
                type_key, type);
  }
  // Files of before 2023-11 name the linear factor differently. A factor of 0 means none.
  const char* factor_key =
      metadata.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  THAW_ASSIGN(const double factor, file.GetFloatOr(metadata.Key(factor_key), 0));
  if (factor != 0) {
    THAW_ASSIGN(scaling.factor, metadata.Positive(factor_key));
  }
  THAW_ASSIGN(scaling.original_context, metadata.SizeOr("rope.scaling.original_context_length",
                                                        kMaxContext, config.context_length));
  THAW_ASSIGN(scaling.attention_factor, metadata.PositiveOr("rope.scaling.attn_factor", 1));
  THAW_ASSIGN(scaling.beta_fast, metadata.PositiveOr("rope.scaling.yarn_beta_fast", 32));
  THAW_ASSIGN(scaling.beta_slow, metadata.PositiveOr("rope.scaling.yarn_beta_slow", 1));
  THAW_ASSIGN(const double log_multiplier,
              file.GetFloatOr(metadata.Key("rope.scaling.yarn_log_multiplier"), 0));
  scaling.yarn_log_multiplier = static_cast<float>(log_multiplier);
  if (config.family->has_latent_attention && log_multiplier != 0) {
    scaling.yarn_log_multiplier *= 10;
    scaling.yarn_multiplier = scaling.yarn_log_multiplier;
  }
  if (scaling.factor == 1 && scaling.kind == RopeScalingKind::kLinear) {
    scaling.kind = RopeScalingKind::kNone;
  }
  return scaling;
}

// Key/value heads of each layer, which has `n` query heads; 0 where it has no attention.
Result<std::vector<int64_t>> ReadKvHeads(const MetadataReader& metadata, const ModelConfig& config,
                                         const std::vector<int64_t>& n) {
  constexpr std::string_view kKvHeads = "attention.head_count_kv";
  if (!metadata.Has(kKvHeads)) return n;
  const bool may_have_none = config.family->attention_layers == AttentionLayers::kByKvHeads;
  return metadata.OfLayers(kKvHeads, config, may_have_none ? 0 : 1, kMaxWidth);
}

// Latent attention, and the heads that it runs over.
Result<void> ReadLatent(const GgufFile& file, const MetadataReader& metadata, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  THAW_ASSIGN(const std::vector<int64_t> n,
              metadata.OfLayers("attention.head_count", config, 1, kMaxWidth));
  THAW_ASSIGN(const std::vector<int64_t> n_kv, ReadKvHeads(metadata, config, n));
  const auto first = std::ranges::find_if(n_kv, [](int64_t heads) { return heads != 0; });
  THAW_ASSIGN(latent.rank, metadata.Size("attention.kv_lora_rank", kMaxWidth));
  THAW_ASSIGN(latent.q_rank, metadata.SizeOrNone("attention.q_lora_rank", kMaxWidth, 0));
  latent.is_absorbed =
      file.FindTensor(fmt::format("blk.{}.attn_k_b.weight", first - n_kv.begin())) != nullptr;
  const char* key = latent.is_absorbed ? "attention.key_length_mla" : "attention.key_length";
  const char* value = latent.is_absorbed ? "attention.value_length_mla" : "attention.value_length";
  THAW_ASSIGN(latent.key_size, metadata.Size(key, kMaxWidth));
  THAW_ASSIGN(latent.value_size, metadata.Size(value, kMaxWidth));
  THAW_ASSIGN(latent.rope_dim, metadata.Size("rope.dimension_count", kMaxWidth));
  if (latent.rope_dim >= latent.key_size) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected less than the key size {}",
                file.path(), metadata.Key("rope.dimension_count"), latent.rope_dim,
                latent.key_size);
  }
  for (const int64_t rows : {latent.rank, latent.value_size}) {
    if (!latent.is_absorbed || rows % kPackedGroupRows == 0) continue;
    return Fail(ErrorCode::kUnsupported,
                "{}: {} is the rank of keys and values or the size of a value, expected a multiple "
                "of {}",
                file.path(), rows, kPackedGroupRows);
  }
  for (size_t i = 0; i < n.size(); ++i) {
    if (n_kv[i] == 0) continue;
    LayerConfig& layer = config.layers[i];
    layer.is_latent = true;
    layer.heads =
        latent.is_absorbed
            ? HeadShape{.n = n[i],
                        .n_kv = 1,
                        .size = latent.rank + latent.rope_dim,
                        .v_size = latent.rank}
            : HeadShape{
                  .n = n[i], .n_kv = n[i], .size = latent.key_size, .v_size = latent.value_size};
  }
  return {};
}

// The indexer, and which layers have one of their own: by the field that says so, or those that
// have its tensors.
Result<void> ReadIndexer(const GgufFile& file, const MetadataReader& metadata,
                         ModelConfig& config) {
  constexpr std::string_view kTypes = "attention.indexer.types";
  IndexerConfig& indexer = config.indexer;
  THAW_ASSIGN(config.latent.q_rank, metadata.Size("attention.q_lora_rank", kMaxWidth));
  THAW_ASSIGN(indexer.n_heads, metadata.Size("attention.indexer.head_count", kMaxWidth));
  THAW_ASSIGN(indexer.key_size, metadata.Size("attention.indexer.key_length", kMaxWidth));
  THAW_ASSIGN(indexer.top_k, metadata.Size("attention.indexer.top_k", kMaxContext));
  if (config.latent.rope_dim > indexer.key_size) {
    return Fail(ErrorCode::kCorrupt,
                "{}: field '{}' is {}, expected at most the key size {} of '{}'", file.path(),
                metadata.Key("rope.dimension_count"), config.latent.rope_dim, indexer.key_size,
                metadata.Key("attention.indexer.key_length"));
  }
  if (!config.latent.is_absorbed) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor 'blk.0.attn_k_b.weight' is missing", file.path());
  }
  std::vector<int64_t> types;
  if (metadata.Has(kTypes)) {
    THAW_ASSIGN(types, file.ReadInts(metadata.Key(kTypes)));
    if (types.size() < config.layers.size()) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {} elements, expected one a layer: {}",
                  file.path(), metadata.Key(kTypes), types.size(), config.layers.size());
    }
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const bool has_own =
        types.empty() ? file.FindTensor(fmt::format("blk.{}.indexer.attn_k.weight", i)) != nullptr
                      : types[i] != 0;
    config.layers[i].index_key_size = has_own ? indexer.key_size : 0;
  }
  if (config.layers.front().index_key_size == 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: the first layer has no indexer, and there is none before it", file.path());
  }
  return {};
}

Result<RopeConfig> ReadRope(const GgufFile& file, const MetadataReader& metadata,
                            const ModelConfig& config) {
  RopeConfig rope;
  const int64_t head_size = config.first_heads().size;
  THAW_ASSIGN(rope.rope_dim, metadata.SizeOr("rope.dimension_count", kMaxWidth, head_size));
  if (rope.rope_dim % 2 != 0 || rope.rope_dim > head_size) {
    return Fail(ErrorCode::kCorrupt,
                "{}: field '{}' is {}, expected an even number up to the head size {}", file.path(),
                metadata.Key("rope.dimension_count"), rope.rope_dim, head_size);
  }
  THAW_ASSIGN(rope.freq_base, metadata.PositiveOr("rope.freq_base", 10000));
  THAW_ASSIGN(rope.scaling, ReadRopeScaling(file, metadata, config));
  // NTK-aware scaling ("alpha"): frequencies of a higher base.
  THAW_ASSIGN(const float alpha, metadata.PositiveOrNone("rope.scaling.alpha", 0));
  if (alpha != 0 && rope.rope_dim > 2) {
    const auto dim = static_cast<float>(rope.rope_dim);
    rope.freq_base *= std::pow(alpha, dim / (dim - 2));
  }
  return rope;
}

// Whether each layer has a window, by the field that says so or by the family.
Result<std::vector<bool>> ReadWindowedLayers(const GgufFile& file, const MetadataReader& metadata,
                                             const ModelConfig& config) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const auto n_layers = static_cast<size_t>(config.n_layers);
  int64_t period = config.family->windows.period;
  if (const GgufField* field = file.Find(metadata.Key(kPattern)); field != nullptr) {
    if (field->array() != nullptr) {
      THAW_ASSIGN(const std::vector<int64_t> values, file.ReadInts(metadata.Key(kPattern)));
      const size_t in_file = n_layers + static_cast<size_t>(config.n_unused_layers);
      if (values.size() != in_file) {
        return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {} elements, expected one a layer: {}",
                    file.path(), metadata.Key(kPattern), values.size(), in_file);
      }
      std::vector<bool> windowed(n_layers);
      for (size_t i = 0; i < n_layers; ++i) windowed[i] = values[i] != 0;
      return windowed;
    }
    THAW_ASSIGN(period, metadata.Size(kPattern, kMaxLayers));
  } else if (config.family->windows.is_stated) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is missing", file.path(),
                metadata.Key(kPattern));
  }
  std::vector<bool> windowed(n_layers);
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const int64_t full = config.family->windows.full_first ? 0 : period - 1;
    windowed[static_cast<size_t>(i)] = i % period != full;
  }
  return windowed;
}

// Heads and the rope of windowed layers, where they have sizes of their own.
Result<void> ReadWindowedHeads(const GgufFile& file, const MetadataReader& metadata,
                               LayerConfig& layer, RopeConfig& rope) {
  HeadShape& heads = layer.heads;
  THAW_ASSIGN(heads.size, metadata.SizeOr("attention.key_length_swa", kMaxWidth, heads.size));
  THAW_ASSIGN(heads.v_size, metadata.SizeOr("attention.value_length_swa", kMaxWidth, heads.v_size));
  constexpr std::string_view kTurning = "rope.dimension_count_swa";
  THAW_ASSIGN(rope.rope_dim, metadata.SizeOr(kTurning, kMaxWidth, rope.rope_dim));
  if (rope.rope_dim % 2 == 0 && rope.rope_dim <= heads.size) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: field '{}' is {}, expected an even number up to the head size {}", file.path(),
              metadata.Key(kTurning), rope.rope_dim, heads.size);
}

}  // namespace

Result<void> ReadAttention(const GgufFile& file, const MetadataReader& metadata,
                           ModelConfig& config) {
  if (config.family->has_latent_attention) {
    THAW_TRY(ReadLatent(file, metadata, config));
    return config.family->has_indexer ? ReadIndexer(file, metadata, config) : Result<void>();
  }
  const Family& family = *config.family;
  if (family.attention_layers == AttentionLayers::kNone) return {};
  const bool states_head_size = metadata.Has("attention.key_length");
  THAW_ASSIGN(const std::vector<int64_t> n,
              metadata.OfLayers("attention.head_count", config, 1, kMaxWidth));
  THAW_ASSIGN(const std::vector<int64_t> n_kv, ReadKvHeads(metadata, config, n));
  int64_t period = 1;
  if (family.attention_layers == AttentionLayers::kByPeriod) {
    THAW_ASSIGN(period, metadata.SizeOr("full_attention_interval", kMaxLayers, 4));
  }
  for (size_t i = 0; i < n.size(); ++i) {
    const bool is_last = static_cast<int64_t>(i) % period == period - 1;
    if (n_kv[i] == 0 || !is_last) continue;
    HeadShape& heads = config.layers[i].heads;
    heads = {.n = n[i], .n_kv = n_kv[i]};
    if (heads.n % heads.n_kv != 0) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: {} query heads cannot share {} key/value heads: not a multiple", file.path(),
                  heads.n, heads.n_kv);
    }
    if (!states_head_size && config.d_model % heads.n != 0) {
      return Fail(ErrorCode::kCorrupt, "{}: a width of {} cannot be split into {} heads",
                  file.path(), config.d_model, heads.n);
    }
    const int64_t share = config.d_model / heads.n;
    THAW_ASSIGN(heads.size, metadata.SizeOr("attention.key_length", kMaxWidth, share));
    THAW_ASSIGN(heads.v_size, metadata.SizeOr("attention.value_length", kMaxWidth, share));
  }
  return {};
}
Result<void> ReadSharing(const GgufFile& file, const MetadataReader& metadata,
                         ModelConfig& config) {
  if (!config.family->shares_kv) return {};
  constexpr std::string_view kKey = "attention.shared_kv_layers";
  const int64_t n_own_of_family = config.family->own_kv_layers;
  const int64_t others = n_own_of_family == 0 ? 0 : config.n_layers - n_own_of_family;
  THAW_ASSIGN(const uint64_t n_shared,
              file.GetUintOr(metadata.Key(kKey), std::max<int64_t>(0, others)));
  if (std::cmp_greater_equal(n_shared, config.n_layers)) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected less than the {} layers",
                file.path(), metadata.Key(kKey), n_shared, config.n_layers);
  }
  const int64_t n_own = config.n_layers - static_cast<int64_t>(n_shared);
  for (int64_t i = n_own; i < config.n_layers; ++i) {
    LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    int64_t from = n_own - 1;
    const auto is_alike = [&](const LayerConfig& other) {
      return other.window == layer.window && other.heads.n_kv == layer.heads.n_kv &&
             other.heads.size == layer.heads.size && other.heads.v_size == layer.heads.v_size;
    };
    while (from >= 0 && !is_alike(config.layers[static_cast<size_t>(from)])) --from;
    if (from < 0) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: field '{}' is {}, but no layer before has the heads and the window of {}",
                  file.path(), metadata.Key(kKey), n_shared, i);
    }
    layer.kv_layer = from;
  }
  return {};
}

Result<void> ReadLayers(const GgufFile& file, const MetadataReader& metadata, ModelConfig& config) {
  const Family& family = *config.family;
  if (family.positions == Positions::kSlopes || config.n_layers == family.layers_of_slopes) {
    constexpr std::string_view kKey = "attention.max_alibi_bias";
    THAW_ASSIGN(config.slope_bias, family.slope_bias == 0
                                       ? metadata.Positive(kKey)
                                       : metadata.PositiveOr(kKey, family.slope_bias));
  }
  bool turns = family.positions == Positions::kRope && config.slope_bias == 0;
  if (family.positions == Positions::kRopeUnlessNotTuned) {
    THAW_ASSIGN(turns, file.GetBoolOr(metadata.Key("rope.scaling.finetuned"), true));
  }
  if (turns && config.first_heads().n != 0) {
    THAW_ASSIGN(RopeConfig rope, ReadRope(file, metadata, config));
    config.ropes.push_back(std::move(rope));
  } else {
    for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  }
  // A window of 0 positions says of a family with chunks that there are none: all layers turn.
  THAW_ASSIGN(const uint64_t window_field,
              file.GetUintOr(metadata.Key("attention.sliding_window"), 1));
  const bool has_chunks = family.chunk != 0 && window_field != 0;
  const bool all_turn = family.no_rope_period == 0 || (family.chunk != 0 && !has_chunks);
  for (int64_t i = 0; i < config.n_layers; ++i) {
    LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    const bool is_still = !all_turn && i % family.no_rope_period == family.no_rope_period - 1;
    if (is_still) layer.rope = kNoRope;
    if (family.chunk != 0) layer.has_temperature = is_still;
    if (has_chunks && !is_still) layer.window = {.size = family.chunk, .is_chunk = true};
  }
  const WindowPattern& windows = family.windows;
  if (windows.period == 0 && !windows.is_stated) return {};
  constexpr std::string_view kWindow = "attention.sliding_window";
  THAW_ASSIGN(int64_t window, windows.is_stated
                                  ? metadata.Size(kWindow, kMaxContext)
                                  : metadata.SizeOr(kWindow, kMaxContext, windows.default_size));
  if (window == 0) return {};
  if (windows.only_size != 0) window = windows.only_size;
  THAW_ASSIGN(const std::vector<bool> windowed, ReadWindowedLayers(file, metadata, config));
  RopeConfig local = config.ropes.front();
  if (windows.freq_base != 0) local.freq_base = windows.freq_base;
  THAW_ASSIGN(local.freq_base, metadata.PositiveOr("rope.freq_base_swa", local.freq_base));
  if (!windows.scales_rope) local.scaling = {};
  if (windows.halves_full_rope) {
    int64_t& rope_dim = config.ropes.front().rope_dim;
    if (rope_dim % 4 != 0) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a multiple of 4",
                  file.path(), metadata.Key("rope.dimension_count"), rope_dim);
    }
    rope_dim /= 2;
  }
  config.ropes.push_back(std::move(local));
  for (size_t i = 0; i < windowed.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    if (windowed[i]) {
      layer.window.size = window;
      layer.rope = 1;
      THAW_TRY(ReadWindowedHeads(file, metadata, layer, config.ropes.back()));
    } else if (windows.only_window_turns) {
      layer.rope = kNoRope;
    }
  }
  return {};
}

}  // namespace thaw
