#include "engine/engine.h"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/session.h"
#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"
#include "support/golden_model.h"
#include "support/paths.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

// Of llama.cpp's own float32 logits; the conformance folder states the same limit.
constexpr double kFloatModelTolerance = 1e-3;

// Quantized activations may cost this much more than llama.cpp's do.
constexpr double kQuantizedPeerFactor = 1.15;

// What a KV cache of q8_0 may change in the logits, of their size. Its numbers are off by 0.5 % of
// the size of theirs (a scale is about 2.2 / 127 of it, and rounding is off by 1 / sqrt(12) of a
// step), and these models are little but attention. Weights in blocks also meet activations rounded
// to int8, where the least change tips roundings: there a cache of f16 already changes 1.3 %.
constexpr double kQ8KvTolerance = 0.01;
constexpr double kQ8KvRoundedTolerance = 0.025;

constexpr auto kNoProgress = [](uint64_t, uint64_t) { return true; };

Result<std::unique_ptr<Engine>> LoadGolden(const std::string& model, EngineOptions options,
                                           KvType kv_type = KvType::kF32) {
  options.kv_type = kv_type;
  return Engine::Load((GoldenDir() / (model + ".gguf")).string(), options, kNoProgress);
}

std::vector<float> Logits(Engine& engine, std::span<const int32_t> tokens) {
  std::vector<float> all;
  const auto done = engine.ComputeLogits(tokens, [&](std::span<const float> rows) -> Result<void> {
    all.insert(all.end(), rows.begin(), rows.end());
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
  return all;
}

std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 250);
  return tokens;
}

std::vector<int32_t> SeventyTokens() { return Tokens(70); }

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<std::string> AvailableKernels() {
  std::vector<std::string> names;
  for (const KernelTable* table : AllKernelTables()) {
    if (table->is_available(HostCpu())) names.emplace_back(table->name);
  }
  return names;
}

class EngineOn : public ::testing::TestWithParam<std::string> {};

TEST_P(EngineOn, GivesTheLogitsOfAnotherProgram) {
  for (const char* name : {"llama-tied", "llama-yarn", "llama3-ropefreqs", "qwen2", "qwen3"}) {
    const std::string base = std::string("models/") + name;
    const auto engine = LoadGolden(base, {.kernels = GetParam()});
    ASSERT_TRUE(engine) << engine.error().message;
    const auto tokens = ReadIntegerList(ReadWholeFile(GoldenDir() / (base + ".tokens.json")));
    const auto expected = ReadNpy(GoldenDir() / (base + ".logits.npy"));
    EXPECT_LE(RelativeRmse(Logits(**engine, tokens), expected), kFloatModelTolerance) << name;
  }
}

TEST_P(EngineOn, LosesNoMoreToQuantizedActivationsThanThePeer) {
  for (const char* name : {"Q4_1", "Q4_K"}) {
    const std::string base = std::string("quantized/") + name;
    const auto engine = LoadGolden(base, {.kernels = GetParam()});
    ASSERT_TRUE(engine) << engine.error().message;
    const std::string facts = ReadWholeFile(GoldenDir() / (base + ".json"));
    const auto tokens = ReadIntegerList(facts.substr(facts.find("\"tokens\"")));
    const auto expected = ReadNpy(GoldenDir() / (base + ".logits.npy"));
    EXPECT_LE(RelativeRmse(Logits(**engine, tokens), expected),
              kQuantizedPeerFactor * ReadJsonNumber(facts, "peer_relative_rmse"))
        << name;
  }
}

struct GoldenWithKv {
  const char* model;
  KvType kv_type;
};

TEST_P(EngineOn, LogitsDependNeitherOnChunksNorOnThreads) {
  constexpr GoldenWithKv kCases[] = {{"models/qwen3", KvType::kF32},
                                     {"quantized/Q4_K", KvType::kF32},
                                     {"quantized/Q4_1", KvType::kF32},
                                     {"models/qwen3", KvType::kQ8_0},
                                     {"quantized/Q4_K", KvType::kQ8_0}};
  for (const auto& [model, kv_type] : kCases) {
    const std::vector<int32_t> tokens = SeventyTokens();
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      for (const int64_t chunk : {1, 3, 16, 70}) {
        const auto engine = LoadGolden(
            model, {.threads = threads, .kernels = GetParam(), .prefill_chunk = chunk}, kv_type);
        ASSERT_TRUE(engine) << engine.error().message;
        const std::vector<float> logits = Logits(**engine, tokens);
        if (first.empty()) first = logits;
        EXPECT_TRUE(SameBits(logits, first))
            << model << " " << KvTypeName(kv_type) << " " << threads << " " << chunk;
      }
    }
  }
}

