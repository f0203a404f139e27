#include "model/config.h"

#include <gmock/gmock.h>

#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The metadata of `model`, written and read back.
Result<ModelConfig> Read(const TinyModel& model) {
  const TemporaryDirectory directory;
  const std::string path = directory.PathOf("config_test.gguf");
  model.Write(path);
  const auto file = GgufFile::Open(path);
  THAW_CHECK(file);
  return ReadModelConfig(*file);
}

std::string ErrorOf(const TinyModel& model) {
  const auto config = Read(model);
  return config ? "no error" : config.error().message;
}

TEST(ModelConfig, ReadsTheShape) {
  const auto config = Read({});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->family->name, "llama");
  EXPECT_EQ(config->n_layers, 2);
  EXPECT_EQ(config->d_model, 32);
  EXPECT_EQ(config->d_ff, 64);
  EXPECT_EQ(config->group(), 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->v_head_dim, 8);
  EXPECT_EQ(config->n_vocab, TinyModel::kVocabulary);
  EXPECT_EQ(config->rope.rope_dim, 8);
  EXPECT_EQ(config->rope.freq_base, 10000);
  EXPECT_EQ(config->rope.scaling.kind, RopeScalingKind::kNone);
}

TEST(ModelConfig, StatedHeadSizesWin) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.attention.key_length", 16));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.attention.value_length", 12));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.rope.dimension_count", 10));
  };
  const auto config = Read(model);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->v_head_dim, 12);
  EXPECT_EQ(config->rope.rope_dim, 10);
}

TEST(ModelConfig, ReadsRopeScaling) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetString("llama.rope.scaling.type", "yarn"));
    THAW_CHECK(writer.SetNumber<float>("llama.rope.scaling.factor", 4));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.rope.scaling.original_context_length", 16));
    THAW_CHECK(writer.SetNumber<float>("llama.rope.freq_base", 5e5F));
  };
  const auto config = Read(model);
  EXPECT_EQ(config->rope.scaling.kind, RopeScalingKind::kYarn);
  EXPECT_EQ(config->rope.scaling.factor, 4);
  EXPECT_EQ(config->rope.scaling.original_context, 16);
  EXPECT_EQ(config->rope.freq_base, 5e5F);
}

TEST(ModelConfig, TheLinearFactorOfEarlierFilesCounts) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("llama.rope.scale_linear", 2));
  };
  EXPECT_EQ(Read(model)->rope.scaling.kind, RopeScalingKind::kLinear);
  EXPECT_EQ(Read(model)->rope.scaling.factor, 2);
}

TEST(ModelConfig, AnArrayOfEqualNumbersIsANumber) {
  TinyModel model;
  model.leave_out = {"attention.head_count_kv"};
  std::vector<int32_t> heads = {2, 2};
  model.add_fields = [&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<int32_t>("llama.attention.head_count_kv", heads));
  };
  EXPECT_EQ(Read(model)->n_kv_heads, 2);
  heads = {2, 1};
  EXPECT_THAT(ErrorOf(model), HasSubstr("differs between layers"));
}

TEST(ModelConfig, NamesAnUnknownArchitectureAndThoseItKnows) {
  TinyModel model;
  model.architecture = "gpt9";
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("'gpt9'"), HasSubstr("llama, qwen2, qwen3")));
}

TEST(ModelConfig, NamesAMissingField) {
  TinyModel model;
  for (const char* key : {"block_count", "embedding_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    model.leave_out = {key};
    EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr(key), HasSubstr("config_test.gguf")));
  }
}

TEST(ModelConfig, WithoutKvHeadsEveryHeadHasItsOwn) {
  TinyModel model;
  model.leave_out = {"attention.head_count_kv"};
  EXPECT_EQ(Read(model)->n_kv_heads, 4);
}

TEST(ModelConfig, RefusesNumbersThatContradictEachOther) {
  TinyModel model;
  model.n_kv_heads = 3;
  EXPECT_THAT(ErrorOf(model), HasSubstr("4 query heads cannot share 3"));
  model = {};
  model.n_layers = 0;
  EXPECT_THAT(ErrorOf(model), HasSubstr("expected 1 to"));
  model = {};
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.rope.dimension_count", 7));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("expected an even number up to the head size 8"));
}

TEST(ModelConfig, RefusesByNameWhatItCannotRun) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.expert_count", 8));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("mixtures of experts"));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetString("llama.rope.scaling.type", "longrope"));
  };
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("'longrope'"), HasSubstr("none, linear, yarn")));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<bool>("llama.attention.causal", false));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("attention.causal"));
}

TEST(ModelConfig, SaysWhenAFileHoldsNoWeights) {
  TinyModel model;
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) { tensors.clear(); };
  EXPECT_THAT(ErrorOf(model), HasSubstr("the file holds no weights"));
}

}  // namespace
}  // namespace thaw
