#include "model/config.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_EQ(config->layers[0].d_ff, 64);
  EXPECT_EQ(config->layers[0].heads.group(), 2);
  EXPECT_EQ(config->layers[0].heads.size, 8);
  EXPECT_EQ(config->layers[0].heads.v_size, 8);
  EXPECT_EQ(config->n_vocab, TinyModel::kVocabulary);
  EXPECT_EQ(config->ropes.front().rope_dim, 8);
  EXPECT_EQ(config->ropes.front().freq_base, 10000);
  EXPECT_EQ(config->ropes.front().scaling.kind, RopeScalingKind::kNone);
}

TEST(ModelConfig, StatedHeadSizesWin) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.attention.key_length", 16));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.attention.value_length", 12));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.rope.dimension_count", 10));
  };
  const auto config = Read(model);
  EXPECT_EQ(config->layers[0].heads.size, 16);
  EXPECT_EQ(config->layers[0].heads.v_size, 12);
  EXPECT_EQ(config->ropes.front().rope_dim, 10);
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
  EXPECT_EQ(config->ropes.front().scaling.kind, RopeScalingKind::kYarn);
  EXPECT_EQ(config->ropes.front().scaling.factor, 4);
  EXPECT_EQ(config->ropes.front().scaling.original_context, 16);
  EXPECT_EQ(config->ropes.front().freq_base, 5e5F);
}

TEST(ModelConfig, TheLinearFactorOfEarlierFilesCounts) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("llama.rope.scale_linear", 2));
  };
  EXPECT_EQ(Read(model)->ropes.front().scaling.kind, RopeScalingKind::kLinear);
  EXPECT_EQ(Read(model)->ropes.front().scaling.factor, 2);
}

TEST(ModelConfig, AnArrayOfEqualNumbersIsANumber) {
  TinyModel model;
  std::vector<int32_t> sizes = {8, 8};
  model.add_fields = [&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<int32_t>("llama.attention.key_length", sizes));
  };
  EXPECT_EQ(Read(model)->layers[0].heads.size, 8);
  sizes = {8, 16};
  EXPECT_THAT(ErrorOf(model), HasSubstr("differs between layers"));
}

TEST(ModelConfig, ReadsHeadsAndWidthsOfEachLayer) {
  TinyModel model;
  model.leave_out = {"attention.head_count_kv", "feed_forward_length"};
  std::vector<int32_t> heads = {2, 1};
  model.add_fields = [&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<int32_t>("llama.attention.head_count_kv", heads));
    THAW_CHECK(writer.SetNumbers<int32_t>("llama.feed_forward_length", {{24, 40}}));
  };
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].heads.n_kv, 2);
  EXPECT_EQ(config->layers[1].heads.n_kv, 1);
  EXPECT_EQ(config->layers[0].d_ff, 24);
  EXPECT_EQ(config->widest_block(), 40);
  heads = {2, 0};
  EXPECT_THAT(ErrorOf(model), HasSubstr("'llama.attention.head_count_kv' has 0, expected 1 to"));
  heads = {2};
  EXPECT_THAT(ErrorOf(model), HasSubstr("has 1 elements, expected one a layer: 2"));
}

TEST(ModelConfig, NamesAnUnknownArchitectureAndThoseItKnows) {
  TinyModel model;
  model.architecture = "gpt9";
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("'gpt9'"), HasSubstr("gemma2, gemma3")));
}

// A model of six layers of a family that has windows of 16 positions.
TinyModel Windowed(const std::string& architecture, const char* epsilon,
                   std::function<void(GgufWriter&)> more = {}) {
  TinyModel model;
  model.architecture = architecture;
  model.n_layers = 6;
  model.leave_out = {"attention.layer_norm_rms_epsilon"};
  model.add_fields = [=](GgufWriter& writer) {
    const std::string prefix = architecture + ".attention.";
    THAW_CHECK(writer.SetNumber<float>(prefix + epsilon, 1e-5F));
    THAW_CHECK(writer.SetNumber<uint32_t>(prefix + "sliding_window", 16));
    if (more) more(writer);
  };
  return model;
}

std::vector<int64_t> WindowsOf(const ModelConfig& config) {
  std::vector<int64_t> windows;
  for (const LayerConfig& layer : config.layers) windows.push_back(layer.window.size);
  return windows;
}

std::vector<int> RopesOf(const ModelConfig& config) {
  std::vector<int> ropes;
  for (const LayerConfig& layer : config.layers) ropes.push_back(layer.rope);
  return ropes;
}