// Of a model of the conformance folder.
void ExpectSameBitsInChunksAndThreads(const std::string& name, const std::string& kernels) {
  const std::string path = (ConformanceDir() / name).string() + ".gguf";
  std::vector<float> first;
  for (const auto& [threads, chunk] : {std::pair(1, 1), {2, 3}, {3, 70}, {2, 300}}) {
    const auto engine = Engine::Load(
        path, {.threads = threads, .kernels = kernels, .context = 300, .prefill_chunk = chunk},
        kNoProgress);
    ASSERT_TRUE(engine) << engine.error().message;
    const std::vector<float> logits = Logits(**engine, Tokens(300));
    if (first.empty()) first = logits;
    EXPECT_TRUE(SameBits(logits, first)) << name << " " << threads << " " << chunk;
  }
}

TEST_P(EngineOn, NoKindOfFamilyDependsOnChunksOrThreads) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "the conformance folder is absent";
  // Windows (whose keys and values go round in rings of 64 to 256 positions, or in none), soft
  // caps, norms of all kinds and places, parallel blocks, learned positions, layers without rope;
  // slopes, norms within blocks, scales of matrices, heads and ropes that differ from layer to
  // layer; experts of all kinds of routers, biases, shared blocks, sinks, gates of attention;
  // recurrent layers of all kinds; latents, absorbed and expanded, and keys that are chosen;
  // embeddings of layers, shared keys and values; several streams; token shifts.
  for (const char* name : {"gemma2",       "gemma3",
                           "gemma3n",      "cohere2",
                           "phi2",         "gpt2",
                           "olmo3",        "stablelm2-12b",
                           "bailingmoe2",  "qwen2moe",
                           "gpt-oss",      "llama4-scout",
                           "smallthinker", "afmoe",
                           "lfm2moe",      "jamba",
                           "falcon-h1",    "nemotron_h_moe-latent",
                           "qwen35moe",    "qwen3next-legacy",
                           "bloom",        "apertus",
                           "bitnet",       "mimo2",
                           "step35",       "deepseek2-mha",
                           "deepseek3",    "deepseek32",
                           "glm-dsa",      "gemma4-e2b",
                           "gemma4-moe",   "rwkv7",
                           "kimi-linear"}) {
    ExpectSameBitsInChunksAndThreads(std::string("models/") + name, GetParam());
  }
}

TEST_P(EngineOn, RoundedActivationsDependNeitherOnChunksNorOnThreads) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "the conformance folder is absent";
  ExpectSameBitsInChunksAndThreads("quantized/BF16", GetParam());
}

// What is wrong with a file in which each expert has a tensor of its own: their names.
struct Spoiled {
  std::string missing = {};
  std::string halved = {};  // to float16
};

// Writes the model `from` as files made before 2024 have it: `stem`.E.weight for each expert E
// instead of `stem`_exps.weight.
void WriteExpertsApart(const std::string& from, const std::string& to, const Spoiled& spoiled) {
  const auto source = GgufFile::Open(from);
  auto writer = GgufWriter::Create(to);
  THAW_CHECK(source && writer && writer->CopyFields(*source));
  std::vector<std::vector<std::byte>> data;
  for (const TensorInfo& tensor : source->tensors()) {
    const size_t stem_end = tensor.name.find("_exps.weight");
    const bool is_of_experts = stem_end != std::string::npos;
    const int64_t n = is_of_experts ? tensor.dims[2] : 1;
    std::vector<std::byte> bytes(tensor.bytes);
    THAW_CHECK(source->ReadTensor(tensor, 0, bytes));
    const std::string stem(tensor.name.substr(0, stem_end));
    for (int64_t expert = 0; expert < n; ++expert) {
      const std::string name = is_of_experts ? fmt::format("{}.{}.weight", stem, expert) : stem;
      if (name == spoiled.missing) continue;
      const bool is_halved = name == spoiled.halved;
      const auto extents = is_of_experts ? tensor.extents().first(2) : tensor.extents();
      THAW_CHECK(writer->AddTensor(name, is_halved ? ElementType::kF16 : tensor.type, extents));
      const auto of_one = std::span(bytes).subspan(
          bytes.size() / static_cast<size_t>(n) * static_cast<size_t>(expert),
          bytes.size() / static_cast<size_t>(n) / (is_halved ? 2 : 1));
      data.emplace_back(of_one.begin(), of_one.end());
    }
  }
  for (const auto& of_tensor : data) THAW_CHECK(writer->AppendData(of_tensor));
  THAW_CHECK(writer->Commit());
}

