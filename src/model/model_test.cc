#include "model/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "io/faulty_file.h"
#include "io/temporary_directory.h"
#include "residency/policy.h"
#include "support/paths.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::Each;
using ::testing::Truly;

constexpr int64_t kContext = 48;

// A tiny model, ready to run.
struct Fixture {
  explicit Fixture(const KernelTable& kernels, const TinyModel& tiny = {}) : pool(/*threads=*/2) {
    const TemporaryDirectory directory;
    const std::string path = directory.PathOf("model_test.gguf");
    tiny.Write(path);
    Open(kernels, path, {});
  }

  Fixture(const KernelTable& kernels, const std::string& path,
          const WeightCacheOptions& options = {})
      : pool(/*threads=*/2) {
    Open(kernels, path, options);
  }

  void Open(const KernelTable& kernels, const std::string& path,
            const WeightCacheOptions& options) {
    const auto file = GgufFile::Open(path);
    THAW_CHECK(file);
    auto description = DescribeModel(*file);
    THAW_CHECK(description);
    faulty = std::make_shared<FaultyFile>(description->matrices.front().file, FileFaults{});
    for (WeightMatrix& matrix : description->matrices) matrix.file = faulty;
    matrices = description->matrices;
    cache = *WeightCache::Create(*TileMap::Create(description->matrices), options);
    model = *Model::Create(*std::move(description), *cache, kernels, pool,
                           {.max_batch = kContext, .max_context = kContext});
  }

  KvCache NewKv() const {
    return *KvCache::Create(model->config(), {.n_positions = kContext, .max_batch = kContext});
  }

  // The logits of every token.
  std::vector<float> Run(std::span<const BatchToken> batch) const {
    std::vector<float> logits(batch.size() * static_cast<size_t>(model->config().n_vocab));
    const auto done = model->Forward(batch, logits, nullptr);
    EXPECT_TRUE(done) << done.error().message;
    return logits;
  }

  ThreadPool pool;
  std::shared_ptr<FaultyFile> faulty;  // of all weights
  std::vector<WeightMatrix> matrices;
  std::unique_ptr<WeightCache> cache;
  std::unique_ptr<Model> model;
};

BatchToken At(KvCache& kv, int64_t position, int32_t token) {
  return {.token = token, .position = position, .kv = &kv, .wants_logits = true};
}

std::vector<float> LogitsOf(const KernelTable& kernels, const TinyModel& tiny) {
  const Fixture f(kernels, tiny);
  KvCache kv = f.NewKv();
  std::vector<BatchToken> batch;
  for (int32_t i = 0; i < 5; ++i) batch.push_back(At(kv, i, 40 + i));
  return f.Run(batch);
}

class ModelOn : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  void SetUp() override {
    if (!GetParam()->is_available(HostCpu())) {
      GTEST_SKIP() << "SKIP: this CPU cannot run " << GetParam()->name;
    }
  }
};

TEST_P(ModelOn, SequencesInOneBatchDoNotDisturbEachOther) {
  for (const TinyModel& tiny : {TinyModel(), TinyTimeMixModel()}) {
    const Fixture f(*GetParam(), tiny);
    std::vector<float> alone;
    for (const int32_t start : {10, 90}) {
      KvCache kv = f.NewKv();
      std::vector<BatchToken> batch;
      for (int32_t i = 0; i < 5; ++i) batch.push_back(At(kv, i, start + i));
      const std::vector<float> logits = f.Run(batch);
      alone.insert(alone.end(), logits.begin(), logits.end());
    }
    KvCache first = f.NewKv();
    KvCache second = f.NewKv();
    std::vector<BatchToken> batch;
    for (int32_t i = 0; i < 5; ++i) batch.push_back(At(first, i, 10 + i));
    for (int32_t i = 0; i < 5; ++i) batch.push_back(At(second, i, 90 + i));
    const std::vector<float> together = f.Run(batch);
    EXPECT_EQ(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(float)), 0)
        << tiny.architecture;
    EXPECT_EQ(first.length(), 5);
    EXPECT_EQ(second.length(), 5);
  }
}