TEST(ModelConfig, TheLastLayerOfAPeriodSeesEverything) {
  const auto gemma2 = Read(Windowed("gemma2", "layer_norm_rms_epsilon"));
  ASSERT_TRUE(gemma2) << gemma2.error().message;
  EXPECT_THAT(WindowsOf(*gemma2), ElementsAre(16, 0, 16, 0, 16, 0));
  EXPECT_EQ(gemma2->attention_soft_cap, 50);
  EXPECT_EQ(gemma2->final_soft_cap, 30);
  EXPECT_FLOAT_EQ(gemma2->embedding_scale, std::sqrt(32.0F));

  const auto cohere2 = Read(Windowed("cohere2", "layer_norm_epsilon", [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("cohere2.logit_scale", 0.5F));
  }));
  ASSERT_TRUE(cohere2) << cohere2.error().message;
  EXPECT_THAT(WindowsOf(*cohere2), ElementsAre(16, 16, 16, 0, 16, 16));
  EXPECT_THAT(RopesOf(*cohere2), ElementsAre(1, 1, 1, kNoRope, 1, 1));
}

TEST(ModelConfig, LayersThatTurnSeeChunksUnlessTheFileSaysThereAreNone) {
  TinyModel model;
  model.architecture = "llama4";
  model.n_layers = 6;
  const auto chunks = Read(model);
  ASSERT_TRUE(chunks) << chunks.error().message;
  EXPECT_THAT(WindowsOf(*chunks), ElementsAre(8192, 8192, 8192, 0, 8192, 8192));
  EXPECT_TRUE(chunks->layers[0].window.is_chunk);
  EXPECT_THAT(RopesOf(*chunks), ElementsAre(0, 0, 0, kNoRope, 0, 0));
  EXPECT_TRUE(chunks->layers[3].has_temperature);

  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama4.attention.sliding_window", 0));
  };
  const auto none = Read(model);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_THAT(WindowsOf(*none), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(RopesOf(*none), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(none->layers[3].has_temperature);
}

TEST(ModelConfig, WindowedLayersHaveARopeOfTheirOwn) {
  const auto config = Read(Windowed("gemma3", "layer_norm_rms_epsilon", [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("gemma3.rope.freq_base", 1e6F));
    THAW_CHECK(writer.SetNumber<float>("gemma3.rope.scaling.factor", 8));
    THAW_CHECK(writer.SetString("gemma3.rope.scaling.type", "linear"));
  }));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(RopesOf(*config), ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_EQ(config->ropes[0].freq_base, 1e6F);
  EXPECT_EQ(config->ropes[0].scaling.factor, 8);
  EXPECT_EQ(config->ropes[1].freq_base, 10000);
  EXPECT_EQ(config->ropes[1].scaling.factor, 1);
}

TEST(ModelConfig, AFieldSaysWhichLayersHaveAWindow) {
  const auto with_pattern = [](std::vector<int32_t> pattern) {
    return Windowed("gemma2", "layer_norm_rms_epsilon", [=](GgufWriter& writer) {
      THAW_CHECK(writer.SetNumbers<int32_t>("gemma2.attention.sliding_window_pattern", pattern));
    });
  };
  EXPECT_THAT(WindowsOf(*Read(with_pattern({1, 1, 0, 0, 1, 0}))), ElementsAre(16, 16, 0, 0, 16, 0));
  EXPECT_THAT(ErrorOf(with_pattern({1, 0})), HasSubstr("has 2 elements, expected one a layer: 6"));
}

TEST(ModelConfig, LayersWithoutRope) {
  TinyModel model;
  model.architecture = "smollm3";
  model.n_layers = 8;
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(RopesOf(*config), ElementsAre(0, 0, 0, kNoRope, 0, 0, 0, kNoRope));
}

TEST(ModelConfig, ReadsScales) {
  TinyModel model;
  model.architecture = "granite";
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("granite.logit_scale", 8));
    THAW_CHECK(writer.SetNumber<float>("granite.residual_scale", 0.25F));
    THAW_CHECK(writer.SetNumber<float>("granite.embedding_scale", 12));
    THAW_CHECK(writer.SetNumber<float>("granite.attention.scale", 0.5F));
  };
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->logit_scale, 1 / 8.0F);
  EXPECT_EQ(config->residual_scale, 0.25F);
  EXPECT_EQ(config->embedding_scale, 12);
  EXPECT_EQ(config->attention_scale, 0.5F);
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<float>("granite.logit_scale", -1));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("expected a number above 0"));
}

TEST(ModelConfig, WantsTheScalesOfFamiliesThatAreNothingWithoutThem) {
  TinyModel model;
  model.architecture = "minicpm";
  EXPECT_THAT(ErrorOf(model), HasSubstr("minicpm.embedding_scale"));
  model.architecture = "granite";
  EXPECT_THAT(ErrorOf(model), HasSubstr("granite.logit_scale"));
}