TEST_P(EngineOn, ExpertsMayHaveATensorEach) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "SKIP: the conformance folder is absent";
  const std::string joined = (ConformanceDir() / "models" / "mixtral.gguf").string();
  const TemporaryDirectory directory;
  const std::string apart = directory.PathOf("apart.gguf");
  WriteExpertsApart(joined, apart, {});
  std::vector<float> expected;
  for (const std::string& path : {joined, apart}) {
    for (const std::string_view budget : {"floor", "900MiB"}) {
      const auto engine =
          Engine::Load(path, {.kernels = GetParam(), .context = 64, .budget = *ParseBudget(budget)},
                       kNoProgress);
      ASSERT_TRUE(engine) << engine.error().message;
      const std::vector<float> logits = Logits(**engine, Tokens(64));
      if (expected.empty()) expected = logits;
      EXPECT_TRUE(SameBits(logits, expected)) << path << " " << budget;
      const auto verified = (*engine)->weights().Verify(kNoProgress);
      EXPECT_TRUE(verified) << verified.error().message;
    }
  }
}

TEST(Engine, NamesWhatIsWrongWithExpertsThatHaveATensorEach) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "SKIP: the conformance folder is absent";
  const std::string joined = (ConformanceDir() / "models" / "mixtral.gguf").string();
  const TemporaryDirectory directory;
  const std::string apart = directory.PathOf("apart.gguf");
  const auto error_of = [&](const Spoiled& spoiled) {
    WriteExpertsApart(joined, apart, spoiled);
    const auto plan = Engine::Plan(apart, {});
    return plan ? "" : plan.error().message;
  };
  EXPECT_THAT(error_of({.missing = "blk.1.ffn_up.2.weight"}),
              HasSubstr("tensor 'blk.1.ffn_up.2.weight': the tensor is missing"));
  EXPECT_THAT(error_of({.missing = "blk.1.ffn_down.0.weight"}),
              HasSubstr("tensor 'blk.1.ffn_down_exps.weight': the tensor is missing"));
  EXPECT_THAT(error_of({.halved = "blk.0.ffn_down.3.weight"}),
              HasSubstr("tensor 'blk.0.ffn_down.3.weight': its type is F16, expected F32 as "
                        "'blk.0.ffn_down.0.weight' has"));
}

// Four of these five layers see chunks of 8192 positions.
TEST(Engine, LayersOfChunksHoldLittleMoreThanOne) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "the conformance folder is absent";
  const std::string path = (ConformanceDir() / "models" / "llama4-scout.gguf").string();
  const auto one = Engine::Plan(path, {.context = 8192});
  const auto ten = Engine::Plan(path, {.context = 81920});
  ASSERT_TRUE(one && ten);
  EXPECT_GT(ten->kv_bytes, 2 * one->kv_bytes);
  EXPECT_LT(ten->kv_bytes, 3 * one->kv_bytes);
}

TEST_P(EngineOn, AKvCacheOfBlocksChangesTheLogitsALittle) {
  const std::pair<const char*, double> tolerances[] = {{"models/qwen3", kQ8KvTolerance},
                                                       {"quantized/Q4_K", kQ8KvRoundedTolerance}};
  for (const auto& [model, tolerance] : tolerances) {
    const std::vector<int32_t> tokens = SeventyTokens();
    const auto floats = LoadGolden(model, {.kernels = GetParam()});
    const auto blocks = LoadGolden(model, {.kernels = GetParam()}, KvType::kQ8_0);
    ASSERT_TRUE(blocks) << blocks.error().message;
    const double change = RelativeRmse(Logits(**blocks, tokens), Logits(**floats, tokens));
    EXPECT_GT(change, 0) << model;
    EXPECT_LE(change, tolerance) << model;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EngineOn, ::testing::ValuesIn(AvailableKernels()),
                         [](const auto& test) { return test.param; });

TEST(Engine, RefusesTokensThatAreNotInTheVocabulary) {
  const auto engine = LoadGolden("models/qwen3", {});
  for (const int32_t bad : {-1, 288}) {
    const std::vector<int32_t> tokens = {1, bad};
    const auto done =
        (*engine)->ComputeLogits(tokens, [](std::span<const float>) -> Result<void> { return {}; });
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("at position 1"));
  }
}

