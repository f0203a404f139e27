// Writes tiny models for tests: a llama of a few thousand random weights with a vocabulary of all
// bytes, whole enough for everything that a real file is used for.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "gguf/gguf_writer.h"
#include "tensor/element_type.h"

namespace thaw {

struct TinyModel {
  std::string architecture = "llama";
  uint32_t n_layers = 2;
  uint32_t d_model = 32;
  uint32_t d_ff = 64;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t context = 64;
  std::string chat_template;  // empty: none

  static constexpr int64_t kVocabulary = 260;  // <unk>, <s>, </s>, 256 bytes, and a space
  static constexpr int32_t kEndOfSequence = 2;

  struct Tensor {
    std::string name;
    std::vector<int64_t> dims;  // the contiguous one first
  };

  // For a test to spoil: called with everything that is about to be written.
  std::function<void(std::vector<Tensor>&)> edit_tensors;
  std::function<void(const Tensor&, std::span<float>)> edit_values;
  std::function<void(GgufWriter&)> add_fields;
  std::vector<std::string> leave_out;  // metadata keys, without the architecture

  void Write(const std::string& path) const;

 private:
  std::vector<Tensor> Tensors() const;
  void WriteMetadata(GgufWriter& writer) const;
};

inline std::vector<TinyModel::Tensor> TinyModel::Tensors() const {
  const int64_t d = d_model;
  const int64_t kv = d / n_heads * n_kv_heads;
  std::vector<Tensor> all = {{"token_embd.weight", {d, kVocabulary}}, {"output_norm.weight", {d}}};
  for (uint32_t i = 0; i < n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    all.push_back({layer + "attn_norm.weight", {d}});
    all.push_back({layer + "attn_q.weight", {d, d}});
    all.push_back({layer + "attn_k.weight", {d, kv}});
    all.push_back({layer + "attn_v.weight", {d, kv}});
    all.push_back({layer + "attn_output.weight", {d, d}});
    all.push_back({layer + "ffn_norm.weight", {d}});
    all.push_back({layer + "ffn_gate.weight", {d, d_ff}});
    all.push_back({layer + "ffn_up.weight", {d, d_ff}});
    all.push_back({layer + "ffn_down.weight", {d_ff, d}});
  }
  return all;
}

inline void TinyModel::WriteMetadata(GgufWriter& writer) const {
  THAW_CHECK(writer.SetString("general.architecture", architecture));
  const std::pair<const char*, uint32_t> numbers[] = {
      {"block_count", n_layers},         {"embedding_length", d_model},
      {"feed_forward_length", d_ff},     {"context_length", context},
      {"attention.head_count", n_heads}, {"attention.head_count_kv", n_kv_heads},
  };
  const auto is_wanted = [&](const std::string& key) {
    return std::find(leave_out.begin(), leave_out.end(), key) == leave_out.end();
  };
  for (const auto& [key, value] : numbers) {
    if (is_wanted(key)) THAW_CHECK(writer.SetNumber<uint32_t>(architecture + "." + key, value));
  }
  if (is_wanted("attention.layer_norm_rms_epsilon")) {
    THAW_CHECK(writer.SetNumber<float>(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F));
  }
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds = {2, 3, 3};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    kinds.push_back(6);
  }
  tokens.emplace_back("\xe2\x96\x81");
  kinds.push_back(1);
  const std::vector<float> scores(tokens.size(), 0.0F);
  THAW_CHECK(writer.SetString("tokenizer.ggml.model", "llama"));
  THAW_CHECK(writer.SetStrings("tokenizer.ggml.tokens", tokens));
  THAW_CHECK(writer.SetNumbers<float>("tokenizer.ggml.scores", scores));
  THAW_CHECK(writer.SetNumbers<int32_t>("tokenizer.ggml.token_type", kinds));
  THAW_CHECK(writer.SetNumber<uint32_t>("tokenizer.ggml.bos_token_id", 1));
  THAW_CHECK(writer.SetNumber<uint32_t>("tokenizer.ggml.eos_token_id", kEndOfSequence));
  if (!chat_template.empty()) {
    THAW_CHECK(writer.SetString("tokenizer.chat_template", chat_template));
  }
}