TEST(ModelConfig, RefusesSizesOfAFamilyThatItCannotRun) {
  TinyModel model;
  model.architecture = "baichuan";
  EXPECT_THAT(ErrorOf(model),
              HasSubstr("'baichuan' with 2 layers is not supported; with 32 or 40 it is"));
}

TEST(ModelConfig, SlopesTakeThePlaceOfRopes) {
  TinyModel model;
  model.architecture = "baichuan";
  model.n_layers = 40;
  const auto baichuan = Read(model);
  ASSERT_TRUE(baichuan) << baichuan.error().message;
  EXPECT_EQ(baichuan->slope_bias, 8);
  EXPECT_THAT(RopesOf(*baichuan), Each(kNoRope));
  model.n_layers = 32;
  EXPECT_EQ(Read(model)->slope_bias, 0);
  EXPECT_THAT(RopesOf(*Read(model)), Each(0));
}

TEST(ModelConfig, WantsTheSlopesThatAFamilyDoesNotImply) {
  TinyModel model;
  model.architecture = "mpt";
  const auto with = [&]<typename Number>(Number bias) {
    model.add_fields = [bias](GgufWriter& writer) {
      THAW_CHECK(writer.SetNumber<float>("mpt.attention.layer_norm_epsilon", 1e-5F));
      if (bias != 0) THAW_CHECK(writer.SetNumber<Number>("mpt.attention.max_alibi_bias", bias));
    };
    return ErrorOf(model);
  };
  EXPECT_EQ(with(4.0F), "no error");
  EXPECT_EQ(Read(model)->slope_bias, 4);
  EXPECT_THAT(with(0.0F), HasSubstr("mpt.attention.max_alibi_bias"));
  EXPECT_THAT(with(-1.0F), HasSubstr("is -1, expected a number above 0"));
  EXPECT_THAT(with(true), HasSubstr("mpt.attention.max_alibi_bias"));
}

TEST(ModelConfig, ReadsTheNumbersOfAnActivationLayerByLayer) {
  TinyModel model;
  model.architecture = "apertus";
  std::vector<float> alpha_n = {0, 1};
  model.add_fields = [&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<float>("xielu.alpha_n", alpha_n));
    THAW_CHECK(writer.SetNumber<float>("xielu.alpha_p", 0));
    THAW_CHECK(writer.SetNumbers<float>("xielu.beta", std::vector<float>{0.5F, 0.25F}));
    THAW_CHECK(writer.SetNumber<float>("xielu.eps", -1e-6F));
  };
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  const Activation& first = config->layers[0].activation;
  EXPECT_EQ(first.f, Nonlinearity::kXielu);
  EXPECT_FLOAT_EQ(first.alpha_n, 0.5F + std::log(2.0F));
  EXPECT_FLOAT_EQ(first.alpha_p, std::log(2.0F));
  EXPECT_EQ(first.epsilon, -1e-6F);
  EXPECT_EQ(config->layers[1].activation.beta, 0.25F);
  EXPECT_FLOAT_EQ(config->layers[1].activation.alpha_n, 0.25F + std::log(1 + std::exp(1.0F)));
  alpha_n = {1, 2, 3};
  EXPECT_THAT(ErrorOf(model), HasSubstr("'xielu.alpha_n' has 3 elements, expected one a layer: 2"));
  alpha_n = {1, std::nanf("")};
  EXPECT_THAT(ErrorOf(model), HasSubstr("'xielu.alpha_n' has nan, expected finite numbers"));
  model.add_fields = {};
  EXPECT_THAT(ErrorOf(model), HasSubstr("xielu.alpha_n"));
}

TEST(ModelConfig, AFileMayStateTheNonlinearity) {
  TinyModel model;
  model.architecture = "bitnet";
  EXPECT_EQ(Read(model)->layers[0].activation.f, Nonlinearity::kSilu);
  const auto with = [&](const char* name) {
    model.add_fields = [name](GgufWriter& writer) {
      THAW_CHECK(writer.SetString("bitnet.hidden_activation", name));
    };
    return ErrorOf(model);
  };
  EXPECT_EQ(with("relu2"), "no error");
  EXPECT_EQ(Read(model)->layers[0].activation.f, Nonlinearity::kReluSquared);
  EXPECT_THAT(with("tanh"), HasSubstr("'bitnet.hidden_activation' is 'tanh'; supported are"));
}

// A model of two layers of step35, the second of which sees a window of 16 positions.
TinyModel StatedWindows(std::function<void(GgufWriter&)> more = {}) {
  TinyModel model;
  model.architecture = "step35";
  model.add_fields = [=](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("step35.attention.sliding_window", 16));
    THAW_CHECK(writer.SetNumbers<int32_t>("step35.attention.sliding_window_pattern",
                                          std::vector<int32_t>{0, 1}));
    if (more) more(writer);
  };
  return model;
}

