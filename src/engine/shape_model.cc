#include "engine/shape_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/random_weights.h"
#include "gguf/gguf_writer.h"
#include "io/free_space.h"
#include "kernels/kernel_table.h"
#include "model/family.h"
#include "sampling/split_mix.h"

namespace thaw {
namespace {

constexpr ModelShape Mixture(std::string_view name, float expert_skew) {
  return {.name = name,
          .family = "glm4moe",
          .n_layers = 16,
          .d_model = 1024,
          .d_ff = 512,
          .n_heads = 16,
          .n_kv_heads = 4,
          .head_dim = 64,
          .n_vocab = 32000,
          .context_length = 4096,
          .n_experts = 64,
          .n_experts_used = 8,
          .expert_skew = expert_skew};
}

constexpr ModelShape kShapes[] = {
    {.name = "tinyllama-1.1b",
     .n_layers = 22,
     .d_model = 2048,
     .d_ff = 5632,
     .n_heads = 32,
     .n_kv_heads = 4,
     .head_dim = 64,
     .n_vocab = 32000,
     .context_length = 2048},
    {.name = "smollm2-1.7b",
     .n_layers = 24,
     .d_model = 2048,
     .d_ff = 8192,
     .n_heads = 32,
     .n_kv_heads = 32,
     .head_dim = 64,
     .n_vocab = 49152,
     .context_length = 8192,
     .rope_freq_base = 130000,
     .tied_output = true},
    {.name = "llama-3.2-3b",
     .n_layers = 28,
     .d_model = 3072,
     .d_ff = 8192,
     .n_heads = 24,
     .n_kv_heads = 8,
     .head_dim = 128,
     .n_vocab = 128256,
     .context_length = 131072,
     .rope_freq_base = 500000,
     .tied_output = true},
    {.name = "llama-3.1-8b",
     .n_layers = 32,
     .d_model = 4096,
     .d_ff = 14336,
     .n_heads = 32,
     .n_kv_heads = 8,
     .head_dim = 128,
     .n_vocab = 128256,
     .context_length = 131072,
     .rope_freq_base = 500000},
    {.name = "qwen3-30b-a3b",
     .family = "qwen3moe",
     .n_layers = 48,
     .d_model = 2048,
     .d_ff = 768,
     .n_heads = 32,
     .n_kv_heads = 4,
     .head_dim = 128,
     .n_vocab = 151936,
     .context_length = 40960,
     .rope_freq_base = 1000000,
     .n_experts = 128,
     .n_experts_used = 8},
    {.name = "gpt-oss-20b",
     .family = "gpt-oss",
     .n_layers = 24,
     .d_model = 2880,
     .d_ff = 2880,
     .n_heads = 64,
     .n_kv_heads = 8,
     .head_dim = 64,
     .n_vocab = 201088,
     .context_length = 131072,
     .rope_freq_base = 150000,
     .window = 128,
     .n_experts = 32,
     .n_experts_used = 4},
    Mixture("mixture-64x8", 0),
    Mixture("mixture-64x8-skewed", 0.2F),
};

// Families whose layers are made of the tensors that LayerTensors lists.
constexpr std::string_view kFamilies[] = {"llama",   "qwen2",    "qwen3",    "gpt-oss",
                                          "glm4moe", "qwen3moe", "deepseek2"};

// Of all the shapes above.
constexpr float kNormEpsilon = 1e-5f;

// Ids that SentencePiece vocabularies of this family begin with: <unk>, <s>, </s>, then the bytes.
constexpr uint32_t kBosId = 1;
constexpr uint32_t kEosId = 2;

// As GGUF numbers them.
constexpr int32_t kNormalKind = 1;
constexpr int32_t kUnknownKind = 2;
constexpr int32_t kControlKind = 3;
constexpr int32_t kByteKind = 6;

// Data are made and written this many bytes at a time, or a row where a row is longer: enough for
// few system calls, small enough to stay in a cache between the two.
constexpr int64_t kChunkBytes = 1 << 20;

struct ShapeTensor {
  std::string name;
  std::vector<int64_t> dims;  // the contiguous one first
  // What it holds: random weights of the model's type or of F32, these numbers, or this one.
  enum class Content { kWeights, kF32Weights, kNumbers, kConstant } content = Content::kWeights;
  std::vector<float> numbers = {};
  float constant = 0;