TEST_P(ModelOn, GoingBackAndOnAgainGivesTheSameBits) {
  const Fixture f(*GetParam());
  KvCache kv = f.NewKv();
  std::vector<BatchToken> prompt;
  for (int32_t i = 0; i < 20; ++i) prompt.push_back(At(kv, i, 3 + i));
  const std::vector<float> whole = f.Run(prompt);
  kv.GoBack(7);
  const std::vector<float> again = f.Run(std::span(prompt).subspan(7));
  EXPECT_EQ(std::memcmp(again.data(), whole.data() + 7 * TinyModel::kVocabulary,
                        again.size() * sizeof(float)),
            0);
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_P(ModelOn, RecurrentLayersGoBackAndOnAgainWithTheSameBits) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "SKIP: the conformance folder is absent";
  for (const char* name : {"falcon-mamba", "lfm2moe", "falcon-h1", "qwen35", "kimi-linear",
                           "granitehybrid", "rwkv7"}) {
    const std::string path = (ConformanceDir() / "models" / name).string() + ".gguf";
    const Fixture f(*GetParam(), path);
    const auto n_vocab = static_cast<size_t>(f.model->config().n_vocab);
    KvCache kv = f.NewKv();
    std::vector<BatchToken> tokens;
    for (int32_t i = 0; i < 30; ++i) tokens.push_back(At(kv, i, 3 + i));
    const auto part = [&](int64_t begin, int64_t end) {
      return std::span(tokens).subspan(static_cast<size_t>(begin),
                                       static_cast<size_t>(end - begin));
    };
    const std::vector<float> whole = f.Run(tokens);
    const auto expect_as_in_one_pass = [&](int64_t begin, int64_t end) {
      const auto rows = std::span(whole).subspan(static_cast<size_t>(begin) * n_vocab,
                                                 static_cast<size_t>(end - begin) * n_vocab);
      EXPECT_TRUE(SameBits(f.Run(part(begin, end)), rows)) << name << " " << begin << " " << end;
    };
    EXPECT_EQ(kv.GoBack(29), 0) << name;
    expect_as_in_one_pass(0, 12);
    expect_as_in_one_pass(12, 20);
    expect_as_in_one_pass(20, 21);
    expect_as_in_one_pass(21, 22);
    EXPECT_EQ(kv.GoBack(15), 12) << name;
    expect_as_in_one_pass(12, 14);
    // Another sequence in the same batch, and then one token of each.
    KvCache other = f.NewKv();
    std::vector<BatchToken> both(part(14, 17).begin(), part(14, 17).end());
    for (int32_t i = 0; i < 5; ++i) both.push_back(At(other, i, 3 + i));
    const std::vector<float> mixed = f.Run(both);
    EXPECT_TRUE(
        SameBits(std::span(mixed).subspan(3 * n_vocab), std::span(whole).first(5 * n_vocab)))
        << name;
    expect_as_in_one_pass(17, 18);
    both = {At(other, 5, 8), tokens[18]};
    const std::vector<float> singles = f.Run(both);
    EXPECT_TRUE(
        SameBits(std::span(singles).first(n_vocab), std::span(whole).subspan(5 * n_vocab, n_vocab)))
        << name;
  }
}

// 72 rows of gate and up end within a block of those that are activated together; 80 rows of which
// the last eight are zero do not, and add nothing.
TEST_P(ModelOn, TheLastRowsOfTheFeedForwardAreActivated) {
  const auto logits_with = [&](uint32_t d_ff) {
    TinyModel tiny;
    tiny.n_layers = 1;
    tiny.d_ff = d_ff;
    tiny.edit_values = [](const TinyModel::Tensor& tensor, std::span<float> values) {
      if (!tensor.name.starts_with("blk.0.ffn_") || tensor.dims.size() == 1) return;
      const bool is_down = tensor.name == "blk.0.ffn_down.weight";
      for (size_t i = 0; i < values.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / tensor.dims[0];
        const auto column = static_cast<int64_t>(i) % tensor.dims[0];
        const int64_t hidden = is_down ? column : row;
        const int64_t other = is_down ? row : column;
        values[i] =
            hidden >= 72 ? 0 : static_cast<float>((7 * hidden + 3 * other) % 23) / 20 - 0.5F;
      }
    };
    const Fixture f(*GetParam(), tiny);
    KvCache kv = f.NewKv();
    std::vector<BatchToken> batch;
    for (int32_t i = 0; i < 3; ++i) batch.push_back(At(kv, i, 40 + i));
    return f.Run(batch);
  };
  EXPECT_THAT(logits_with(72), ::testing::Pointwise(::testing::FloatNear(1e-4F), logits_with(80)));
}

