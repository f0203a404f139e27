#include "model/weights.h"

#include <gmock/gmock.h>

#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Result<ModelDescription> Describe(const TinyModel& model) {
  const TemporaryDirectory directory;
  const std::string path = directory.PathOf("weights_test.gguf");
  model.Write(path);
  const auto file = GgufFile::Open(path);
  THAW_CHECK(file);
  return DescribeModel(*file);
}

std::string ErrorOf(const TinyModel& model) {
  const auto description = Describe(model);
  return description ? "no error" : description.error().message;
}

// A model whose tensor list was changed.
TinyModel Edited(std::function<void(std::vector<TinyModel::Tensor>&)> edit) {
  TinyModel model;
  model.edit_tensors = std::move(edit);
  return model;
}

// The error of a model of which one tensor has other dimensions, or is missing where there are
// none.
std::string ErrorWith(TinyModel model, const std::string& name, const std::vector<int64_t>& dims) {
  model.edit_tensors = [&, edit = model.edit_tensors](auto& tensors) {
    edit(tensors);
    if (dims.empty()) std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
    for (TinyModel::Tensor& tensor : tensors) {
      if (tensor.name == name) tensor.dims = dims;
    }
  };
  return ErrorOf(model);
}

TEST(DescribeModel, FindsEveryRole) {
  const auto model = Describe({});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->weights.layers, SizeIs(2));
  EXPECT_THAT(model->matrices, SizeIs(1 + 2 * 7));
  const LayerWeights& layer = model->weights.layers[1];
  EXPECT_EQ(model->matrices[static_cast<size_t>(layer.k.matrix)].name, "blk.1.attn_k.weight");
  EXPECT_EQ(layer.k.rows, 16);
  EXPECT_EQ(layer.k.cols, 32);
  EXPECT_THAT(layer.k.bias, IsEmpty());
  EXPECT_THAT(layer.q_norm, IsEmpty());
  EXPECT_THAT(layer.ffn_norm->weight, SizeIs(32));
}

const WeightMatrix& EmbeddingOf(const ModelDescription& model) {
  return model.matrices[static_cast<size_t>(model.weights.embedding)];
}

TEST(DescribeModel, WithoutAnOutputMatrixTheEmbeddingServes) {
  const auto tied = Describe({});
  EXPECT_EQ(tied->weights.output.matrix, tied->weights.embedding);
  EXPECT_EQ(EmbeddingOf(*tied).use, MatrixUse::kBoth);
  const auto untied = Describe(Edited([](auto& tensors) {
    tensors.push_back({"output.weight", {32, TinyModel::kVocabulary}});
  }));
  EXPECT_NE(untied->weights.output.matrix, untied->weights.embedding);
  EXPECT_EQ(EmbeddingOf(*untied).use, MatrixUse::kLookedUp);
}

TEST(DescribeModel, SlopesOfHeadsHalveOverTheHeads) {
  TinyModel model;
  model.architecture = "baichuan";
  model.n_layers = 40;
  model.d_model = 36;
  model.n_heads = 6;
  const auto six = Describe(model);
  ASSERT_TRUE(six) << six.error().message;
  EXPECT_THAT(six->weights.layers[39].slopes,
              ElementsAre(0.25F, 0.0625F, 0x1p-6F, 0x1p-8F, 0.5F, 0x1p-3F));
  model.n_layers = 32;
  EXPECT_THAT(Describe(model)->weights.layers[0].slopes, IsEmpty());
}

TEST(DescribeModel, TakesOptionalBiases) {
  const auto model = Describe(Edited([](auto& tensors) {
    tensors.push_back({"blk.0.attn_v.bias", {16}});
    tensors.push_back({"blk.1.ffn_down.bias", {32}});
  }));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->weights.layers[0].v.bias, SizeIs(16));
  EXPECT_THAT(model->weights.layers[1].ffn.down.bias, SizeIs(32));
  EXPECT_THAT(model->weights.layers[1].v.bias, IsEmpty());
}