  bool is_random() const { return content == Content::kWeights || content == Content::kF32Weights; }
  int64_t rows() const {
    int64_t rows = 1;
    for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
    return rows;
  }
};

// Biases of the choice of experts, by ranks that are spread over their indexes.
std::vector<float> ChoiceBiases(const ModelShape& shape, int64_t layer) {
  std::vector<float> biases;
  for (int64_t expert = 0; expert < shape.n_experts; ++expert) {
    constexpr int64_t kStride = 37;  // a prime: every rank comes once
    const int64_t rank = (expert * kStride + layer) % shape.n_experts;
    biases.push_back(-shape.expert_skew * std::log1p(static_cast<float>(rank)));
  }
  return biases;
}

std::vector<ShapeTensor> LayerTensors(const ModelShape& shape, const Family& family,
                                      int64_t layer) {
  const int64_t d = shape.d_model;
  const int64_t q_size = shape.n_heads * shape.head_dim;
  const int64_t kv_size = shape.n_kv_heads * shape.head_dim;
  std::vector<ShapeTensor> tensors;
  const auto constant = [&](std::string_view part, std::vector<int64_t> dims, float number) {
    tensors.push_back({.name = fmt::format("blk.{}.{}", layer, part),
                       .dims = std::move(dims),
                       .content = ShapeTensor::Content::kConstant,
                       .constant = number});
  };
  const auto vector = [&](std::string_view part, int64_t size, float number) {
    constant(part, {size}, number);
  };
  const auto linear = [&](std::string_view part, int64_t rows, int64_t cols, Presence bias,
                          ShapeTensor::Content content = ShapeTensor::Content::kWeights) {
    tensors.push_back({fmt::format("blk.{}.{}.weight", layer, part), {cols, rows}, content});
    if (bias == Presence::kRequired) vector(fmt::format("{}.bias", part), rows, 0);
  };
  vector("attn_norm.weight", d, 1);
  if (family.has_latent_attention) {
    const auto heads = [&](std::string_view part, int64_t rows, int64_t cols) {
      tensors.push_back(
          {fmt::format("blk.{}.{}.weight", layer, part), {cols, rows, shape.n_heads}});
    };
    linear("attn_q_a", shape.q_rank, d, Presence::kAbsent);
    vector("attn_q_a_norm.weight", shape.q_rank, 1);
    linear("attn_kv_a_mqa", shape.kv_rank + shape.rope_dim, d, Presence::kAbsent);
    vector("attn_kv_a_norm.weight", shape.kv_rank, 1);
    linear("attn_q_b", q_size + shape.n_heads * shape.rope_dim, shape.q_rank, Presence::kAbsent);
    heads("attn_k_b", shape.kv_rank, shape.head_dim);
    heads("attn_v_b", shape.head_dim, shape.kv_rank);
  } else {
    linear("attn_q", q_size, d, family.qkv_bias);
    linear("attn_k", kv_size, d, family.qkv_bias);
    linear("attn_v", kv_size, d, family.qkv_bias);
  }
  if (family.qk_norm == QkNorm::kHead) {
    vector("attn_q_norm.weight", shape.head_dim, 1);
    vector("attn_k_norm.weight", shape.head_dim, 1);
  }
  linear("attn_output", d, q_size, family.attention_output_bias);
  if (family.sinks == Presence::kRequired) vector("attn_sinks.weight", shape.n_heads, 0);
  vector(fmt::format("{}.weight", family.ffn_norm), d, 1);
  if (shape.n_experts > 0) {
    const auto experts = [&](std::string_view part, int64_t rows, int64_t cols) {
      tensors.push_back(
          {fmt::format("blk.{}.{}.weight", layer, part), {cols, rows, shape.n_experts}});
      if (family.expert_bias != Presence::kRequired) return;
      constant(fmt::format("{}.bias", part), {rows, shape.n_experts}, 0);
    };
    linear("ffn_gate_inp", shape.n_experts, d, family.expert_bias,
           ShapeTensor::Content::kF32Weights);
    if (shape.expert_skew != 0) {
      tensors.push_back({.name = fmt::format("blk.{}.exp_probs_b.bias", layer),
                         .dims = {shape.n_experts},
                         .content = ShapeTensor::Content::kNumbers,
                         .numbers = ChoiceBiases(shape, layer)});
    }
    experts("ffn_gate_exps", shape.d_ff, d);
    experts("ffn_up_exps", shape.d_ff, d);
    experts("ffn_down_exps", d, shape.d_ff);
    return tensors;
  }
  linear("ffn_gate", shape.d_ff, d, family.ffn_bias);
  linear("ffn_up", shape.d_ff, d, family.ffn_bias);
  linear("ffn_down", d, shape.d_ff, family.ffn_bias);
  return tensors;
}

// In the order of a forward pass.
std::vector<ShapeTensor> AllTensors(const ModelShape& shape, const Family& family) {
  std::vector<ShapeTensor> tensors = {{"token_embd.weight", {shape.d_model, shape.n_vocab}}};
  for (int64_t layer = 0; layer < shape.n_layers; ++layer) {
    std::vector<ShapeTensor> of_layer = LayerTensors(shape, family, layer);
    std::ranges::move(of_layer, std::back_inserter(tensors));
  }
  tensors.push_back({.name = "output_norm.weight",
                     .dims = {shape.d_model},
                     .content = ShapeTensor::Content::kConstant,
                     .constant = 1});
  if (!shape.tied_output) tensors.push_back({"output.weight", {shape.d_model, shape.n_vocab}});
  return tensors;
}

// a, b, ..., z, aa, ab, ...: bijective base 26.
std::string Word(int64_t index) {
  std::string word;
  for (int64_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    word.insert(word.begin(), static_cast<char>('a' + (rest - 1) % 26));
  }
  return word;
}

Result<void> SetVocabulary(const ModelShape& shape, GgufWriter& writer) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds = {kUnknownKind, kControlKind, kControlKind};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    kinds.push_back(kByteKind);
  }
  tokens.emplace_back("\u2581");  // stands for the space
  const auto n_vocab = static_cast<size_t>(shape.n_vocab);
  for (int64_t i = 0; tokens.size() < n_vocab; ++i) tokens.push_back(Word(i));
  kinds.resize(n_vocab, kNormalKind);
  // Shorter words are merged first, as in trained vocabularies.
  std::vector<float> scores(n_vocab);
  for (size_t i = 0; i < n_vocab; ++i) scores[i] = -static_cast<float>(i);
  THAW_TRY(writer.SetString("tokenizer.ggml.model", "llama"));
  THAW_TRY(writer.SetString("tokenizer.ggml.pre", "default"));
  THAW_TRY(writer.SetStrings("tokenizer.ggml.tokens", tokens));
  THAW_TRY(writer.SetNumbers<float>("tokenizer.ggml.scores", scores));
  THAW_TRY(writer.SetNumbers<int32_t>("tokenizer.ggml.token_type", kinds));
  THAW_TRY(writer.SetNumber<uint32_t>("tokenizer.ggml.bos_token_id", kBosId));
  return writer.SetNumber<uint32_t>("tokenizer.ggml.eos_token_id", kEosId);
}