TEST(ModelConfig, LayersThatSeeEverythingMayTurnHalfOfWhatTheOthersDo) {
  const auto config = Read(StatedWindows());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(WindowsOf(*config), ElementsAre(0, 16));
  EXPECT_THAT(RopesOf(*config), ElementsAre(0, 1));
  EXPECT_EQ(config->ropes[0].rope_dim, 4);
  EXPECT_EQ(config->ropes[1].rope_dim, 8);
  EXPECT_THAT(ErrorOf(StatedWindows([](GgufWriter& writer) {
                THAW_CHECK(writer.SetNumber<uint32_t>("step35.rope.dimension_count", 6));
              })),
              HasSubstr("'step35.rope.dimension_count' is 6, expected a multiple of 4"));
}

TEST(ModelConfig, WantsTheWindowsThatAFamilyDoesNotImply) {
  TinyModel model = StatedWindows();
  model.add_fields = {};
  EXPECT_THAT(ErrorOf(model), HasSubstr("step35.attention.sliding_window"));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("step35.attention.sliding_window", 16));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("step35.attention.sliding_window_pattern"));
}

// Four layers of gemma4, of which the first and the third have a window and smaller heads.
TinyModel Sharing(uint32_t n_shared, std::function<void(GgufWriter&)> more = {}) {
  TinyModel model;
  model.architecture = "gemma4";
  model.n_layers = 4;
  model.add_fields = [=](GgufWriter& writer) {
    const std::string prefix = "gemma4.attention.";
    THAW_CHECK(writer.SetNumber<uint32_t>(prefix + "sliding_window", 16));
    THAW_CHECK(writer.SetNumbers<int32_t>(prefix + "sliding_window_pattern",
                                          std::vector<int32_t>{1, 0, 1, 0}));
    THAW_CHECK(writer.SetNumber<uint32_t>(prefix + "key_length_swa", 6));
    THAW_CHECK(writer.SetNumber<uint32_t>(prefix + "value_length_swa", 6));
    THAW_CHECK(writer.SetNumber<uint32_t>(prefix + "shared_kv_layers", n_shared));
    if (more) more(writer);
  };
  return model;
}

TinyModel WithTurning(uint32_t rope_dim) {
  return Sharing(2, [=](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("gemma4.rope.dimension_count_swa", rope_dim));
  });
}

TEST(ModelConfig, WindowedLayersMayHaveHeadsOfTheirOwnSize) {
  const auto config = Read(WithTurning(4));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].heads.size, 6);
  EXPECT_EQ(config->layers[1].heads.size, 8);
  EXPECT_EQ(config->ropes[0].rope_dim, 8);
  EXPECT_EQ(config->ropes[1].rope_dim, 4);
  EXPECT_EQ(config->attention_scale, 1);
  EXPECT_THAT(ErrorOf(WithTurning(8)),
              HasSubstr("'gemma4.rope.dimension_count_swa' is 8, expected an even number up to the "
                        "head size 6"));
}

TEST(ModelConfig, LayersSeeKeysAndValuesOfTheLastOneThatSeesAsFar) {
  const auto config = Read(WithTurning(6));
  ASSERT_TRUE(config) << config.error().message;
  std::vector<int64_t> seen;
  for (const LayerConfig& layer : config->layers) seen.push_back(layer.kv_layer);
  EXPECT_THAT(seen, ElementsAre(-1, -1, 0, 1));
  const auto with_six = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("gemma4.rope.dimension_count_swa", 6));
  };
  EXPECT_THAT(ErrorOf(Sharing(4, with_six)), HasSubstr("is 4, expected less than the 4 layers"));
  EXPECT_THAT(ErrorOf(Sharing(3, with_six)),
              HasSubstr("no layer before has the heads and the window of 1"));
}

TEST(ModelConfig, SizesOfStreamsAreThoseOfTensorsWhereNoFieldStatesThem) {
  TinyModel model = TinyStreamsModel();
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_streams, 4);
  EXPECT_EQ(config->laurel_rank, kTinyLaurel);
  EXPECT_EQ(config->layer_embedding, kTinyLayerWidth);
  EXPECT_EQ(config->final_soft_cap, 30);
  EXPECT_EQ(config->attention_scale, 1);
  EXPECT_THAT(WindowsOf(*config), ElementsAre(512, 512));
  EXPECT_EQ(config->ropes[1].freq_base, 10000);
  const auto with = [&](const std::string& key, uint32_t value) {
    model.add_fields = [=](GgufWriter& writer) {
      THAW_CHECK(writer.SetNumber<uint32_t>("gemma3n." + key, value));
    };
    return model;
  };
  EXPECT_EQ(Read(with("altup.num_inputs", 3))->n_streams, 3);
  EXPECT_EQ(Read(with("embedding_length_per_layer_input", 5))->layer_embedding, 5);
  EXPECT_THAT(ErrorOf(with("altup.num_inputs", 9)), HasSubstr("num_inputs' is 9, expected 1 to 8"));
  EXPECT_THAT(ErrorOf(with("altup.num_inputs", 1)), HasSubstr("num_inputs' is 1, expected 2 to 8"));
  EXPECT_THAT(ErrorOf(with("altup.active_idx", 1)),
              HasSubstr("'gemma3n.altup.active_idx' is 1; only 0 is supported"));
}

