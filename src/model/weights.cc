#include "model/weights.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "kernels/dequantize.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

using Dimensions = std::array<int64_t, kMaxTensorDimensions>;  // the contiguous one first

// Finds tensors by name and checks their shapes; remembers which were used.
class TensorFinder {
 public:
  TensorFinder(const GgufFile& file, ModelDescription& model) : file_(file), model_(model) {}

  // A float vector of `size` elements. Empty where it is absent and need not be there.
  Result<std::vector<float>> Vector(const std::string& name, int64_t size, Presence presence) {
    THAW_ASSIGN(const TensorInfo* tensor, Find(name, {size, 1, 1, 1}, presence));
    if (tensor == nullptr) return std::vector<float>();
    std::vector<std::byte> bytes(tensor->bytes);
    THAW_TRY(file_.ReadTensor(*tensor, 0, bytes));
    std::vector<float> values(static_cast<size_t>(size));
    if (auto done = Dequantize(tensor->type, bytes, values); !done) {
      return Fail(std::move(done).error().In(Where(name)));
    }
    model_.vector_bytes += values.size() * sizeof(float);
    return values;
  }

  // The matrices found from now on are part of this.
  void EnterGroup(int64_t layer, WeightGroup group) {
    layer_ = static_cast<int32_t>(layer);
    group_ = group;
  }

  // A matrix of `rows` x `cols`; its index in the weight cache.
  Result<int32_t> Matrix(const std::string& name, int64_t rows, int64_t cols,
                         bool row_lookup_only = false) {
    THAW_ASSIGN(const TensorInfo* tensor, Find(name, {cols, rows, 1, 1}, Presence::kRequired));
    if (!CanMultiply(tensor->type)) {
      return Fail(ErrorCode::kUnsupported, "{}: weights of type {} cannot be multiplied",
                  Where(name), Info(tensor->type).name);
    }
    model_.matrices.push_back({.name = name,
                               .type = tensor->type,
                               .rows = rows,
                               .cols = cols,
                               .file = file_.file(tensor->file_index),
                               .offset = tensor->offset,
                               .layer = layer_,
                               .group = group_,
                               .row_lookup_only = row_lookup_only});
    return static_cast<int32_t>(model_.matrices.size() - 1);
  }

  // `stem`.weight of `rows` x `cols` with, perhaps, `stem`.bias.
  Result<LinearWeights> Linear(const std::string& stem, int64_t rows, int64_t cols, Presence bias) {
    LinearWeights linear{.rows = rows, .cols = cols};
    THAW_ASSIGN(linear.matrix, Matrix(stem + ".weight", rows, cols));
    THAW_ASSIGN(linear.bias, Vector(stem + ".bias", rows, bias));
    return linear;
  }

  // An error for the first tensor that nobody asked for.
  Result<void> CheckAllUsed() const {
    for (const TensorInfo& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      return Fail(ErrorCode::kUnsupported,
                  "{}: architecture '{}' has no use for this tensor here, so its output would be "
                  "wrong without it",
                  Where(tensor.name), model_.config.family->name);
    }
    return {};
  }

 private:
  Result<const TensorInfo*> Find(const std::string& name, const Dimensions& expected,
                                 Presence presence) {
    if (presence == Presence::kAbsent) return nullptr;
    const TensorInfo* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      if (presence == Presence::kOptional) return nullptr;
      return Fail(ErrorCode::kCorrupt, "{}: the tensor is missing", Where(name));
    }
    used_.insert(tensor->name);
    if (tensor->dims != expected) {
      return Fail(ErrorCode::kCorrupt, "{}: its shape is {}, expected {}", Where(name),
                  ShapeText(tensor->extents()),
                  ShapeText(std::span(expected).first(expected[1] == 1 ? 1 : 2)));
    }
    return tensor;
  }

  std::string Where(std::string_view name) const {
    return fmt::format("{}: tensor '{}'", file_.path(), name);
  }

  const GgufFile& file_;
  ModelDescription& model_;
  int32_t layer_ = 0;
  WeightGroup group_ = WeightGroup::kAttention;
  std::unordered_set<std::string_view> used_;
};

Result<LayerWeights> DescribeLayer(TensorFinder& find, const ModelConfig& config, int64_t index) {
  const Family& family = *config.family;
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", index, part); };
  const int64_t q_size = config.n_heads * config.head_dim;
  const int64_t k_size = config.n_kv_heads * config.head_dim;
  const int64_t v_size = config.n_kv_heads * config.v_head_dim;
  const int64_t attention_size = config.n_heads * config.v_head_dim;
  const int64_t d = config.d_model;
  LayerWeights layer;
  find.EnterGroup(index, WeightGroup::kAttention);
  THAW_ASSIGN(layer.attention_norm, find.Vector(name("attn_norm.weight"), d, Presence::kRequired));
  THAW_ASSIGN(layer.q, find.Linear(name("attn_q"), q_size, d, family.qkv_bias));
  THAW_ASSIGN(layer.k, find.Linear(name("attn_k"), k_size, d, family.qkv_bias));
  THAW_ASSIGN(layer.v, find.Linear(name("attn_v"), v_size, d, family.qkv_bias));
  THAW_ASSIGN(layer.q_norm,
              find.Vector(name("attn_q_norm.weight"), config.head_dim, family.qk_norm));
  THAW_ASSIGN(layer.k_norm,
              find.Vector(name("attn_k_norm.weight"), config.head_dim, family.qk_norm));
  THAW_ASSIGN(layer.attention_output,
              find.Linear(name("attn_output"), d, attention_size, family.attention_output_bias));
  find.EnterGroup(index, WeightGroup::kFeedForward);
  THAW_ASSIGN(layer.ffn_norm, find.Vector(name("ffn_norm.weight"), d, Presence::kRequired));
  THAW_ASSIGN(layer.gate, find.Linear(name("ffn_gate"), config.d_ff, d, family.ffn_bias));
  THAW_ASSIGN(layer.up, find.Linear(name("ffn_up"), config.d_ff, d, family.ffn_bias));
  THAW_ASSIGN(layer.down, find.Linear(name("ffn_down"), d, config.d_ff, family.ffn_bias));
  return layer;
}

}  // namespace

Result<ModelDescription> DescribeModel(const GgufFile& file) {
  ModelDescription model;
  THAW_ASSIGN(model.config, ReadModelConfig(file));
  ModelConfig& config = model.config;
  TensorFinder find(file, model);

  const bool tied = file.FindTensor("output.weight") == nullptr;
  THAW_ASSIGN(config.rope.frequency_factors,
              find.Vector("rope_freqs.weight", config.rope.rope_dim / 2, Presence::kOptional));
  for (int64_t i = 0; i < config.n_layers; ++i) {
    THAW_ASSIGN(LayerWeights layer, DescribeLayer(find, config, i));
    model.weights.layers.push_back(std::move(layer));
  }
  THAW_ASSIGN(model.weights.output_norm,
              find.Vector("output_norm.weight", config.d_model, Presence::kRequired));
  find.EnterGroup(config.n_layers, WeightGroup::kOutput);
  THAW_ASSIGN(model.weights.embedding, find.Matrix("token_embd.weight", config.n_vocab,
                                                   config.d_model, /*row_lookup_only=*/!tied));
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
