#include "engine/shape_model.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "gguf/gguf_file.h"
#include "io/temporary_directory.h"
#include "kernels/kernel_table.h"
#include "model/family.h"
#include "support/golden_model.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr ModelShape kTinyShape = {.name = "tiny",
                                   .n_layers = 2,
                                   .d_model = 256,
                                   .d_ff = 512,
                                   .n_heads = 4,
                                   .n_kv_heads = 2,
                                   .head_dim = 64,
                                   .n_vocab = 300,
                                   .context_length = 128};

constexpr auto kNoProgress = [](uint64_t, uint64_t) { return true; };

Result<std::unique_ptr<Engine>> WriteAndLoad(const ModelShape& shape, ElementType type,
                                             const std::string& path) {
  THAW_TRY(WriteShapeModel(shape, type, 1, path, kNoProgress));
  return Engine::Load(path, {.threads = 1}, kNoProgress);
}

class ShapeModelOf : public ::testing::TestWithParam<ElementType> {};

TEST_P(ShapeModelOf, GivesFiniteLogitsThatDiffer) {
  const TemporaryDirectory folder;
  const auto engine = WriteAndLoad(kTinyShape, GetParam(), folder.PathOf("model.gguf"));
  ASSERT_TRUE(engine) << engine.error().message;
  std::vector<float> logits;
  const std::vector<int32_t> tokens = {1, 270, 280};
  const auto collect = [&](std::span<const float> rows) -> Result<void> {
    logits.insert(logits.end(), rows.begin(), rows.end());
    return {};
  };
  ASSERT_TRUE((*engine)->ComputeLogits(tokens, collect));
  double squares = 0;
  for (const float logit : logits) {
    ASSERT_TRUE(std::isfinite(logit));
    squares += static_cast<double>(logit) * logit;
  }
  // A normalized vector times weights of deviation 1 / sqrt(columns) has a deviation near 1.
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(logits.size())), 1, 0.5);
  EXPECT_NE(logits[0], logits[300]);
}

INSTANTIATE_TEST_SUITE_P(, ShapeModelOf,
                         ::testing::Values(ElementType::kF32, ElementType::kF16, ElementType::kQ4_0,
                                           ElementType::kQ4_K, ElementType::kQ6_K,
                                           ElementType::kQ8_0, ElementType::kIQ2_XXS,
                                           ElementType::kMXFP4),
                         [](const auto& test) { return std::string(Info(test.param).name); });

TEST(ShapeModel, LoadsInEveryFamilyWithAndWithoutAnOutputMatrix) {
  const TemporaryDirectory folder;
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    for (const bool tied : {false, true}) {
      ModelShape shape = kTinyShape;
      shape.family = family;
      shape.tied_output = tied;
      const auto engine = WriteAndLoad(shape, ElementType::kQ4_0, folder.PathOf("model.gguf"));
      ASSERT_TRUE(engine) << engine.error().message;
      EXPECT_EQ((*engine)->config().n_layers, shape.n_layers);
      EXPECT_EQ((*engine)->config().layers[0].heads.size, shape.head_dim);
      EXPECT_EQ((*engine)->config().context_length, shape.context_length);
    }
  }
}

TEST(ShapeModel, TokenizesTextAndWritesItBack) {
  const TemporaryDirectory folder;
  const auto engine = WriteAndLoad(kTinyShape, ElementType::kQ4_0, folder.PathOf("model.gguf"));
  ASSERT_TRUE(engine) << engine.error().message;
  const auto tokenizer = (*engine)->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->n_tokens(), 300);
  const std::string text = "ab z\xc3\xa9\n";
  const auto ids = (*tokenizer)->Encode(text);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(ids->front(), (*tokenizer)->bos());
  EXPECT_EQ((*tokenizer)->Decode(*ids), text);
}