// Keys and values that are made of latents and kept, and those that attention over latents comes
// to, are the same but for rounding.
TEST_P(ModelOn, AbsorbedLatentsGiveTheLogitsOfExpandedOnes) {
  const auto logits_of = [&](bool is_absorbed) {
    TinyModel tiny = TinyLatentModel(is_absorbed);
    tiny.edit_values = [](const TinyModel::Tensor& tensor, std::span<float> values) {
      constexpr int64_t kOfHead = kTinyStill + kTinyValue;
      for (size_t i = 0; i < values.size(); ++i) {
        // Where it stands in attn_kv_b: the row of a head's keys or values, and the column.
        auto row = static_cast<int64_t>(i) / tensor.dims[0];
        auto column = static_cast<int64_t>(i) % tensor.dims[0];
        if (tensor.name.ends_with("attn_v_b.weight")) {
          row = row / kTinyValue * kOfHead + kTinyStill + row % kTinyValue;
        } else if (tensor.name.ends_with("attn_k_b.weight")) {
          std::tie(row, column) = std::pair(row / kTinyRank * kOfHead + column, row % kTinyRank);
        }
        const float center = tensor.dims.size() == 1 ? 1 : 0;
        values[i] = center + static_cast<float>((7 * row + 3 * column) % 23) / 40 - 0.25F;
      }
    };
    const Fixture f(*GetParam(), tiny);
    KvCache kv = *KvCache::Create(
        f.model->config(), {.type = KvType::kF32, .n_positions = kContext, .max_batch = kContext});
    std::vector<BatchToken> batch;
    for (int32_t i = 0; i < 20; ++i) batch.push_back(At(kv, i, 40 + 5 * i));
    return f.Run(batch);
  };
  EXPECT_THAT(logits_of(true), ::testing::Pointwise(::testing::FloatNear(1e-4F), logits_of(false)));
}

TEST_P(ModelOn, LogitsAreGivenToThoseThatWantThem) {
  for (const TinyModel& tiny : {TinyModel(), TinyStreamsModel()}) {
    const Fixture f(*GetParam(), tiny);
    KvCache kv = f.NewKv();
    std::vector<BatchToken> batch;
    for (int32_t i = 0; i < 6; ++i) batch.push_back(At(kv, i, 40 + i));
    const std::vector<float> all = f.Run(batch);
    kv.GoBack(0);
    for (BatchToken& token : batch) token.wants_logits = token.position == 2 || token.position == 5;
    constexpr size_t kRow = TinyModel::kVocabulary;
    std::vector<float> some(2 * kRow);
    ASSERT_TRUE(f.model->Forward(batch, some, nullptr));
    EXPECT_TRUE(SameBits(std::span(some).first(kRow), std::span(all).subspan(2 * kRow, kRow)))
        << tiny.architecture;
    EXPECT_TRUE(SameBits(std::span(some).last(kRow), std::span(all).subspan(5 * kRow, kRow)))
        << tiny.architecture;
  }
}

// They get the length of the first stream, which zeros cannot have.
TEST_P(ModelOn, StreamsOfZerosStayZeros) {
  TinyModel tiny = TinyStreamsModel();
  tiny.edit_values = [](const TinyModel::Tensor& tensor, std::span<float> values) {
    if (tensor.name.ends_with("_proj.weight")) std::ranges::fill(values, 0.0F);
  };
  EXPECT_THAT(LogitsOf(*GetParam(), tiny), Each(Truly([](float x) { return std::isfinite(x); })));
}

TEST_P(ModelOn, APassThatBreaksOffLeavesTheStatesAsTheyWere) {
  if (ConformanceDir().empty()) GTEST_SKIP() << "SKIP: the conformance folder is absent";
  // A matrix of the last layer: those before it have written their states by then.
  for (const auto& [name, matrix] :
       {std::pair("qwen35", "blk.3.attn_q.weight"), {"rwkv7", "blk.1.channel_mix_value.weight"}}) {
    const std::string path = (ConformanceDir() / "models" / name).string() + ".gguf";
    // Every pass reads all weights again.
    const Fixture f(*GetParam(), path, {.policy = &OffPolicy()});
    KvCache kv = f.NewKv();
    const std::vector<BatchToken> tokens = {At(kv, 0, 5), At(kv, 1, 6), At(kv, 2, 7)};
    const std::vector<float> whole = f.Run(tokens);
    kv.GoBack(0);
    f.Run(std::span(tokens).first(2));
    const auto last = std::ranges::find(f.matrices, matrix, &WeightMatrix::name);
    f.faulty->SetFaults({.broken_byte = last->offset});
    std::vector<float> logits(static_cast<size_t>(f.model->config().n_vocab));
    EXPECT_FALSE(f.model->Forward(std::span(tokens).last(1), logits, nullptr)) << name;
    EXPECT_EQ(kv.length(), 2) << name;
    f.faulty->SetFaults({});
    EXPECT_TRUE(SameBits(f.Run(std::span(tokens).last(1)), std::span(whole).last(logits.size())))
        << name;
  }
}