TEST(ModelConfig, GatesOfTheFirstLayersAreCutWhereTheFileSaysNothing) {
  TinyModel model = TinyStreamsModel(/*n_layers=*/12);
  const auto cut = [](const ModelConfig& config) {
    std::vector<float> cutoffs;
    for (const LayerConfig& layer : config.layers) cutoffs.push_back(layer.gate_cutoff);
    return cutoffs;
  };
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::vector<float> expected(12, 1.6448536F);
  expected[10] = expected[11] = kNone;
  EXPECT_EQ(cut(*Read(model)), expected);
  std::vector<float> stated(12, kNone);
  stated[3] = 0.25F;
  model.add_fields = [&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<float>("gemma3n.activation_sparsity_scale", stated));
  };
  EXPECT_EQ(cut(*Read(model)), stated);
  for (const float bad : {-kNone, std::numeric_limits<float>::quiet_NaN()}) {
    stated[3] = bad;
    EXPECT_THAT(ErrorOf(model), HasSubstr("expected finite numbers or -inf"));
  }
  stated.pop_back();
  EXPECT_THAT(ErrorOf(model), HasSubstr("has 11 elements, expected one a layer: 12"));
}

TEST(ModelConfig, LayersAfterThoseThatHaveKeysOfTheirOwnShareThem) {
  TinyModel model = TinyStreamsModel(/*n_layers=*/25);
  const auto shared = [&] {
    const auto config = Read(model);
    std::vector<int64_t> seen;
    for (size_t i = 18; i < 25; ++i) seen.push_back(config->layers[i].kv_layer);
    return seen;
  };
  EXPECT_THAT(shared(), ElementsAre(-1, -1, 18, 18, 18, 18, 19));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("gemma3n.attention.shared_kv_layers", 1));
  };
  EXPECT_THAT(shared(), ElementsAre(-1, -1, -1, -1, -1, -1, 19));
}

TEST(ModelConfig, BoundsOfSiluDifferFromLayerToLayer) {
  std::vector<float> bounds = {0, 0.5F};
  const TinyModel model = StatedWindows([&](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumbers<float>("step35.swiglu_clamp_shexp", bounds));
    THAW_CHECK(writer.SetNumber<float>("step35.swiglu_clamp_exp", 7));
  });
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].activation.f, Nonlinearity::kSilu);
  EXPECT_EQ(config->layers[1].activation.f, Nonlinearity::kBoundedSilu);
  EXPECT_EQ(config->layers[1].activation.bound, 0.5F);
  EXPECT_EQ(config->layers[0].expert_activation.bound, 7);
  bounds = {1};
  EXPECT_THAT(ErrorOf(model), HasSubstr("swiglu_clamp_shexp' has 1 elements"));
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
  EXPECT_EQ(Read(model)->layers[0].heads.n_kv, 4);
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
    THAW_CHECK(writer.SetString("llama.rope.scaling.type", "longrope"));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("'rope_factors_long.weight' is missing"));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetString("llama.rope.scaling.type", "dynamic"));
  };
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("'dynamic'"), HasSubstr("none, linear, yarn")));
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<bool>("llama.attention.causal", false));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("attention.causal"));
}