// Replaces the matrices `parts` of every layer by one, `joined`, of all their rows.
TinyModel Joined(const std::string& architecture, const std::vector<std::string>& parts,
                 const std::string& joined, int64_t rows) {
  TinyModel model = Edited([=](auto& tensors) {
    for (TinyModel::Tensor& tensor : tensors) {
      for (const std::string& part : parts) {
        if (!tensor.name.ends_with(part + ".weight")) continue;
        const std::string prefix = tensor.name.substr(0, tensor.name.find('.', 4) + 1);
        tensor = part == parts.front() ? TinyModel::Tensor{prefix + joined + ".weight", {32, rows}}
                                       : TinyModel::Tensor{"unused", {}};
        break;
      }
    }
    std::erase_if(tensors, [](const TinyModel::Tensor& tensor) { return tensor.name == "unused"; });
  });
  model.architecture = architecture;
  return model;
}

TEST(DescribeModel, SplitsTensorsThatHoldTheRowsOfSeveral) {
  const auto model = Describe(Joined("llama", {"attn_q", "attn_k", "attn_v"}, "attn_qkv", 64));
  ASSERT_TRUE(model) << model.error().message;
  const LayerWeights& layer = model->weights.layers[1];
  const auto matrix = [&](const LinearWeights& weights) -> const WeightMatrix& {
    return model->matrices[static_cast<size_t>(weights.matrix)];
  };
  EXPECT_EQ(matrix(layer.k).name, "blk.1.attn_qkv.weight");
  EXPECT_EQ(matrix(layer.k).rows, 16);
  EXPECT_EQ(matrix(layer.k).offset, matrix(layer.q).offset + 32 * 32 * sizeof(float));
  EXPECT_EQ(matrix(layer.v).offset, matrix(layer.k).offset + 16 * 32 * sizeof(float));

  const auto phi3 = Describe(Joined("phi3", {"ffn_gate", "ffn_up"}, "ffn_up", 128));
  ASSERT_TRUE(phi3) << phi3.error().message;
  const LayerWeights& of_phi3 = phi3->weights.layers[0];
  EXPECT_EQ(of_phi3.ffn.gate.rows, 64);
  EXPECT_EQ(of_phi3.ffn.up.rows, 64);

  EXPECT_THAT(ErrorOf(Joined("phi3", {"ffn_gate", "ffn_up"}, "ffn_up", 100)),
              HasSubstr("its shape is [32, 100], expected [32, 128]"));
}

// Describes a model of which the tensor `name` is frozen, in tiles of so many rows.
Result<ModelDescription> DescribeFrozen(const TinyModel& model, const std::string& name,
                                        int64_t rows_per_tile) {
  const TemporaryDirectory directory;
  model.Write(directory.PathOf("plain.gguf"));
  const auto plain = GgufFile::Open(directory.PathOf("plain.gguf"));
  auto writer = GgufWriter::Create(directory.PathOf("frozen.gguf"), kFrozenAlignment);
  THAW_CHECK(plain && writer && writer->CopyFields(*plain));
  THAW_CHECK(writer->SetNumber<uint32_t>(kFrozenVersionKey, kFrozenVersion));
  std::vector<std::vector<std::byte>> data;
  for (const TensorInfo& tensor : plain->tensors()) {
    std::vector<std::byte>& bytes = data.emplace_back(tensor.bytes);
    if (tensor.name != name) {
      THAW_CHECK(plain->ReadTensor(tensor, 0, bytes));
      THAW_CHECK(writer->AddTensor(tensor.name, tensor.type, tensor.extents()));
      continue;
    }
    FrozenTensor frozen{.dimensions = tensor.n_dims,
                        .cols = tensor.dims[0],
                        .rows = tensor.dims[1],
                        .matrices = tensor.dims[2],
                        .rows_per_stream = rows_per_tile,
                        .streams_per_tile = 1,
                        .tiles = {}};
    const int64_t tiles = frozen.tiles_per_matrix() * frozen.matrices;
    for (auto at = static_cast<uint64_t>(FrozenHeadBytes(tiles)); std::ssize(frozen.tiles) < tiles;
         at += kFrozenAlignment) {
      frozen.tiles.push_back({.offset = at, .bytes = kFrozenAlignment, .hash = 0});
    }
    bytes = FrozenHead(frozen);
    bytes.resize(bytes.size() + static_cast<size_t>(tiles * kFrozenAlignment));
    const std::vector<int64_t> size = {std::ssize(bytes)};
    THAW_CHECK(writer->AddTensor(tensor.name, ElementType::kI8, size));
  }
  for (const auto& bytes : data) THAW_CHECK(writer->AppendData(bytes));
  THAW_CHECK(writer->Commit());
  const auto file = GgufFile::Open(directory.PathOf("frozen.gguf"));
  if (!file) return Fail(file.error());
  return DescribeModel(*file);
}

