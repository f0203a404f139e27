// What the engine computes does not depend on how its weights come into memory.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "engine/engine.h"
#include "engine/session.h"
#include "engine/shape_model.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

constexpr auto kNoProgress = [](uint64_t, uint64_t) { return true; };

// 22 MiB of weights in some 50 tiles of several sizes.
constexpr ModelShape kShape = {.name = "test",
                               .n_layers = 3,
                               .d_model = 768,
                               .d_ff = 2304,
                               .n_heads = 12,
                               .n_kv_heads = 4,
                               .head_dim = 64,
                               .n_vocab = 1500,
                               .context_length = 512};
constexpr int64_t kTokens = 40;

// 27 MiB of weights, 21 of them of experts in 144 tiles, as many of which as a budget has room for
// stay; the others are read when a token has chosen them.
constexpr ModelShape kExpertShape = [] {
  ModelShape shape = kShape;
  shape.name = "experts";
  shape.family = "qwen3moe";
  shape.d_ff = 192;
  shape.n_experts = 16;
  shape.n_experts_used = 3;
  return shape;
}();

// 27 MiB of weights, 4 of them in matrices of heads whose tiles end within a head.
constexpr ModelShape kLatentShape = [] {
  ModelShape shape = kShape;
  shape.name = "latents";
  shape.family = "deepseek2";
  shape.n_heads = 41;
  shape.n_kv_heads = 1;
  shape.d_ff = 768;
  shape.kv_rank = 256;
  shape.q_rank = 256;
  shape.rope_dim = 32;
  return shape;
}();

class BudgetInvariance : public ::testing::TestWithParam<const ModelShape*> {
 protected:
  void SetUp() override {
    const auto written =
        WriteShapeModel(*GetParam(), ElementType::kQ8_0, /*seed=*/5, path_, kNoProgress);
    ASSERT_TRUE(written) << written.error().message;
    for (int64_t i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int32_t>(i * 37 % 1500));
    expected_ = Logits(Base());
  }

  static EngineOptions Base() {
    EngineOptions options;
    options.threads = 2;
    options.kv_type = KvType::kF32;
    options.context = kTokens;
    return options;
  }

  static EngineOptions With(std::string_view budget) {
    EngineOptions options = Base();
    options.budget = *ParseBudget(budget);
    return options;
  }

  std::vector<float> Logits(const EngineOptions& options) {
    auto engine = Engine::Load(path_, options, kNoProgress);
    EXPECT_TRUE(engine) << engine.error().message;
    return engine ? LogitsOf(**engine) : std::vector<float>();
  }

  std::vector<float> LogitsOf(Engine& engine) {
    std::vector<float> all;
    const auto done =
        engine.ComputeLogits(tokens_, [&](std::span<const float> rows) -> Result<void> {
          all.insert(all.end(), rows.begin(), rows.end());
          return {};
        });
    EXPECT_TRUE(done) << done.error().message;
    const CacheStatistics s = engine.cache_statistics();
    EXPECT_EQ(s.pinned_bytes, 0);
    EXPECT_LE(s.resident_bytes, s.capacity_bytes);
    return all;
  }