TEST(ModelConfig, RefusesExpertsThatContradictThemselves) {
  using Edit = std::vector<TinyModel::Tensor>;
  TinyModel model;
  const auto with = [&](std::vector<std::pair<const char*, uint32_t>> fields) {
    model.add_fields = [fields](GgufWriter& writer) {
      for (const auto& [name, number] : fields) {
        THAW_CHECK(writer.SetNumber<uint32_t>(name, number));
      }
    };
    return ErrorOf(model);
  };
  // Without a router the layers are dense.
  EXPECT_EQ(with({{"llama.expert_count", 8}}), "no error");
  model.edit_tensors = [](Edit& tensors) {
    TinyModel::Tensor router = tensors.front();
    router.name = "blk.0.ffn_gate_inp.weight";
    tensors.push_back(router);
  };
  EXPECT_THAT(with({{"llama.expert_count", 8}}), HasSubstr("llama.expert_used_count"));
  EXPECT_THAT(with({{"llama.expert_count", 8}, {"llama.expert_used_count", 9}}),
              HasSubstr("is 9, expected 1 to 8"));
  EXPECT_THAT(with({{"llama.expert_count", 8}, {"llama.expert_used_count", 2}}),
              HasSubstr("'blk.0.ffn_up_exps.weight' is missing"));
  EXPECT_THAT(with({{"llama.expert_count", 8},
                    {"llama.expert_used_count", 2},
                    {"llama.expert_feed_forward_length", 32},
                    {"llama.expert_gating_func", 9}}),
              HasSubstr("supported are: 1 (softmax)"));
  EXPECT_THAT(with({{"llama.expert_count", 8},
                    {"llama.expert_used_count", 2},
                    {"llama.expert_feed_forward_length", 32},
                    {"llama.expert_group_count", 3}}),
              HasSubstr("expected a divisor of 8"));
  EXPECT_THAT(with({{"llama.expert_count", 8},
                    {"llama.expert_used_count", 5},
                    {"llama.expert_feed_forward_length", 32},
                    {"llama.expert_group_count", 4},
                    {"llama.expert_group_used_count", 2}}),
              HasSubstr("hold fewer than 5 experts"));
}

TEST(ModelConfig, ABiasOfTheChoiceTellsTheGatingWhereTheFileDoesNot) {
  const auto gating = [](TinyModel model, bool has_bias, uint32_t stated = 0) {
    model.edit_tensors = [=, edit = model.edit_tensors](std::vector<TinyModel::Tensor>& tensors) {
      if (edit) edit(tensors);
      tensors.push_back({"blk.1.ffn_gate_inp.weight", {32, 4}});
      if (has_bias) tensors.push_back({"blk.1.exp_probs_b.bias", {4}});
    };
    model.add_fields = [=, name = model.architecture, add = model.add_fields](GgufWriter& writer) {
      if (add) add(writer);
      THAW_CHECK(writer.SetNumber<uint32_t>(name + ".expert_count", 4));
      THAW_CHECK(writer.SetNumber<uint32_t>(name + ".expert_used_count", 2));
      THAW_CHECK(writer.SetNumber<uint32_t>(name + ".expert_feed_forward_length", 8));
      if (stated == 0) return;
      THAW_CHECK(writer.SetNumber<uint32_t>(name + ".expert_gating_func", stated));
    };
    const auto config = Read(model);
    THAW_CHECK(config);
    return config->experts.gating;
  };
  const TinyModel deepseek2 = TinyLatentModel(/*is_absorbed=*/true);
  EXPECT_EQ(gating(deepseek2, /*has_bias=*/false), Gating::kSoftmax);  // DeepSeek-V2
  EXPECT_EQ(gating(deepseek2, /*has_bias=*/true), Gating::kSigmoid);   // GLM-4.7-Flash
  EXPECT_EQ(gating(deepseek2, /*has_bias=*/true, /*stated=*/1), Gating::kSoftmax);
  TinyModel ernie;
  ernie.architecture = "ernie4_5-moe";
  EXPECT_EQ(gating(ernie, /*has_bias=*/true), Gating::kSoftmax);
}

TEST(ModelConfig, ReadsLatentAttention) {
  const auto absorbed = Read(TinyLatentModel(/*is_absorbed=*/true));
  ASSERT_TRUE(absorbed) << absorbed.error().message;
  EXPECT_TRUE(absorbed->latent.is_absorbed);
  EXPECT_EQ(absorbed->latent.rank, kTinyRank);
  EXPECT_EQ(absorbed->latent.q_rank, kTinyQRank);
  EXPECT_EQ(absorbed->latent.still_size(), kTinyStill);
  EXPECT_EQ(absorbed->ropes.front().rope_dim, kTinyTurned);
  EXPECT_FLOAT_EQ(absorbed->attention_scale, 1 / std::sqrt(12.0F));
  const HeadShape& one = absorbed->layers[1].heads;
  EXPECT_EQ(one.n, 4);
  EXPECT_EQ(one.n_kv, 1);
  EXPECT_EQ(one.size, kTinyRank + kTinyTurned);
  EXPECT_EQ(one.v_size, kTinyRank);

  const auto expanded =
      Read(TinyLatentModel(/*is_absorbed=*/false, {{"attention.q_lora_rank", 0}}));
  ASSERT_TRUE(expanded) << expanded.error().message;
  EXPECT_FALSE(expanded->latent.is_absorbed);
  EXPECT_EQ(expanded->latent.q_rank, 0);
  const HeadShape& each = expanded->layers[1].heads;
  EXPECT_EQ(each.n_kv, 4);
  EXPECT_EQ(each.size, kTinyStill + kTinyTurned);
  EXPECT_EQ(each.v_size, kTinyValue);
}