TEST(DescribeModel, TakesTheTilesOfEachMatrixOfAFrozenTensor) {
  const TinyModel joined = Joined("llama", {"attn_q", "attn_k", "attn_v"}, "attn_qkv", 64);
  const auto model = DescribeFrozen(joined, "blk.1.attn_qkv.weight", 16);
  ASSERT_TRUE(model) << model.error().message;
  const LayerWeights& layer = model->weights.layers[1];
  uint64_t offset = 0;
  for (const auto& [weights, rows] : {std::pair(&layer.q, 32), {&layer.k, 16}, {&layer.v, 16}}) {
    const WeightMatrix& matrix = model->matrices[static_cast<size_t>(weights->matrix)];
    ASSERT_TRUE(matrix.is_frozen());
    EXPECT_EQ(matrix.rows, rows);
    EXPECT_EQ(matrix.frozen->rows, rows);
    EXPECT_EQ(std::ssize(matrix.frozen->tiles), rows / 16);
    if (offset != 0) {
      EXPECT_EQ(matrix.frozen->tiles.front().offset, offset);
    }
    offset = matrix.frozen->tiles.back().offset + kFrozenAlignment;
  }
}

TEST(DescribeModel, RefusesFrozenTilesThatHoldRowsOfTwoMatrices) {
  const TinyModel joined = Joined("llama", {"attn_q", "attn_k", "attn_v"}, "attn_qkv", 64);
  const auto model = DescribeFrozen(joined, "blk.1.attn_qkv.weight", 32);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message,
              AllOf(HasSubstr("frozen.gguf: tensor 'blk.1.attn_qkv.weight': "),
                    HasSubstr("begin at every 32 rows, expected one to begin at row 48,")));
}

TEST(DescribeModel, TakesFrozenMatricesOfEveryStream) {
  const auto model = DescribeFrozen(TinyStreamsModel(), "altup_proj.weight", 16);
  ASSERT_TRUE(model) << model.error().message;
  for (const LinearWeights& inputs : model->weights.stream_inputs) {
    const WeightMatrix& matrix = model->matrices[static_cast<size_t>(inputs.matrix)];
    EXPECT_EQ(matrix.frozen->rows, 32);
    EXPECT_THAT(matrix.frozen->tiles, SizeIs(2));
  }
}

TEST(DescribeModel, ParallelBlocksShareANormWhereThereIsOne) {
  TinyModel model = Edited([](auto& tensors) {
    std::erase_if(tensors, [](const auto& t) { return t.name.ends_with("ffn_norm.weight"); });
  });
  model.architecture = "command-r";
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("command-r.attention.layer_norm_epsilon", 1e-5F));
    THAW_CHECK(writer.SetNumber<float>("command-r.logit_scale", 0.5F));
  };
  const auto description = Describe(model);
  ASSERT_TRUE(description) << description.error().message;
  const LayerWeights& layer = description->weights.layers[0];
  EXPECT_TRUE(description->config.is_parallel);
  EXPECT_EQ(layer.ffn_norm->weight, layer.attention_norm->weight);
}