inline void TinyModel::Write(const std::string& path) const {
  auto writer = GgufWriter::Create(path);
  THAW_CHECK(writer);
  WriteMetadata(*writer);
  if (add_fields) add_fields(*writer);
  std::vector<Tensor> tensors = Tensors();
  if (edit_tensors) edit_tensors(tensors);
  for (const Tensor& tensor : tensors) {
    THAW_CHECK(writer->AddTensor(tensor.name, ElementType::kF32, tensor.dims));
  }
  std::minstd_rand random(1);
  for (const Tensor& tensor : tensors) {
    int64_t count = 1;
    for (const int64_t n : tensor.dims) count *= n;
    std::vector<float> values(static_cast<size_t>(count));
    // Norms near 1, matrices small enough that nothing saturates.
    const float center = tensor.dims.size() == 1 ? 1.0F : 0.0F;
    for (float& v : values) {
      v = center + 0.5F * (static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    }
    if (edit_values) edit_values(tensor, values);
    THAW_CHECK(writer->AppendData(std::as_bytes(std::span(values))));
  }
  THAW_CHECK(writer->Commit());
}

// A model of one layer and four experts, two a token, of which each has a tensor of its own for
// each of its matrices, of 128 Ki weights.
inline TinyModel TinyExpertsApartModel() {
  TinyModel model;
  model.n_layers = 1;
  model.d_model = 256;
  model.d_ff = 512;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.expert_count", 4));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.expert_used_count", 2));
  };
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    std::erase_if(tensors, [](const auto& t) {
      return t.name.starts_with("blk.0.ffn_") && t.name != "blk.0.ffn_norm.weight";
    });
    tensors.push_back({"blk.0.ffn_gate_inp.weight", {256, 4}});
    for (const std::string expert : {"3", "0", "1", "2"}) {
      tensors.push_back({"blk.0.ffn_gate." + expert + ".weight", {256, 512}});
      tensors.push_back({"blk.0.ffn_up." + expert + ".weight", {256, 512}});
      tensors.push_back({"blk.0.ffn_down." + expert + ".weight", {512, 256}});
    }
  };
  return model;
}

// Sizes of TinyLatentModel: of the latents of queries, and of keys and values; of a key the numbers
// that stay and the last ones, which turn; of a value.
inline constexpr int64_t kTinyQRank = 8;
inline constexpr int64_t kTinyRank = 16;
inline constexpr int64_t kTinyStill = 8;
inline constexpr int64_t kTinyTurned = 4;
inline constexpr int64_t kTinyValue = 16;

// A model with latent attention. Fields get the numbers of `changed`, where 0 leaves one out.
inline TinyModel TinyLatentModel(bool is_absorbed, std::map<std::string, uint32_t> changed = {},
                                 const std::string& architecture = "deepseek2") {
  TinyModel model;
  model.architecture = architecture;
  const std::string suffix = is_absorbed ? "_mla" : "";
  changed.insert({{"attention.q_lora_rank", kTinyQRank},
                  {"attention.kv_lora_rank", kTinyRank},
                  {"attention.key_length" + suffix, kTinyStill + kTinyTurned},
                  {"attention.value_length" + suffix, kTinyValue},
                  {"rope.dimension_count", kTinyTurned}});
  model.add_fields = [=](GgufWriter& writer) {
    for (const auto& [key, value] : changed) {
      if (value != 0) THAW_CHECK(writer.SetNumber<uint32_t>(architecture + "." + key, value));
    }
  };
  model.edit_tensors = [=](std::vector<TinyModel::Tensor>& tensors) {
    const int64_t d = TinyModel().d_model;
    const int64_t n = TinyModel().n_heads;
    std::erase_if(tensors, [](const auto& t) { return t.name.find(".attn_") != t.name.npos; });
    for (uint32_t i = 0; i < TinyModel().n_layers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      tensors.push_back({layer + "attn_norm.weight", {d}});
      tensors.push_back({layer + "attn_q_a.weight", {d, kTinyQRank}});
      tensors.push_back({layer + "attn_q_a_norm.weight", {kTinyQRank}});
      tensors.push_back({layer + "attn_q_b.weight", {kTinyQRank, n * (kTinyStill + kTinyTurned)}});
      tensors.push_back({layer + "attn_kv_a_mqa.weight", {d, kTinyRank + kTinyTurned}});
      tensors.push_back({layer + "attn_kv_a_norm.weight", {kTinyRank}});
      if (is_absorbed) {
        tensors.push_back({layer + "attn_k_b.weight", {kTinyStill, kTinyRank, n}});
        tensors.push_back({layer + "attn_v_b.weight", {kTinyRank, kTinyValue, n}});
      } else {
        tensors.push_back({layer + "attn_kv_b.weight", {kTinyRank, n * (kTinyStill + kTinyValue)}});
      }
      tensors.push_back({layer + "attn_output.weight", {n * kTinyValue, d}});
    }
  };
  return model;
}