TEST(Engine, RefusesMoreTokensThanTheContextHolds) {
  const auto engine = LoadGolden("models/qwen3", {.context = 8});
  const auto done = (*engine)->ComputeLogits(
      std::vector<int32_t>(9), [](std::span<const float>) -> Result<void> { return {}; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "9 tokens do not fit into a context of 8");
}

TEST(Engine, ACallersErrorEndsTheComputation) {
  const auto engine = LoadGolden("models/qwen3", {});
  const auto done =
      (*engine)->ComputeLogits(std::vector<int32_t>(9), [](std::span<const float>) -> Result<void> {
        return Fail(ErrorCode::kIo, "the disk is full");
      });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "the disk is full");
}

TEST(Engine, StopsWhenItIsCancelled) {
  const auto engine = LoadGolden("models/qwen3", {});
  const std::atomic<bool> cancel{true};
  const auto done = (*engine)->ComputeLogits(
      std::vector<int32_t>(9), [](std::span<const float>) -> Result<void> { return {}; }, &cancel);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
}

TEST(Engine, CancellingWhileLoadingIsAnError) {
  const auto engine = Engine::Load((GoldenDir() / "models/qwen3.gguf").string(), {.preload = true},
                                   [](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kCancelled);
}

TEST(Engine, LoadingReadsNoWeights) {
  const auto engine = LoadGolden("models/llama-tied", {});
  EXPECT_EQ((*engine)->cache_statistics().bytes_read, 0);
  EXPECT_EQ((*engine)->cache_statistics().resident_bytes, 0);
}

TEST(Engine, ReadsNoWeightAgainAfterPreloading) {
  const auto engine = LoadGolden("models/llama-tied", {.preload = true});
  const uint64_t read = (*engine)->cache_statistics().bytes_read;
  EXPECT_EQ(read, (*engine)->cache_statistics().weight_bytes);
  Logits(**engine, std::vector<int32_t>(20));
  const CacheStatistics after = (*engine)->cache_statistics();
  EXPECT_EQ(after.bytes_read, read);
  EXPECT_EQ(after.misses, 0);
  EXPECT_GT(after.hits, 0);
  EXPECT_EQ(after.pinned_bytes, 0);
}

TEST(Engine, AModelWithoutATokenizerStillHasLogits) {
  const auto engine = LoadGolden("models/qwen3", {});
  EXPECT_EQ(Logits(**engine, std::vector<int32_t>{5}).size(), 288);
  EXPECT_FALSE((*engine)->tokenizer());
}

TEST(Engine, RefusesOptionsThatMakeNoSense) {
  EXPECT_THAT(LoadGolden("models/qwen3", {.threads = -1}).error().message, HasSubstr("-1 threads"));
  EXPECT_THAT(LoadGolden("models/qwen3", {.kernels = "abacus"}).error().message,
              HasSubstr("portable"));
  EXPECT_FALSE(LoadGolden("models/qwen3", {.context = -5}));
}

TEST(Engine, RefusesAKvCacheOfBlocksForHeadsThatTheyDoNotFit) {
  const auto engine = LoadGolden("models/llama-tied", {}, KvType::kQ8_0);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(engine.error().message, HasSubstr("have 16: take f16 or f32"));
}

TEST(Engine, ScoreIsTheLikelihoodOfTheLogits) {
  const auto engine = LoadGolden("models/qwen3", {.context = 16});
  std::vector<int32_t> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 61 % 288);
  double expected = 0;
  for (size_t begin = 0; begin < tokens.size(); begin += 16) {
    const auto window = std::span(tokens).subspan(begin, std::min<size_t>(16, 40 - begin));
    const std::vector<float> logits = Logits(**engine, window);
    for (size_t i = 0; i + 1 < window.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < 288; ++j) sum += std::exp(static_cast<double>(logits[i * 288 + j]));
      expected +=
          std::log(sum) - static_cast<double>(logits[i * 288 + static_cast<size_t>(window[i + 1])]);
    }
  }
  const auto score = (*engine)->Score(tokens, [](int64_t, int64_t) {});
  ASSERT_TRUE(score) << score.error().message;
  EXPECT_EQ(score->scored_tokens, 15 + 15 + 7);
  EXPECT_NEAR(score->negative_log_likelihood, expected, 1e-6 * expected);
  EXPECT_NEAR(score->perplexity(), std::exp(expected / 37), 1e-4 * score->perplexity());
}

TEST(Engine, ScoreNeedsTwoTokens) {
  const auto engine = LoadGolden("models/qwen3", {});
  EXPECT_FALSE((*engine)->Score(std::vector<int32_t>{1}, [](int64_t, int64_t) {}));
}

}  // namespace
}  // namespace thaw
