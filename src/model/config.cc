#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_types.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// No model comes near these; they keep products of two sizes far inside int64_t.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxWidth = uint64_t{1} << 28;
constexpr uint64_t kMaxContext = uint64_t{1} << 31;
constexpr uint64_t kMaxExperts = 4096;
constexpr uint64_t kMaxTaps = 64;
constexpr uint64_t kMaxStateKeys = 65536;

// Reads the metadata of one architecture: keys are "ARCHITECTURE.key".
class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string Key(std::string_view key) const { return prefix_ + std::string(key); }
  bool Has(std::string_view key) const { return file_.Find(Key(key)) != nullptr; }

  // A number in [1, max].
  Result<int64_t> Size(std::string_view key, uint64_t max) const {
    THAW_ASSIGN(const uint64_t value, Number(key));
    return Checked(key, value, max);
  }

  Result<int64_t> SizeOr(std::string_view key, uint64_t max, int64_t missing) const {
    if (!Has(key)) return missing;
    return Size(key, max);
  }

  // The same, where 0 stands for a field that is missing.
  Result<int64_t> SizeOrNone(std::string_view key, uint64_t max, int64_t missing) const {
    if (!Has(key)) return missing;
    THAW_ASSIGN(const uint64_t value, Number(key));
    return value == 0 ? missing : Checked(key, value, max);
  }

  // One number in [least, max] for each of the layers that run: an array of one for each layer of
  // the file, or a number that holds for all.
  Result<std::vector<int64_t>> OfLayers(std::string_view key, const ModelConfig& config,
                                        int64_t least, uint64_t max) const {
    std::vector<int64_t> values;
    const GgufField* field = file_.Find(Key(key));
    if (field == nullptr || field->array() == nullptr) {
      THAW_ASSIGN(const uint64_t value, file_.GetUint(Key(key)));
      values.assign(config.layers.size(), static_cast<int64_t>(std::min(value, max + 1)));
    } else {
      THAW_ASSIGN(values, file_.ReadInts(Key(key)));
      THAW_TRY(CheckOneALayer(Key(key), std::ssize(values), config));
      values.resize(config.layers.size());
    }
    for (const int64_t value : values) {
      if (value < least || std::cmp_greater(value, max)) {
        return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {}, expected {} to {}", file_.path(),
                    Key(key), value, least, max);
      }
    }
    return values;
  }

  // Likewise a finite number, or -infinity where that is `least`; `name` is the whole one of the
  // field.
  Result<std::vector<float>> FloatsOfLayers(
      const std::string& name, const ModelConfig& config,
      float least = std::numeric_limits<float>::lowest()) const {
    std::vector<float> values;
    const GgufField* field = file_.Find(name);
    if (field == nullptr || field->array() == nullptr) {
      THAW_ASSIGN(const double value, file_.GetFloat(name));
      values.assign(config.layers.size(), static_cast<float>(value));
    } else {
      THAW_ASSIGN(values, file_.ReadFloats(name));
      THAW_TRY(CheckOneALayer(name, std::ssize(values), config));
      values.resize(config.layers.size());
    }
    for (const float value : values) {
      if (value >= least && value <= std::numeric_limits<float>::max()) continue;
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {}, expected finite numbers{}",
                  file_.path(), name, value, std::isinf(least) ? " or -inf" : "");
    }
    return values;
  }

  // A finite number above zero.
  Result<float> Positive(std::string_view key) const {
    THAW_ASSIGN(const double value, file_.GetFloat(Key(key)));
    if (!std::isfinite(value) || value <= 0) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a number above 0",
                  file_.path(), Key(key), value);
    }
    return static_cast<float>(value);
  }

  Result<float> PositiveOr(std::string_view key, float missing) const {
    if (!Has(key)) return missing;
    return Positive(key);
  }

  // A finite number that is not negative; 0 stands for "none".
  Result<float> PositiveOrNone(std::string_view key, float missing) const {
    if (!Has(key)) return missing;
    THAW_ASSIGN(const double value, file_.GetFloat(Key(key)));
    if (value == 0) return 0.0F;
    return Positive(key);
  }

 private:
  // A number, or an array of one number a layer as long as they are all the same.
  Result<uint64_t> Number(std::string_view key) const {
    const GgufField* field = file_.Find(Key(key));
    if (field == nullptr || field->array() == nullptr) return file_.GetUint(Key(key));
    THAW_ASSIGN(const std::vector<int64_t> values, file_.ReadInts(Key(key)));
    if (values.empty() || values.front() < 0) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' has no usable first element", file_.path(),
                  Key(key));
    }
    if (std::ranges::any_of(values, [&](int64_t v) { return v != values.front(); })) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: field '{}' differs between layers, which this architecture cannot have here",
                  file_.path(), Key(key));
    }
    return static_cast<uint64_t>(values.front());
  }

  // Whether a field has so many elements as the file has layers.
  Result<void> CheckOneALayer(const std::string& name, int64_t count,
                              const ModelConfig& config) const {
    const int64_t in_file = config.n_layers + config.n_unused_layers;
    if (count == in_file) return {};
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {} elements, expected one a layer: {}",
                file_.path(), name, count, in_file);
  }

  Result<int64_t> Checked(std::string_view key, uint64_t value, uint64_t max) const {
    if (value < 1 || value > max) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected 1 to {}", file_.path(),
                  Key(key), value, max);
    }
    return static_cast<int64_t>(value);
  }

  const GgufFile& file_;
  std::string prefix_;
};

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