TEST_P(ModelOn, ACancelledPassLeavesTheKvCacheAsLongAsItWas) {
  const Fixture f(*GetParam());
  KvCache kv = f.NewKv();
  f.Run(std::vector<BatchToken>{At(kv, 0, 5)});
  const std::atomic<bool> cancel{true};
  std::vector<float> logits(TinyModel::kVocabulary);
  const std::vector<BatchToken> next = {At(kv, 1, 6)};
  const auto done = f.model->Forward(next, logits, &cancel);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(kv.length(), 1);
}

// A llama of two experts out of four, whose gates may be joined with up.
TinyModel Mixture(bool is_joined) {
  constexpr int64_t kExperts = 4;
  constexpr int64_t kWidth = 24;
  TinyModel tiny;
  tiny.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.expert_count", kExperts));
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.expert_used_count", 2));
  };
  tiny.edit_tensors = [=](std::vector<TinyModel::Tensor>& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.name.find("ffn_") != std::string::npos && !tensor.name.ends_with("norm.weight");
    });
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors.push_back({layer + "ffn_gate_inp.weight", {32, kExperts}});
      if (is_joined) {
        tensors.push_back({layer + "ffn_gate_up_exps.weight", {32, 2 * kWidth, kExperts}});
      } else {
        tensors.push_back({layer + "ffn_gate_exps.weight", {32, kWidth, kExperts}});
        tensors.push_back({layer + "ffn_up_exps.weight", {32, kWidth, kExperts}});
      }
      tensors.push_back({layer + "ffn_down_exps.weight", {kWidth, 32, kExperts}});
    }
  };
  // Numbers by expert, part, row and column.
  tiny.edit_values = [](const TinyModel::Tensor& tensor, std::span<float> values) {
    const bool joins = tensor.name.find("gate_up_exps") != std::string::npos;
    const bool is_up = tensor.name.find("ffn_up_exps") != std::string::npos;
    if (!joins && !is_up && tensor.name.find("gate_exps") == std::string::npos) return;
    const size_t rows = static_cast<size_t>(tensor.dims[1]);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / 32 % rows;
      const size_t part = joins ? row / kWidth : static_cast<size_t>(is_up);
      const size_t mixed = i / 32 / rows * 7 + part * 5 + row % kWidth * 3 + i % 32;
      values[i] = static_cast<float>(mixed % 13) * 0.05F - 0.3F;
    }
  };
  return tiny;
}

TEST_P(ModelOn, GatesOfExpertsMayBeJoinedWithUp) {
  EXPECT_EQ(LogitsOf(*GetParam(), Mixture(/*is_joined=*/true)),
            LogitsOf(*GetParam(), Mixture(/*is_joined=*/false)));
}

TEST_P(ModelOn, AScaleMultipliesWhatItsMatrixGives) {
  // Powers of two, so that it does not matter whether the matrix has them already.
  for (const char* stem : {"blk.0.attn_v", "blk.1.attn_output", "blk.0.ffn_down_exps"}) {
    const bool is_of_experts = std::string(stem).ends_with("exps");
    const std::vector<float> scales =
        is_of_experts ? std::vector<float>{2, 4, 0.5F, 8} : std::vector<float>{2};
    const TinyModel plain = Mixture(/*is_joined=*/false);
    TinyModel scaled = plain;
    scaled.edit_tensors = [&](std::vector<TinyModel::Tensor>& tensors) {
      plain.edit_tensors(tensors);
      tensors.push_back({std::string(stem) + ".scale", {std::ssize(scales)}});
    };
    scaled.edit_values = [&](const TinyModel::Tensor& tensor, std::span<float> values) {
      plain.edit_values(tensor, values);
      if (tensor.name.ends_with(".scale")) std::ranges::copy(scales, values.begin());
    };
    TinyModel multiplied = plain;
    multiplied.edit_values = [&](const TinyModel::Tensor& tensor, std::span<float> values) {
      plain.edit_values(tensor, values);
      if (tensor.name != std::string(stem) + ".weight") return;
      const size_t each = values.size() / scales.size();
      for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / each];
    };
    const std::vector<float> logits = LogitsOf(*GetParam(), scaled);
    EXPECT_EQ(logits, LogitsOf(*GetParam(), multiplied)) << stem;
    EXPECT_NE(logits, LogitsOf(*GetParam(), plain)) << stem;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ModelOn,
                         ::testing::ValuesIn(AllKernelTables().begin(), AllKernelTables().end()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace thaw