struct SizeField {
  const char* key;
  int64_t ModelShape::*size;
};

constexpr SizeField kSizeFields[] = {
    {"block_count", &ModelShape::n_layers},
    {"embedding_length", &ModelShape::d_model},
    {"feed_forward_length", &ModelShape::d_ff},
    {"attention.head_count", &ModelShape::n_heads},
    {"attention.head_count_kv", &ModelShape::n_kv_heads},
    {"attention.key_length", &ModelShape::head_dim},
    {"attention.value_length", &ModelShape::head_dim},
    {"vocab_size", &ModelShape::n_vocab},
    {"context_length", &ModelShape::context_length},
};

constexpr SizeField kOptionalFields[] = {
    {"attention.sliding_window", &ModelShape::window},
    {"expert_count", &ModelShape::n_experts},
    {"expert_used_count", &ModelShape::n_experts_used},
    {"attention.kv_lora_rank", &ModelShape::kv_rank},
    {"attention.q_lora_rank", &ModelShape::q_rank},
};

Result<void> SetFields(const ModelShape& shape, GgufWriter& writer) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", shape.family, name); };
  THAW_TRY(writer.SetString("general.architecture", shape.family));
  THAW_TRY(writer.SetString("general.name", shape.name));
  for (const SizeField& field : kSizeFields) {
    THAW_TRY(writer.SetNumber<uint32_t>(key(field.key), static_cast<uint32_t>(shape.*field.size)));
  }
  const int64_t rope_dim = shape.rope_dim == 0 ? shape.head_dim : shape.rope_dim;
  THAW_TRY(
      writer.SetNumber<uint32_t>(key("rope.dimension_count"), static_cast<uint32_t>(rope_dim)));
  if (shape.kv_rank != 0) {
    const auto key_size = static_cast<uint32_t>(shape.head_dim + rope_dim);
    const auto value_size = static_cast<uint32_t>(shape.head_dim);
    THAW_TRY(writer.SetNumber<uint32_t>(key("attention.key_length_mla"), key_size));
    THAW_TRY(writer.SetNumber<uint32_t>(key("attention.value_length_mla"), value_size));
  }
  for (const SizeField& field : kOptionalFields) {
    const int64_t size = shape.*field.size;
    if (size == 0) continue;
    THAW_TRY(writer.SetNumber<uint32_t>(key(field.key), static_cast<uint32_t>(size)));
  }
  if (shape.n_experts != 0) {  // other programs do not take it from the tensors
    THAW_TRY(writer.SetNumber<uint32_t>(key("expert_feed_forward_length"),
                                        static_cast<uint32_t>(shape.d_ff)));
  }
  THAW_TRY(writer.SetNumber<float>(key("attention.layer_norm_rms_epsilon"), kNormEpsilon));
  THAW_TRY(writer.SetNumber<float>(key("rope.freq_base"), shape.rope_freq_base));
  return SetVocabulary(shape, writer);
}

