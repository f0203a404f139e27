#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_types.h"

namespace thaw {
namespace {

// No model comes near these; they keep products of two sizes far inside int64_t.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxWidth = uint64_t{1} << 28;
constexpr uint64_t kMaxContext = uint64_t{1} << 31;

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
  const std::string experts = metadata.Key("expert_count");
  THAW_ASSIGN(const uint64_t n_experts, file.GetUintOr(experts, 0));
  if (n_experts > 0) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is {}: mixtures of experts are not supported", file.path(), experts,
                n_experts);
  }
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
                                    int64_t context_length) {
  RopeScaling scaling;
  const std::string type_key = metadata.Key("rope.scaling.type");
  THAW_ASSIGN(const std::string type, file.GetStringOr(type_key, "linear"));
  if (type == "linear") {
    scaling.kind = RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    scaling.kind = RopeScalingKind::kYarn;
  } else if (type != "none") {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' is '{}'; supported are: none, linear, yarn", file.path(), type_key,
                type);
  }
  // Files of before 2023-11 name the linear factor differently. A factor of 0 means none.
  const char* factor_key =
      metadata.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  THAW_ASSIGN(const double factor, file.GetFloatOr(metadata.Key(factor_key), 0));
  if (factor != 0) {
    THAW_ASSIGN(scaling.factor, metadata.Positive(factor_key));
  }
  THAW_ASSIGN(scaling.original_context,
              metadata.SizeOr("rope.scaling.original_context_length", kMaxContext, context_length));
  THAW_ASSIGN(scaling.attention_factor, metadata.PositiveOr("rope.scaling.attn_factor", 1));
  THAW_ASSIGN(scaling.beta_fast, metadata.PositiveOr("rope.scaling.yarn_beta_fast", 32));
  THAW_ASSIGN(scaling.beta_slow, metadata.PositiveOr("rope.scaling.yarn_beta_slow", 1));
  THAW_ASSIGN(const double log_multiplier,
              file.GetFloatOr(metadata.Key("rope.scaling.yarn_log_multiplier"), 0));
  scaling.yarn_log_multiplier = static_cast<float>(log_multiplier);
  if (scaling.factor == 1 && scaling.kind == RopeScalingKind::kLinear) {
    scaling.kind = RopeScalingKind::kNone;
  }
  return scaling;
}

Result<void> ReadAttention(const GgufFile& file, const MetadataReader& metadata,
                           ModelConfig& config) {
  THAW_ASSIGN(config.n_heads, metadata.Size("attention.head_count", kMaxWidth));
  THAW_ASSIGN(config.n_kv_heads,
              metadata.SizeOr("attention.head_count_kv", kMaxWidth, config.n_heads));
  if (config.n_heads % config.n_kv_heads != 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: {} query heads cannot share {} key/value heads: not a multiple", file.path(),
                config.n_heads, config.n_kv_heads);
  }
  const bool states_head_size = metadata.Has("attention.key_length");
  if (!states_head_size && config.d_model % config.n_heads != 0) {
    return Fail(ErrorCode::kCorrupt, "{}: a width of {} cannot be split into {} heads", file.path(),
                config.d_model, config.n_heads);
  }
  const int64_t default_head_dim = config.d_model / config.n_heads;
  THAW_ASSIGN(config.head_dim,
              metadata.SizeOr("attention.key_length", kMaxWidth, default_head_dim));
  THAW_ASSIGN(config.v_head_dim,
              metadata.SizeOr("attention.value_length", kMaxWidth, default_head_dim));
  THAW_ASSIGN(config.rope.rope_dim,
              metadata.SizeOr("rope.dimension_count", kMaxWidth, config.head_dim));
  if (config.rope.rope_dim % 2 != 0 || config.rope.rope_dim > config.head_dim) {
    return Fail(ErrorCode::kCorrupt,
                "{}: field '{}' is {}, expected an even number up to the head size {}", file.path(),
                metadata.Key("rope.dimension_count"), config.rope.rope_dim, config.head_dim);
  }
  THAW_ASSIGN(config.rope.freq_base, metadata.PositiveOr("rope.freq_base", 10000));
  THAW_ASSIGN(config.rope.scaling, ReadRopeScaling(file, metadata, config.context_length));
  return {};
}

}  // namespace

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  ModelConfig config;
  THAW_ASSIGN(config.family, ReadFamily(file));
  const MetadataReader metadata(file, config.family->name);
  THAW_TRY(RefuseUnsupported(file, metadata));
  THAW_ASSIGN(config.name, file.GetStringOr("general.name", ""));
  THAW_ASSIGN(config.n_layers, metadata.Size("block_count", kMaxLayers));
  THAW_ASSIGN(config.d_model, metadata.Size("embedding_length", kMaxWidth));
  THAW_ASSIGN(config.d_ff, metadata.Size("feed_forward_length", kMaxWidth));
  THAW_ASSIGN(config.context_length, metadata.Size("context_length", kMaxContext));
  THAW_ASSIGN(config.norm_epsilon, metadata.Positive("attention.layer_norm_rms_epsilon"));
  THAW_TRY(ReadAttention(file, metadata, config));
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