TEST(ModelConfig, LatentAttentionScalesScoresRatherThanTurnedHeads) {
  TinyModel model = TinyLatentModel(/*is_absorbed=*/true);
  model.add_fields = [add = model.add_fields](GgufWriter& writer) {
    add(writer);
    THAW_CHECK(writer.SetString("deepseek2.rope.scaling.type", "yarn"));
    THAW_CHECK(writer.SetNumber<float>("deepseek2.rope.scaling.factor", 4));
    THAW_CHECK(writer.SetNumber<float>("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F));
  };
  const auto config = Read(model);
  ASSERT_TRUE(config) << config.error().message;
  const float magnitude = 1 + 0.0707F * std::log(4.0F);
  EXPECT_FLOAT_EQ(config->attention_scale, magnitude * magnitude / std::sqrt(12.0F));
  const auto angles = RopeAngles::Create(config->ropes.front());
  ASSERT_TRUE(angles);
  EXPECT_EQ(angles->magnitude(), 1);
}

TEST(ModelConfig, RefusesLatentsThatContradictThemselves) {
  const auto error_with = [](const char* key, uint32_t value, bool is_absorbed = true) {
    return ErrorOf(TinyLatentModel(is_absorbed, {{key, value}}));
  };
  for (const char* key : {"attention.kv_lora_rank", "attention.key_length_mla",
                          "attention.value_length_mla", "rope.dimension_count"}) {
    EXPECT_THAT(error_with(key, 0), AllOf(HasSubstr(key), HasSubstr("config_test.gguf")));
    EXPECT_THAT(error_with(key, 1U << 31), HasSubstr("expected 1 to"));
  }
  EXPECT_THAT(error_with("attention.value_length", 0, false), HasSubstr("attention.value_length"));
  EXPECT_THAT(error_with("rope.dimension_count", 12), HasSubstr("is 12, expected less than"));
  EXPECT_THAT(error_with("rope.dimension_count", 3), HasSubstr("is 3, expected an even number"));
  EXPECT_THAT(error_with("attention.kv_lora_rank", 24), HasSubstr("expected a multiple of 16"));
  EXPECT_THAT(error_with("attention.value_length_mla", 8), HasSubstr("expected a multiple of 16"));
}

TEST(ModelConfig, LayersWithoutKvHeadsAreOfTheDeltaRule) {
  const auto config = Read(TinyChannelDeltaModel());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->layers[0].recurs);
  EXPECT_FALSE(config->layers[0].is_latent);
  EXPECT_EQ(config->layers[0].heads.n, 0);
  EXPECT_EQ(config->recurrence.heads, 4);
  EXPECT_EQ(config->recurrence.keys, 8);
  EXPECT_EQ(config->recurrence.values(), 8);
  EXPECT_EQ(config->recurrence.convolved, 3 * 4 * 8);
  EXPECT_FALSE(config->layers[1].recurs);
  EXPECT_TRUE(config->layers[1].is_latent);
  EXPECT_TRUE(config->latent.is_absorbed) << "as the first layer with attention is";
  EXPECT_EQ(config->layers[1].heads.n_kv, 1);
  EXPECT_FLOAT_EQ(config->attention_scale, 1 / std::sqrt(12.0F));
  EXPECT_THAT(config->ropes, IsEmpty());
}

TEST(ModelConfig, RefusesDeltaRulesWithoutSizes) {
  for (const char* key : {"kda.head_dim", "ssm.conv_kernel"}) {
    EXPECT_THAT(ErrorOf(TinyChannelDeltaModel({{key, 0}})),
                AllOf(HasSubstr(key), HasSubstr("config_test.gguf")));
    EXPECT_THAT(ErrorOf(TinyChannelDeltaModel({{key, 1U << 31}})), HasSubstr("expected 1 to"));
  }
}

// A model that chooses keys, whose first layers have indexers of their own.
TinyModel Choosing(uint32_t own_indexers, std::map<std::string, uint32_t> changed = {}) {
  changed.insert({{"attention.indexer.head_count", 2},
                  {"attention.indexer.key_length", 8},
                  {"attention.indexer.top_k", 5}});
  TinyModel model = TinyLatentModel(/*is_absorbed=*/true, std::move(changed), "glm-dsa");
  model.edit_tensors = [=, edit = model.edit_tensors](std::vector<TinyModel::Tensor>& tensors) {
    edit(tensors);
    for (uint32_t i = 0; i < own_indexers; ++i) {
      tensors.push_back({"blk." + std::to_string(i) + ".indexer.attn_k.weight", {32, 8}});
    }
  };
  return model;
}

TEST(ModelConfig, ReadsWhichLayersChooseKeys) {
  const auto config = Read(Choosing(/*own_indexers=*/1));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->indexer.top_k, 5);
  EXPECT_EQ(config->indexer.n_heads, 2);
  EXPECT_EQ(config->layers[0].index_key_size, 8);
  EXPECT_EQ(config->layers[1].index_key_size, 0);
  TinyModel by_field = Choosing(/*own_indexers=*/1);
  std::vector<int32_t> types = {1, 1};
  by_field.add_fields = [&, add = by_field.add_fields](GgufWriter& writer) {
    add(writer);
    THAW_CHECK(writer.SetNumbers<int32_t>("glm-dsa.attention.indexer.types", types));
  };
  EXPECT_EQ(Read(by_field)->layers[1].index_key_size, 8);
  types = {1};
  EXPECT_THAT(ErrorOf(by_field), HasSubstr("has 1 elements, expected one a layer: 2"));
  types = {0, 1};
  EXPECT_THAT(ErrorOf(by_field), HasSubstr("the first layer has no indexer"));
}