Result<const Family*> CheckShape(const ModelShape& shape) {
  // Products of any three sizes stay below 2^63; no published model has a size of this.
  constexpr int64_t kMaxSize = 1 << 20;
  for (const SizeField& field : kSizeFields) {
    const int64_t size = shape.*field.size;
    if (size < 1 || size > kMaxSize) {
      return Fail(ErrorCode::kInvalidArgument, "shape {}: {} is {}, expected 1 to {}",
                  Quote(shape.name), field.key, size, kMaxSize);
    }
  }
  constexpr int64_t kMinVocabulary = 260;
  if (shape.n_vocab < kMinVocabulary) {
    return Fail(ErrorCode::kInvalidArgument,
                "shape {}: a vocabulary of {} tokens, at least {} are needed", Quote(shape.name),
                shape.n_vocab, kMinVocabulary);
  }
  if (std::ranges::find(kFamilies, shape.family) == std::end(kFamilies)) {
    return Fail(ErrorCode::kInvalidArgument, "shape {}: there is no shape of family {}",
                Quote(shape.name), Quote(shape.family));
  }
  return FindFamily(shape.family);
}

ElementType StoredType(const ShapeTensor& tensor, ElementType type) {
  return tensor.content == ShapeTensor::Content::kWeights ? type : ElementType::kF32;
}

// The errors of ShapeModelBytes.
Result<uint64_t> BytesOf(const ModelShape& shape, ElementType type,
                         const std::vector<ShapeTensor>& tensors) {
  if (!CanMultiply(type)) {
    return Fail(ErrorCode::kInvalidArgument, "shape {}: weights of type {} cannot be multiplied",
                Quote(shape.name), Info(type).name);
  }
  uint64_t bytes = 0;
  for (const ShapeTensor& tensor : tensors) {
    const ElementType stored = StoredType(tensor, type);
    const int64_t row_length = tensor.dims[0];
    if (row_length % Info(stored).block_elements != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "shape {}: rows of {} have {} weights, which are no whole blocks of {} ({} each)",
                  Quote(shape.name), tensor.name, row_length, Info(stored).name,
                  Info(stored).block_elements);
    }
    bytes += static_cast<uint64_t>(tensor.rows() * RowBytes(stored, row_length));
  }
  return bytes;
}