TEST(ShapeModel, IsTheSameFileForTheSameSeed) {
  const TemporaryDirectory folder;
  std::vector<std::string> files;
  for (const uint64_t seed : {1, 1, 2}) {
    const std::string path = folder.PathOf("model.gguf");
    ASSERT_TRUE(WriteShapeModel(kTinyShape, ElementType::kQ5_1, seed, path, kNoProgress));
    files.push_back(ReadWholeFile(path));
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
  EXPECT_EQ(files[0].size(), files[2].size());
}

TEST(ShapeModel, ReportsItsProgressUpToTheLastByte) {
  const TemporaryDirectory folder;
  uint64_t last_done = 0;
  uint64_t last_total = 0;
  const auto on_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    last_done = done;
    last_total = total;
    return true;
  };
  const std::string path = folder.PathOf("model.gguf");
  ASSERT_TRUE(WriteShapeModel(kTinyShape, ElementType::kQ4_0, 1, path, on_progress));
  EXPECT_EQ(last_done, last_total);
  EXPECT_LT(last_total, std::filesystem::file_size(path));
}

TEST(ShapeModel, LeavesNoFileWhenItIsStopped) {
  const TemporaryDirectory folder;
  const auto done = WriteShapeModel(kTinyShape, ElementType::kQ4_0, 1, folder.PathOf("model.gguf"),
                                    [](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ShapeModel, NamesTheTensorWhoseRowsAreNoWholeBlocks) {
  const TemporaryDirectory folder;
  ModelShape shape = kTinyShape;
  shape.d_ff = 320;
  const std::string path = folder.PathOf("model.gguf");
  ASSERT_TRUE(WriteShapeModel(shape, ElementType::kQ4_0, 1, path, kNoProgress));
  const auto done = WriteShapeModel(shape, ElementType::kQ4_K, 1, path, kNoProgress);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(done.error().message, HasSubstr("blk.0.ffn_down.weight"));
}

TEST(ShapeModel, RefusesToFillADiskThatHasNoRoom) {
  const TemporaryDirectory folder;
  ModelShape shape = kTinyShape;  // some 26 TB
  shape.d_model = 1 << 20;
  shape.d_ff = 1 << 20;
  const auto done =
      WriteShapeModel(shape, ElementType::kF32, 1, folder.PathOf("model.gguf"), kNoProgress);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(done.error().message, HasSubstr("model.gguf: the model takes 24"));
  EXPECT_THAT(done.error().message, HasSubstr("free"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ShapeModel, RefusesTypesThatCannotBeMultipliedAndSizesThatMakeNoSense) {
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("model.gguf");
  const auto message = [&](const ModelShape& shape, ElementType type) {
    const auto done = WriteShapeModel(shape, type, 1, path, kNoProgress);
    return done ? "" : done.error().message;
  };
  EXPECT_THAT(message(kTinyShape, ElementType::kI32), HasSubstr("I32 cannot be multiplied"));
  ModelShape shape = kTinyShape;
  shape.n_layers = 0;
  EXPECT_THAT(message(shape, ElementType::kQ4_0), HasSubstr("block_count is 0"));
  shape = kTinyShape;
  shape.n_vocab = 259;
  EXPECT_THAT(message(shape, ElementType::kQ4_0), HasSubstr("at least 260"));
  shape = kTinyShape;
  shape.family = "mamba";
  EXPECT_THAT(message(shape, ElementType::kQ4_0), HasSubstr("no shape of family \"mamba\""));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(KnownShapes, AreFoundByNameAndListedForOneThatIsNot) {
  for (const ModelShape& shape : KnownShapes()) {
    const auto found = FindShape(shape.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, &shape);
  }
  const auto missing = FindShape("gpt-5");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("tinyllama-1.1b, "));
}

TEST(ShapeModel, ChoosesExpertsMoreUnevenlyWhereTheShapeSaysSo) {
  ModelShape shape = kTinyShape;
  shape.family = "glm4moe";
  shape.n_experts = 16;
  shape.n_experts_used = 2;
  const auto visited_experts = [&](float skew) {
    shape.expert_skew = skew;
    const TemporaryDirectory folder;
    const auto engine = WriteAndLoad(shape, ElementType::kQ8_0, folder.PathOf("model.gguf"));
    EXPECT_TRUE(engine) << engine.error().message;
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 30; ++i) tokens.push_back(1 + i * 9);
    EXPECT_TRUE((*engine)->ComputeLogits(
        tokens, [](std::span<const float>) -> Result<void> { return {}; }));
    return (*engine)->cache_statistics().misses;
  };
  const uint64_t evenly = visited_experts(0);
  EXPECT_LT(visited_experts(0.3F), evenly);
}

// Programs that read the width of experts nowhere else load generated mixtures, too.
TEST(ShapeModel, StatesTheWidthOfExperts) {
  ModelShape shape = kTinyShape;
  shape.family = "qwen3moe";
  shape.n_experts = 4;
  shape.n_experts_used = 2;
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("model.gguf");
  ASSERT_TRUE(WriteShapeModel(shape, ElementType::kQ8_0, 1, path, kNoProgress));
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file);
  const auto width = file->GetUintOr("qwen3moe.expert_feed_forward_length", 0);
  ASSERT_TRUE(width);
  EXPECT_EQ(*width, static_cast<uint64_t>(shape.d_ff));
}

// Rows of floats that fill no group are multiplied with the values that the tokens of an expert are
// gathered with, whatever copy of them the others read.
TEST(ShapeModel, ExpertsMayHaveRowsThatFillNoGroup) {
  ModelShape shape = kTinyShape;
  shape.family = "qwen3moe";
  shape.d_ff = 40;
  shape.n_experts = 4;
  shape.n_experts_used = 2;
  for (const ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    const TemporaryDirectory folder;
    const std::string path = folder.PathOf("model.gguf");
    ASSERT_TRUE(WriteShapeModel(shape, type, 1, path, kNoProgress));
    const auto logits_of = [&](int64_t chunk) {
      std::vector<float> logits;
      const auto engine = Engine::Load(path, {.threads = 1, .prefill_chunk = chunk}, kNoProgress);
      EXPECT_TRUE(engine) << engine.error().message;
      const std::vector<int32_t> tokens = {1, 270, 280, 17, 4, 99};
      EXPECT_TRUE(
          (*engine)->ComputeLogits(tokens, [&](std::span<const float> rows) -> Result<void> {
            logits.insert(logits.end(), rows.begin(), rows.end());
            return {};
          }));
      return logits;
    };
    EXPECT_EQ(logits_of(6), logits_of(1)) << Info(type).name;
  }
}

TEST(KnownShapes, HaveTheWeightsOfTheModelsTheyAreNamedAfter) {
  const auto parameters = [](std::string_view name) {
    const auto bytes = ShapeModelBytes(**FindShape(name), ElementType::kF16);
    EXPECT_TRUE(bytes) << bytes.error().message;
    return static_cast<double>(*bytes) / 2e9;
  };
  EXPECT_NEAR(parameters("tinyllama-1.1b"), 1.100, 0.001);
  EXPECT_NEAR(parameters("smollm2-1.7b"), 1.711, 0.001);
  EXPECT_NEAR(parameters("llama-3.2-3b"), 3.213, 0.001);
  EXPECT_NEAR(parameters("llama-3.1-8b"), 8.030, 0.001);
  // Routers are of twice the size here.
  EXPECT_NEAR(parameters("qwen3-30b-a3b"), 30.532 + 0.013, 0.001);
  EXPECT_NEAR(parameters("gpt-oss-20b"), 20.915 + 0.01, 0.01);
}

TEST(KnownShapes, HaveRowsOfWholeBlocksOfEveryType) {
  for (const ModelShape& shape : KnownShapes()) {
    for (const ElementTypeInfo& info : AllElementTypes()) {
      if (!CanMultiply(info.type) || !IsInFiles(info.type)) continue;
      const auto bytes = ShapeModelBytes(shape, info.type);
      if (shape.d_model % info.block_elements != 0) {
        EXPECT_EQ(shape.name, "gpt-oss-20b");
        EXPECT_THAT(bytes.error().message, HasSubstr("no whole blocks"));
        continue;
      }
      EXPECT_TRUE(bytes) << bytes.error().message;
    }
  }
}

TEST(FindWeightType, FindsWhatCanBeMultipliedAndListsItForAnythingElse) {
  EXPECT_EQ(*FindWeightType("Q4_K"), ElementType::kQ4_K);
  EXPECT_EQ(*FindWeightType("F32"), ElementType::kF32);
  EXPECT_EQ(*FindWeightType("q4_k"), ElementType::kQ4_K);
  EXPECT_EQ(*FindWeightType("iq4_Xs"), ElementType::kIQ4_XS);
  for (const char* name : {"Q9_9", "q4_", "q4_k_m", "I32", ""}) {
    const auto type = FindWeightType(name);
    ASSERT_FALSE(type);
    EXPECT_EQ(type.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(type.error().message, HasSubstr("F32, F16, Q4_0, "));
  }
}

}  // namespace
}  // namespace thaw