TEST(DescribeModel, NamesAMissingTensor) {
  for (const char* name : {"blk.1.attn_q.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) {
    const std::string error = ErrorOf(Edited([&](auto& tensors) {
      std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
    }));
    EXPECT_THAT(error,
                AllOf(HasSubstr(name), HasSubstr("missing"), HasSubstr("weights_test.gguf")));
  }
}

TEST(DescribeModel, NamesATensorOfAWrongShape) {
  const std::string error = ErrorOf(Edited([](auto& tensors) {
    for (auto& tensor : tensors) {
      if (tensor.name == "blk.0.attn_q.weight") tensor.dims = {32, 33};
    }
  }));
  EXPECT_THAT(error, AllOf(HasSubstr("'blk.0.attn_q.weight'"), HasSubstr("[32, 33]"),
                           HasSubstr("expected [32, 32]")));
}

TEST(DescribeModel, RefusesATensorItHasNoUseFor) {
  EXPECT_THAT(ErrorOf(Edited([](auto& tensors) {
                tensors.push_back({"blk.0.attn_sinks.weight", {4}});
              })),
              AllOf(HasSubstr("'blk.0.attn_sinks.weight'"), HasSubstr("'llama'")));
}

TEST(DescribeModel, RequiresWhatTheFamilyCannotDoWithout) {
  TinyModel qwen3;
  qwen3.architecture = "qwen3";
  EXPECT_THAT(ErrorOf(qwen3), HasSubstr("'blk.0.attn_q_norm.weight': the tensor is missing"));
  TinyModel qwen2;
  qwen2.architecture = "qwen2";
  EXPECT_THAT(ErrorOf(qwen2), HasSubstr("'blk.0.attn_q.bias': the tensor is missing"));
}

TEST(DescribeModel, FindsWhatLatentAttentionIsMadeOf) {
  const auto absorbed = Describe(TinyLatentModel(/*is_absorbed=*/true));
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  const LayerWeights& layer = absorbed->weights.layers[1];
  ASSERT_TRUE(layer.latent);
  EXPECT_EQ(layer.q.rows, 0);
  EXPECT_EQ(layer.latent->q_absorbed.n_heads, 4);
  EXPECT_EQ(layer.latent->q_absorbed.rows, 4 * kTinyRank);
  EXPECT_EQ(layer.latent->q_absorbed.cols, kTinyStill);
  EXPECT_EQ(layer.latent->v.rows, 4 * kTinyValue);
  EXPECT_EQ(layer.attention_output.cols, 4 * kTinyValue);
  const auto expanded = Describe(TinyLatentModel(/*is_absorbed=*/false));
  ASSERT_TRUE(expanded) << expanded.error().message;
  EXPECT_EQ(expanded->weights.layers[0].latent->kv.rows, 4 * (kTinyStill + kTinyValue));
}

TEST(DescribeModel, RefusesLatentsOfOtherShapes) {
  const auto with = [](const std::string& name, const std::vector<int64_t>& dims) {
    return ErrorWith(TinyLatentModel(/*is_absorbed=*/true), name, dims);
  };
  EXPECT_THAT(with("blk.1.attn_k_b.weight", {8, 16, 3}), HasSubstr("expected [8, 16, 4]"));
  EXPECT_THAT(with("blk.0.attn_v_b.weight", {16, 64}), HasSubstr("expected [16, 16, 4]"));
  EXPECT_THAT(with("blk.0.attn_kv_a_mqa.weight", {32, 21}), HasSubstr("expected [32, 20]"));
  EXPECT_THAT(with("blk.0.attn_kv_a_norm.weight", {}), HasSubstr("is missing"));
  EXPECT_THAT(with("blk.1.attn_k_b.weight", {}),
              AllOf(HasSubstr("'blk.1.attn_k_b.weight'"), HasSubstr("is missing")));
  // Without any the file is one of expanded keys, which states other sizes.
  EXPECT_THAT(with("blk.0.attn_k_b.weight", {}), HasSubstr("attention.key_length"));
}

TEST(DescribeModel, JoinsTheConvolutionsOfQueriesKeysAndValues) {
  TinyModel model = TinyChannelDeltaModel();
  model.edit_values = [](const TinyModel::Tensor& tensor, std::span<float> values) {
    if (tensor.name != "blk.0.ssm_conv1d_k.weight") return;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  };
  const auto description = Describe(model);
  ASSERT_TRUE(description) << description.error().message;
  const LayerWeights& layer = description->weights.layers[0];
  ASSERT_TRUE(layer.recurrent);
  EXPECT_FALSE(layer.latent);
  EXPECT_TRUE(description->weights.layers[1].latent);
  const RecurrentWeights& w = *layer.recurrent;
  ASSERT_THAT(w.convolution, SizeIs(4 * 96));
  EXPECT_EQ(w.convolution[3 * 96 + 32 + 5], 5 * 4 + 3) << "tap 3 of channel 5 of the keys";
  EXPECT_EQ(w.mixed.rows, 0);
  EXPECT_EQ(w.values.rows, 32);
  EXPECT_EQ(w.gate.cols, 8);
  EXPECT_EQ(w.rates.rows, 32);
}

TEST(DescribeModel, RefusesDeltaRulesOfOtherShapes) {
  using Shape = std::vector<int64_t>;
  const auto with = [](const std::string& name, const Shape& dims) {
    return ErrorWith(TinyChannelDeltaModel(), name, dims);
  };
  const std::tuple<std::string, Shape, std::string> cases[] = {
      {"attn_q.weight", {32, 24}, "[32, 32]"},
      {"attn_k.weight", {32, 24}, "[32, 32]"},
      {"attn_v.weight", {32, 24}, "[32, 32]"},
      {"ssm_conv1d_q.weight", {4, 32}, "[4, 1, 32]"},
      {"ssm_conv1d_k.weight", {3, 1, 32}, "[4, 1, 32]"},
      {"ssm_conv1d_v.weight", {4, 1, 96}, "[4, 1, 32]"},
      {"ssm_beta.weight", {32, 8}, "[32, 4]"},
      {"ssm_f_a.weight", {32, 4}, "[32, 8]"},
      {"ssm_f_b.weight", {8, 4}, "[8, 32]"},
      {"ssm_g_a.weight", {32, 4}, "[32, 8]"},
      {"ssm_g_b.weight", {4, 32}, "[8, 32]"},
      {"ssm_dt.bias", {4}, "[32]"},
      {"ssm_a", {4}, "[1, 4]"},
      {"ssm_norm.weight", {32}, "[8]"},
      {"attn_output.weight", {64, 32}, "[32, 32]"},
  };
  for (const auto& [part, other, expected] : cases) {
    const std::string name = "blk.0." + part;
    EXPECT_THAT(with(name, other),
                AllOf(HasSubstr("'" + name + "'"), HasSubstr("expected " + expected)));
    EXPECT_THAT(with(name, {}), AllOf(HasSubstr("'" + name + "'"), HasSubstr("is missing")));
  }
}

TEST(DescribeModel, FindsWhatSeveralStreamsAreMixedBy) {
  const auto model = Describe(TinyStreamsModel());
  ASSERT_TRUE(model) << model.error().message;
  const auto matrix = [&](const LinearWeights& weights) -> const WeightMatrix& {
    return model->matrices[static_cast<size_t>(weights.matrix)];
  };
  const std::vector<LinearWeights>& inputs = model->weights.stream_inputs;
  ASSERT_THAT(inputs, SizeIs(3));
  EXPECT_EQ(matrix(inputs[2]).name, "altup_proj.weight");
  EXPECT_EQ(matrix(inputs[2]).rows, 32);
  EXPECT_EQ(matrix(inputs[2]).offset, matrix(inputs[1]).offset + 32 * 32 * sizeof(float));
  // What only logits need comes after all layers.
  const std::vector<LinearWeights>& outputs = model->weights.stream_outputs;
  ASSERT_THAT(outputs, SizeIs(3));
  EXPECT_GT(outputs[0].matrix, model->weights.layers[1].embedding_output.matrix);
  EXPECT_LT(outputs[2].matrix, model->weights.output.matrix);
  const LayerWeights& layer = model->weights.layers[1];
  EXPECT_THAT(layer.streams->predict, SizeIs(4 * 4 * 4));
  EXPECT_EQ(layer.laurel->down.rows, kTinyLaurel);
  EXPECT_EQ(layer.embedding_gate.rows, kTinyLayerWidth);
}

TEST(DescribeModel, RefusesStreamsOfOtherShapes) {
  const auto with = [](const std::string& name, const std::vector<int64_t>& dims) {
    return ErrorWith(TinyStreamsModel(), name, dims);
  };
  EXPECT_THAT(with("altup_proj.weight", {32, 32, 2}), HasSubstr("expected [32, 32, 3]"));
  EXPECT_THAT(with("altup_unembd_proj.weight", {32, 96}), HasSubstr("expected [32, 32, 3]"));
  EXPECT_THAT(with("blk.1.altup_router.weight", {32, 3}), HasSubstr("expected [32, 4]"));
  EXPECT_THAT(with("blk.1.altup_predict_coef.weight", {4, 4}), HasSubstr("expected [4, 16]"));
  EXPECT_THAT(with("blk.1.laurel_l.weight", {32, 5}), HasSubstr("expected [32, 4]"));
  EXPECT_THAT(with("blk.0.proj.weight", {5, 32}), HasSubstr("expected [6, 32]"));
  for (const char* name :
       {"altup_proj.weight", "altup_unembd_proj.weight", "blk.0.altup_correct_scale.weight",
        "blk.0.altup_correct_coef.weight", "blk.1.altup_router_norm.weight",
        "blk.0.laurel_l.weight", "blk.1.laurel_r.weight", "blk.1.laurel_post_norm.weight",
        "per_layer_proj_norm.weight", "per_layer_token_embd.weight", "blk.1.attn_v.weight"}) {
    EXPECT_THAT(with(name, {}), AllOf(HasSubstr(name), HasSubstr("is missing")));
  }
}

TEST(DescribeModel, FindsWhatTimeMixingIsMadeOf) {
  const auto model = Describe(TinyTimeMixModel());
  ASSERT_TRUE(model) << model.error().message;
  const LayerWeights& first = model->weights.layers[0];
  const LayerWeights& second = model->weights.layers[1];
  ASSERT_TRUE(first.time_mix && second.time_mix);
  EXPECT_FALSE(first.recurrent);
  EXPECT_THAT(second.time_mix->shares, SizeIs(kShiftedInputs * 32));
  EXPECT_THAT(second.ffn_shares, SizeIs(32));
  EXPECT_EQ(second.time_mix->decay.down.rows, kTinyMixRank);
  EXPECT_THAT(second.time_mix->decay.up.bias, SizeIs(32));
  EXPECT_THAT(second.time_mix->gate.up.bias, IsEmpty());
  EXPECT_THAT(second.time_mix->value.up.bias, SizeIs(32));
  EXPECT_EQ(first.time_mix->value.up.rows, 0) << "its values have none before them";
  EXPECT_EQ(second.ffn.gate.rows, 64);
  EXPECT_EQ(second.ffn.down.cols, 64);
}

TEST(DescribeModel, TheFirstLayersShareOfValuesMayBeMissing) {
  TinyModel model = TinyTimeMixModel();
  model.edit_tensors = [edit = model.edit_tensors](auto& tensors) {
    edit(tensors);
    std::erase_if(tensors, [](const TinyModel::Tensor& tensor) {
      return tensor.name.starts_with("blk.0.time_mix_v") && tensor.name.ends_with("weight") &&
             tensor.name != "blk.0.time_mix_value.weight";
    });
  };
  EXPECT_EQ(ErrorOf(model), "no error");
}

TEST(DescribeModel, RefusesTimeMixingOfOtherShapes) {
  const auto with = [](const std::string& name, const std::vector<int64_t>& dims) {
    return ErrorWith(TinyTimeMixModel(), name, dims);
  };
  EXPECT_THAT(with("blk.0.time_mix_lerp_fused.weight", {32, 1, 1, 5}),
              HasSubstr("expected [32, 1, 1, 6]"));
  EXPECT_THAT(with("blk.1.time_mix_w1.weight", {32, 5}), HasSubstr("expected [32, 4]"));
  EXPECT_THAT(with("blk.1.time_mix_v2.weight", {5, 32}), HasSubstr("expected [4, 32]"));
  EXPECT_THAT(with("blk.0.channel_mix_key.weight", {32, 32}), HasSubstr("expected [32, 64]"));
  for (const char* name :
       {"blk.0.time_mix_receptance.weight", "blk.1.time_mix_v0.weight", "blk.1.time_mix_a0.weight",
        "blk.0.time_mix_g2.weight", "blk.0.time_mix_r_k.weight", "blk.1.time_mix_ln.bias",
        "blk.1.channel_mix_lerp_k.weight", "blk.0.attn_norm_2.bias", "token_embd_norm.bias"}) {
    EXPECT_THAT(with(name, {}), AllOf(HasSubstr(name), HasSubstr("is missing")));
  }
}

TEST(DescribeModel, ReadsTheFrequencyFactors) {
  const auto model = Describe(Edited([](auto& tensors) {
    tensors.push_back({"rope_freqs.weight", {4}});
  }));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->config.ropes.front().frequency_factors, SizeIs(4));
}

TEST(DescribeModel, CountsTheVectorsItHolds) {
  EXPECT_EQ(Describe({})->vector_bytes, (1 + 2 * 2) * 32 * sizeof(float));
}

}  // namespace
}  // namespace thaw