  void ExpectTheSame(const EngineOptions& options, const std::string& what) {
    const std::vector<float> logits = Logits(options);
    ASSERT_EQ(logits.size(), expected_.size()) << what;
    EXPECT_EQ(std::memcmp(logits.data(), expected_.data(), logits.size() * sizeof(float)), 0)
        << what;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.PathOf("model.gguf");
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, BudgetInvariance,
                         ::testing::Values(&kShape, &kExpertShape, &kLatentShape),
                         [](const auto& shape) { return std::string(shape.param->name); });

constexpr std::string_view kBudgets[] = {"floor",     "floor+512KiB", "floor+25%",
                                         "floor+50%", "floor+75%",    "floor+110%"};

TEST_P(BudgetInvariance, HoldsForEveryBudgetAndThread) {
  for (const std::string_view budget : kBudgets) {
    for (const int threads : {1, 2}) {
      EngineOptions options = With(budget);
      options.threads = threads;
      ExpectTheSame(options, fmt::format("{} with {} threads", budget, threads));
    }
  }
}

TEST_P(BudgetInvariance, HoldsForEveryPolicyAtEveryBudget) {
  for (const std::string_view budget : kBudgets) {
    for (const Policy* policy : AllPolicies()) {
      const bool needs_all = policy->placement() == Placement::kAll;
      EngineOptions options = With(needs_all ? "floor" : budget);
      options.policy = policy->name();
      ExpectTheSame(options, fmt::format("{} at {}", policy->name(), budget));
    }
  }
}

TEST_P(BudgetInvariance, HoldsForEveryWayOfReadingAhead) {
  for (const std::string_view budget : {"floor", "floor+50%"}) {
    for (const int ahead : {0, 1, 3, 100, -1}) {
      for (const bool synchronous : {false, true}) {
        for (const int io_threads : {1, 2}) {
          EngineOptions options = With(budget);
          options.prefetch_ahead = ahead;
          options.synchronous_prefetch = synchronous;
          options.io_threads = io_threads;
          ExpectTheSame(options, fmt::format("{}: {} ahead, {}, {} threads", budget, ahead,
                                             synchronous, io_threads));
        }
      }
    }
  }
}

TEST_P(BudgetInvariance, HoldsForEveryChunkAndPreload) {
  for (const std::string_view budget : {"floor+10MiB", "floor+50%"}) {
    for (const int64_t chunk : {1, 7, 40}) {
      for (const bool preload : {false, true}) {
        EngineOptions options = With(budget);
        options.prefill_chunk = chunk;
        options.preload = preload;
        options.verify = preload;
        ExpectTheSame(options,
                      fmt::format("{} in chunks of {}, preload {}", budget, chunk, preload));
      }
    }
  }
}

TEST_P(BudgetInvariance, HoldsWhileTheBudgetChanges) {
  auto engine = Engine::Load(path_, With("floor+50%"), kNoProgress);
  ASSERT_TRUE(engine) << engine.error().message;
  const uint64_t floor = (*engine)->plan().claimed_bytes() - 12 * (uint64_t{1} << 20);
  std::atomic<bool> stop{false};
  std::atomic<int> changes{0};
  std::thread changer([&] {
    for (uint64_t i = 0; !stop.load(); ++i) {
      const uint64_t bytes = floor + (i * 7 % 40) * (uint64_t{1} << 20);
      if ((*engine)->SetBudget({.base = BudgetRequest::Base::kNothing, .bytes = bytes})) ++changes;
    }
  });
  for (int round = 0; round < 4; ++round) {
    const std::vector<float> logits = LogitsOf(**engine);
    EXPECT_EQ(std::memcmp(logits.data(), expected_.data(), logits.size() * sizeof(float)), 0);
  }
  stop.store(true);
  changer.join();
  EXPECT_GT(changes.load(), 0);
}

TEST_P(BudgetInvariance, ALowerBudgetIsObeyedAndAHigherOneTakenUp) {
  auto engine = Engine::Load(path_, With("floor+110%"), kNoProgress);
  ASSERT_TRUE(engine) << engine.error().message;
  LogitsOf(**engine);
  const MemoryPlan before = (*engine)->plan();
  EXPECT_EQ(before.shares.streamed_bytes, 0);
  const uint64_t less = before.claimed_bytes() - 12 * (uint64_t{1} << 20);
  ASSERT_TRUE((*engine)->SetBudget({.base = BudgetRequest::Base::kNothing, .bytes = less}));
  const MemoryPlan low = (*engine)->plan();
  EXPECT_EQ(low.budget_bytes, less);
  EXPECT_FALSE(low.shares.HoldsAll());
  EXPECT_LE((*engine)->cache_statistics().resident_bytes, low.weight_capacity_bytes);
  LogitsOf(**engine);
  ASSERT_TRUE(
      (*engine)->SetBudget({.base = BudgetRequest::Base::kNothing, .bytes = before.budget_bytes}));
  EXPECT_EQ((*engine)->plan().shares.streamed_bytes, 0);
  LogitsOf(**engine);
  const uint64_t misses = (*engine)->cache_statistics().misses;
  LogitsOf(**engine);
  EXPECT_EQ((*engine)->cache_statistics().misses, misses) << "all that is used is in memory again";
  const auto refused = (*engine)->SetBudget({.base = BudgetRequest::Base::kNothing, .bytes = 9});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("9 B"));
  EXPECT_EQ((*engine)->plan().budget_bytes, before.budget_bytes);
}

TEST_P(BudgetInvariance, ASecondSessionTakesItsMemoryFromTheWeights) {
  EngineOptions options = With("floor+110%");
  options.context = 512;
  auto engine = Engine::Load(path_, options, kNoProgress);
  ASSERT_TRUE(engine) << engine.error().message;
  // Everything fits, and nothing is left over.
  ASSERT_TRUE((*engine)->SetBudget(
      {.base = BudgetRequest::Base::kNothing, .bytes = (*engine)->plan().claimed_bytes()}));
  const MemoryPlan alone = (*engine)->plan();
  EXPECT_EQ(alone.shares.streamed_bytes, 0);
  const auto first = (*engine)->NewSession();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ((*engine)->plan().weight_capacity_bytes, alone.weight_capacity_bytes);
  {
    const auto second = (*engine)->NewSession();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_LT((*engine)->plan().weight_capacity_bytes, alone.weight_capacity_bytes);
  }
  EXPECT_EQ((*engine)->plan().weight_capacity_bytes, alone.weight_capacity_bytes);
}

}  // namespace
}  // namespace thaw