TEST(ModelConfig, RefusesIndexersThatContradictThemselves) {
  EXPECT_THAT(ErrorOf(Choosing(0)), HasSubstr("the first layer has no indexer"));
  for (const char* key : {"attention.q_lora_rank", "attention.indexer.head_count",
                          "attention.indexer.key_length", "attention.indexer.top_k"}) {
    EXPECT_THAT(ErrorOf(Choosing(2, {{key, 0}})),
                AllOf(HasSubstr(key), HasSubstr("config_test.gguf")));
  }
  EXPECT_THAT(ErrorOf(Choosing(2, {{"attention.indexer.key_length", 2}})),
              HasSubstr("expected at most the key size 2"));
  EXPECT_THAT(ErrorOf(TinyLatentModel(/*is_absorbed=*/false,
                                      {{"attention.indexer.head_count", 2},
                                       {"attention.indexer.key_length", 8},
                                       {"attention.indexer.top_k", 5}},
                                      "deepseek32")),
              HasSubstr("'blk.0.attn_k_b.weight' is missing"));
}

TEST(ModelConfig, ReadsTimeMixing) {
  const auto config = Read(TinyTimeMixModel({{"attention.gate_lora_rank", 5}}));
  ASSERT_TRUE(config) << config.error().message;
  const RecurrenceConfig& of = config->recurrence;
  EXPECT_EQ(of.heads, 4);
  EXPECT_EQ(of.keys, kTinyMixHead);
  EXPECT_EQ(of.values(), kTinyMixHead);
  EXPECT_EQ(of.window_floats(), 2 * config->d_model) << "a token shift for each block";
  EXPECT_EQ(of.ranks.most(), 5);
  EXPECT_EQ(of.ranks.sum(), 3 * kTinyMixRank + 5);
  for (const LayerConfig& layer : config->layers) {
    EXPECT_TRUE(layer.recurs);
    EXPECT_EQ(layer.heads.n, 0);
    EXPECT_EQ(layer.d_ff, TinyModel().d_ff);
  }
}

TEST(ModelConfig, RefusesTimeMixingThatContradictsItself) {
  const auto error_with = [](const char* key, uint32_t value) {
    return ErrorOf(TinyTimeMixModel({{key, value}}));
  };
  for (const char* key : {"wkv.head_size", "attention.decay_lora_rank", "attention.iclr_lora_rank",
                          "attention.value_residual_mix_lora_rank", "attention.gate_lora_rank"}) {
    EXPECT_THAT(error_with(key, 0), AllOf(HasSubstr(key), HasSubstr("config_test.gguf")));
    EXPECT_THAT(error_with(key, 1U << 31), HasSubstr("expected 1 to"));
  }
  EXPECT_THAT(error_with("wkv.head_size", 5),
              HasSubstr("is 5, expected a divisor of the width 32"));
  EXPECT_THAT(error_with("token_shift_count", 1), HasSubstr("is 1; supported is: 2"));
  EXPECT_EQ(error_with("token_shift_count", 0), "no error") << "the field may be missing";
}

TEST(ModelConfig, LeavesOutLayersThatPredictFurtherTokens) {
  TinyModel model;
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.nextn_predict_layers", 9));
  };
  EXPECT_THAT(ErrorOf(model), HasSubstr("is 9, expected less than the"));
}

TEST(ModelConfig, SaysWhenAFileHoldsNoWeights) {
  TinyModel model;
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) { tensors.clear(); };
  EXPECT_THAT(ErrorOf(model), HasSubstr("the file holds no weights"));
}

}  // namespace
}  // namespace thaw