// Which of the last layers see the keys and values of the last one before them that sees as far.
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

// Windows and ropes of all layers.
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

// The experts, of which layers, and the width of dense blocks. Layers have experts where the file
// has a router for them.
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

// The heads and ranks of time mixing, whose two blocks have a token shift each.
Result<void> ReadTimeMix(const GgufFile& file, const MetadataReader& metadata,
                         ModelConfig& config) {
  constexpr std::string_view kHeadSize = "wkv.head_size";
  constexpr std::string_view kShifts = "token_shift_count";
  constexpr uint64_t kShiftsOfLayer = 2;
  RecurrenceConfig& of = config.recurrence;
  THAW_ASSIGN(of.keys, metadata.Size(kHeadSize, kMaxStateKeys));
  if (config.d_model % of.keys != 0) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a divisor of the width {}",
                file.path(), metadata.Key(kHeadSize), of.keys, config.d_model);
  }
  THAW_ASSIGN(const uint64_t shifts, file.GetUintOr(metadata.Key(kShifts), kShiftsOfLayer));
  if (shifts != kShiftsOfLayer) {
    return Fail(ErrorCode::kUnsupported, "{}: field '{}' is {}; supported is: {}", file.path(),
                metadata.Key(kShifts), shifts, kShiftsOfLayer);
  }
  of.taps = 2;
  of.inner = config.d_model;
  of.heads = of.groups = config.d_model / of.keys;
  of.convolved = static_cast<int64_t>(kShiftsOfLayer) * config.d_model;
  THAW_ASSIGN(of.ranks.decay, metadata.Size("attention.decay_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.rate, metadata.Size("attention.iclr_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.value, metadata.Size("attention.value_residual_mix_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.gate, metadata.Size("attention.gate_lora_rank", kMaxWidth));
  return {};
}

// Which layers recur, and the shape of what they remember.
Result<void> ReadRecurrence(const GgufFile& file, const MetadataReader& metadata,
                            ModelConfig& config) {
  const Family& family = *config.family;
  const Recurrence kind = family.recurrence;
  if (kind == Recurrence::kNone) return {};
  for (LayerConfig& layer : config.layers) {
    const bool is_other_block = layer.heads.n != 0 || (family.is_one_block && layer.has_block());
    layer.recurs = family.attention_layers == AttentionLayers::kAll || !is_other_block;
  }
  if (kind == Recurrence::kTimeMix) return ReadTimeMix(file, metadata, config);
  RecurrenceConfig& of = config.recurrence;
  if (kind == Recurrence::kShortConvolution) {
    THAW_ASSIGN(of.taps, metadata.Size("shortconv.l_cache", kMaxTaps));
    of.inner = of.convolved = config.d_model;
    return {};
  }
  THAW_ASSIGN(of.taps, metadata.Size("ssm.conv_kernel", kMaxTaps));
  if (kind == Recurrence::kChannelDelta) {
    THAW_ASSIGN(of.heads, metadata.Size("attention.head_count", kMaxWidth));
    const uint64_t widest = kMaxWidth / static_cast<uint64_t>(of.heads);
    THAW_ASSIGN(of.keys, metadata.Size("kda.head_dim", std::min(kMaxStateKeys, widest)));
    of.groups = of.heads;
    of.rank = of.keys;
    of.inner = of.heads * of.keys;
    of.convolved = 3 * of.inner;
    return {};
  }
  THAW_ASSIGN(of.inner, metadata.Size("ssm.inner_size", kMaxWidth));
  THAW_ASSIGN(of.keys, metadata.Size("ssm.state_size", kMaxStateKeys));
  if (kind == Recurrence::kMamba) {
    THAW_ASSIGN(of.rank, metadata.Size("ssm.time_step_rank", kMaxWidth));
    THAW_ASSIGN(of.norms_steps, file.GetBoolOr(metadata.Key("ssm.dt_b_c_rms"), false));
    of.heads = of.groups = 1;
    of.convolved = of.inner;
    return {};
  }
  THAW_ASSIGN(of.heads, metadata.Size("ssm.time_step_rank", kMaxWidth));
  THAW_ASSIGN(of.groups, metadata.Size("ssm.group_count", kMaxWidth));
  if (of.inner % of.heads != 0 || of.heads % of.groups != 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: '{}' is {}, '{}' {} and '{}' {}: each should be a multiple of the next",
                file.path(), metadata.Key("ssm.inner_size"), of.inner,
                metadata.Key("ssm.time_step_rank"), of.heads, metadata.Key("ssm.group_count"),
                of.groups);
  }
  of.convolved = of.inner + 2 * of.groups * of.keys;
  of.is_interleaved =
      kind == Recurrence::kDelta && file.FindTensor("blk.0.ssm_in.weight") != nullptr;
  return {};
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

// What blocks do with their hidden layers.
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