// Passes data on to the writer and reports how far they are.
class DataSink {
 public:
  DataSink(GgufWriter& writer, uint64_t total, FunctionRef<bool(uint64_t, uint64_t)> on_progress)
      : writer_(writer), total_(total), on_progress_(on_progress) {}

  Result<void> Append(std::span<const std::byte> bytes) {
    THAW_TRY(writer_.AppendData(bytes));
    done_ += bytes.size();
    if (!on_progress_(done_, total_)) return Fail(ErrorCode::kCancelled, "stopped");
    return {};
  }

 private:
  GgufWriter& writer_;
  const uint64_t total_;
  uint64_t done_ = 0;
  FunctionRef<bool(uint64_t, uint64_t)> on_progress_;
};

Result<void> AppendMatrix(const ShapeTensor& tensor, ElementType type, uint64_t seed,
                          std::vector<std::byte>& chunk, DataSink& sink) {
  const int64_t cols = tensor.dims[0];
  const int64_t row_bytes = RowBytes(type, cols);
  const int64_t rows_per_chunk = std::max<int64_t>(1, kChunkBytes / row_bytes);
  RandomWeights weights(type, 1 / std::sqrt(static_cast<double>(cols)), seed);
  for (int64_t row = 0; row < tensor.rows(); row += rows_per_chunk) {
    const int64_t rows = std::min(rows_per_chunk, tensor.rows() - row);
    chunk.resize(static_cast<size_t>(rows * row_bytes));
    weights.Fill(chunk);
    THAW_TRY(sink.Append(chunk));
  }
  return {};
}

// Names of types are ASCII.
char Upper(char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

std::span<const ModelShape> KnownShapes() { return kShapes; }

Result<const ModelShape*> FindShape(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return &shape;
    known.push_back(shape.name);
  }
  return Fail(ErrorCode::kNotFound, "there is no shape {}; known are: {}", Quote(name),
              fmt::join(known, ", "));
}

Result<ElementType> FindWeightType(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (!CanMultiply(info.type) || !IsInFiles(info.type)) continue;
    if (std::ranges::equal(std::string_view(info.name), name, {}, Upper, Upper)) return info.type;
    known.push_back(info.name);
  }
  return Fail(ErrorCode::kNotFound, "there are no weights of type {}; known are: {}", Quote(name),
              fmt::join(known, ", "));
}

Result<uint64_t> ShapeModelBytes(const ModelShape& shape, ElementType type) {
  THAW_ASSIGN(const Family* family, CheckShape(shape));
  return BytesOf(shape, type, AllTensors(shape, *family));
}

Result<void> WriteShapeModel(const ModelShape& shape, ElementType type, uint64_t seed,
                             const std::string& path,
                             FunctionRef<bool(uint64_t, uint64_t)> on_progress) {
  THAW_ASSIGN(const Family* family, CheckShape(shape));
  const std::vector<ShapeTensor> tensors = AllTensors(shape, *family);
  THAW_ASSIGN(const uint64_t total, BytesOf(shape, type, tensors));
  THAW_TRY(CheckFreeSpace(path, total));
  THAW_ASSIGN(GgufWriter writer, GgufWriter::Create(path));
  THAW_TRY(SetFields(shape, writer));
  for (const ShapeTensor& tensor : tensors) {
    THAW_TRY(writer.AddTensor(tensor.name, StoredType(tensor, type), tensor.dims));
  }

  DataSink sink(writer, total, on_progress);
  SplitMix64 seeds(seed);  // one for each tensor
  std::vector<std::byte> chunk;
  for (const ShapeTensor& tensor : tensors) {
    if (tensor.is_random()) {
      THAW_TRY(AppendMatrix(tensor, StoredType(tensor, type), seeds.Next(), chunk, sink));
      continue;
    }
    std::vector<float> values = tensor.numbers;
    if (tensor.content == ShapeTensor::Content::kConstant) {
      values.assign(static_cast<size_t>(tensor.dims[0] * tensor.rows()), tensor.constant);
    }
    THAW_TRY(sink.Append(std::as_bytes(std::span(values))));
  }
  return writer.Commit();
}

}  // namespace thaw