// A model of the family kimi-linear, with fields as above: its first layer is of the delta rule
// with factors for each key, its second has latent attention.
inline TinyModel TinyChannelDeltaModel(std::map<std::string, uint32_t> changed = {}) {
  constexpr int64_t kHead = 8;
  constexpr int64_t kTaps = 4;
  changed.insert({{"kda.head_dim", kHead}, {"ssm.conv_kernel", kTaps}});
  TinyModel model = TinyLatentModel(/*is_absorbed=*/true, std::move(changed), "kimi-linear");
  model.leave_out = {"attention.head_count_kv"};
  model.add_fields = [add = model.add_fields](GgufWriter& writer) {
    const std::vector<int32_t> kv_heads = {0, 1};
    add(writer);
    THAW_CHECK(writer.SetNumbers<int32_t>("kimi-linear.attention.head_count_kv", kv_heads));
  };
  model.edit_tensors = [edit = model.edit_tensors](std::vector<TinyModel::Tensor>& tensors) {
    const int64_t d = TinyModel().d_model;
    const int64_t n = TinyModel().n_heads;
    const int64_t inner = n * kHead;
    edit(tensors);
    std::erase_if(tensors, [](const auto& t) { return t.name.starts_with("blk.0.attn_"); });
    tensors.push_back({"blk.0.attn_norm.weight", {d}});
    for (const std::string part : {"q", "k", "v"}) {
      tensors.push_back({"blk.0.attn_" + part + ".weight", {d, inner}});
      tensors.push_back({"blk.0.ssm_conv1d_" + part + ".weight", {kTaps, 1, inner}});
    }
    tensors.push_back({"blk.0.ssm_beta.weight", {d, n}});
    for (const std::string part : {"f", "g"}) {
      tensors.push_back({"blk.0.ssm_" + part + "_a.weight", {d, kHead}});
      tensors.push_back({"blk.0.ssm_" + part + "_b.weight", {kHead, inner}});
    }
    tensors.push_back({"blk.0.ssm_dt.bias", {inner}});
    tensors.push_back({"blk.0.ssm_a", {1, n}});
    tensors.push_back({"blk.0.ssm_norm.weight", {kHead}});
    tensors.push_back({"blk.0.attn_output.weight", {inner, d}});
  };
  return model;
}

// Sizes of TinyStreamsModel: the rank of the low-rank block, and what a layer has of a token.
inline constexpr int64_t kTinyLaurel = 4;
inline constexpr int64_t kTinyLayerWidth = 6;

// A model of four residual streams, which states none of its sizes.
inline TinyModel TinyStreamsModel(uint32_t n_layers = 2) {
  TinyModel model;
  model.architecture = "gemma3n";
  model.n_layers = n_layers;
  model.edit_tensors = [=](std::vector<TinyModel::Tensor>& tensors) {
    const int64_t d = TinyModel().d_model;
    const int64_t head = d / TinyModel().n_heads;
    const int64_t width = n_layers * kTinyLayerWidth;
    tensors.push_back({"altup_proj.weight", {d, d, 3}});
    tensors.push_back({"altup_unembd_proj.weight", {d, d, 3}});
    tensors.push_back({"per_layer_token_embd.weight", {width, TinyModel::kVocabulary}});
    tensors.push_back({"per_layer_model_proj.weight", {d, width}});
    tensors.push_back({"per_layer_proj_norm.weight", {kTinyLayerWidth}});
    for (uint32_t i = 0; i < n_layers; ++i) {
      const auto add = [&](const std::string& part, const std::vector<int64_t>& dims) {
        tensors.push_back({"blk." + std::to_string(i) + "." + part + ".weight", dims});
      };
      for (const char* norm : {"post_attention_norm", "post_ffw_norm", "post_norm",
                               "laurel_post_norm", "altup_router_norm", "altup_correct_scale"}) {
        add(norm, {d});
      }
      add("attn_q_norm", {head});
      add("attn_k_norm", {head});
      add("inp_gate", {d, kTinyLayerWidth});
      add("proj", {kTinyLayerWidth, d});
      add("laurel_l", {d, kTinyLaurel});
      add("laurel_r", {kTinyLaurel, d});
      add("altup_router", {d, 4});
      add("altup_predict_coef", {4, 16});
      add("altup_correct_coef", {4, 4});
    }
  };
  return model;
}

// Of TinyTimeMixModel: numbers of a head, and the rank of what is made of low rank.
inline constexpr int64_t kTinyMixHead = 8;
inline constexpr int64_t kTinyMixRank = 4;

// A model with time mixing. Fields get the numbers of `changed`, where 0 leaves one out.
inline TinyModel TinyTimeMixModel(std::map<std::string, uint32_t> changed = {}) {
  TinyModel model;
  model.architecture = "rwkv7";
  changed.insert({{"wkv.head_size", kTinyMixHead},
                  {"token_shift_count", 2},
                  {"attention.decay_lora_rank", kTinyMixRank},
                  {"attention.iclr_lora_rank", kTinyMixRank},
                  {"attention.value_residual_mix_lora_rank", kTinyMixRank},
                  {"attention.gate_lora_rank", kTinyMixRank}});
  model.add_fields = [=](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("rwkv7.attention.layer_norm_epsilon", 1e-5F));
    for (const auto& [key, value] : changed) {
      if (value != 0) THAW_CHECK(writer.SetNumber<uint32_t>("rwkv7." + key, value));
    }
  };
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    const int64_t d = TinyModel().d_model;
    const int64_t d_ff = TinyModel().d_ff;
    std::erase_if(tensors, [](const auto& t) { return t.name.starts_with("blk."); });
    tensors.push_back({"output_norm.bias", {d}});
    for (const std::string part : {".weight", ".bias"}) {
      tensors.push_back({"token_embd_norm" + part, {d}});
    }
    for (uint32_t i = 0; i < TinyModel().n_layers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      for (const std::string norm : {"attn_norm", "attn_norm_2", "time_mix_ln"}) {
        for (const std::string part : {".weight", ".bias"}) {
          tensors.push_back({layer + norm + part, {d}});
        }
      }
      tensors.push_back({layer + "time_mix_lerp_fused.weight", {d, 1, 1, 6}});
      for (const std::string mixed : {"receptance", "key", "value", "output"}) {
        tensors.push_back({layer + "time_mix_" + mixed + ".weight", {d, d}});
      }
      for (const std::string part : {"w", "a", "v", "g"}) {
        if (part != "g") tensors.push_back({layer + "time_mix_" + part + "0.weight", {d}});
        tensors.push_back({layer + "time_mix_" + part + "1.weight", {d, kTinyMixRank}});
        tensors.push_back({layer + "time_mix_" + part + "2.weight", {kTinyMixRank, d}});
      }
      for (const std::string factors : {"k_k", "k_a", "r_k"}) {
        tensors.push_back({layer + "time_mix_" + factors + ".weight", {d}});
      }
      tensors.push_back({layer + "channel_mix_lerp_k.weight", {d}});
      tensors.push_back({layer + "channel_mix_key.weight", {d, d_ff}});
      tensors.push_back({layer + "channel_mix_value.weight", {d_ff, d}});
    }
  };
  return model;
}

}  // namespace thaw
