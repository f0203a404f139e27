#include "engine/memory_plan.h"

#include <gmock/gmock.h>

#include <optional>

#include "engine/shape_model.h"
#include "gguf/gguf_file.h"
#include "io/temporary_directory.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "residency/row_cache.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 13 MiB of weights, a KV cache of 2 KiB a position in float16.
constexpr ModelShape kShape = {.name = "test",
                               .n_layers = 4,
                               .d_model = 512,
                               .d_ff = 1536,
                               .n_heads = 8,
                               .n_kv_heads = 2,
                               .head_dim = 64,
                               .n_vocab = 1000,
                               .context_length = 8192};

// 52 MiB of weights, nearly all of them of experts.
constexpr ModelShape kMixture = {.name = "mixture",
                                 .family = "qwen3moe",
                                 .n_layers = 4,
                                 .d_model = 256,
                                 .d_ff = 128,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 64,
                                 .n_vocab = 300,
                                 .context_length = 8192,
                                 .n_experts = 128,
                                 .n_experts_used = 2};

class MemoryPlanTest : public ::testing::Test {
 protected:
  void SetUp() override { Describe(kShape); }

  // Plans are made for this shape from now on.
  void Describe(const ModelShape& shape) {
    const TemporaryDirectory directory;
    const std::string path = directory.PathOf("model.gguf");
    ASSERT_TRUE(WriteShapeModel(shape, ElementType::kQ8_0, /*seed=*/1, path,
                                [](uint64_t, uint64_t) { return true; }));
    const auto file = GgufFile::Open(path);
    ASSERT_TRUE(file);
    auto described = DescribeModel(*file);
    ASSERT_TRUE(described) << described.error().message;
    map_ = *TileMap::Create(described->matrices);
    config_ = described->config;
    input_.config = &config_;
    input_.map = &*map_;
    input_.policy = &PlannedPolicy();
    input_.pinned.assign(static_cast<size_t>(map_->tile_count()), 0);
    input_.resident_bytes = 10 * kMiB;
    input_.peak_resident_bytes = 10 * kMiB;
    input_.available_bytes = 1000 * kMiB;
    input_.default_budget_bytes = 900 * kMiB;
    input_.huge_pages = true;
    input_.threads = 2;
    input_.context = 1024;
  }

  Result<MemoryPlan> With(std::string_view budget) {
    input_.budget = *ParseBudget(budget);
    return MakeMemoryPlan(input_);
  }

  std::optional<TileMap> map_;
  ModelConfig config_;
  MemoryPlanInput input_;
};

TEST_F(MemoryPlanTest, SharesAddUpToNoMoreThanAnyBudgetFromTheFloorOn) {
  const MemoryPlan least = *With("floor");
  for (uint64_t above = 0; above < 30 * kMiB; above += 700 << 10) {
    input_.budget = {.base = BudgetRequest::Base::kNothing, .bytes = least.floor_bytes + above};
    const auto plan = MakeMemoryPlan(input_);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->claimed_bytes(), plan->budget_bytes);
    EXPECT_EQ(plan->shares.resident_bytes + plan->shares.streamed_bytes, plan->weight_bytes);
    EXPECT_EQ(plan->weight_bytes, map_->weight_bytes());
    EXPECT_EQ(plan->kv_bytes, KvCache::Bytes(config_, {.type = KvType::kF16, .n_positions = 1024}));
    EXPECT_EQ(plan->row_cache_bytes, RowCache::Bytes(*map_));
    EXPECT_EQ(plan->bytes_read_per_token(), plan->shares.streamed_bytes);
  }
}

TEST_F(MemoryPlanTest, MoreBudgetNeverStreamsMore) {
  const uint64_t floor = With("floor")->floor_bytes;
  uint64_t streamed = UINT64_MAX;
  for (uint64_t above = 0; above < 30 * kMiB; above += kMiB) {
    input_.budget = {.base = BudgetRequest::Base::kNothing, .bytes = floor + above};
    const MemoryPlan plan = *MakeMemoryPlan(input_);
    // A larger chunk of the prompt may take what a few tiles had.
    EXPECT_LE(plan.shares.streamed_bytes, streamed == UINT64_MAX ? streamed : streamed + 2 * kMiB);
    streamed = plan.shares.streamed_bytes;
  }
  EXPECT_EQ(streamed, 0);
}

TEST_F(MemoryPlanTest, BelowTheFloorItNamesTheFloorAndWhatCouldBeLowered) {
  const uint64_t floor = With("floor")->floor_bytes;
  const auto refused = With("12MiB");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr(fmt::format("({} bytes)", floor)));
  EXPECT_THAT(refused.error().message, HasSubstr("-c"));
  EXPECT_THAT(refused.error().message, HasSubstr("q8_0"));
  input_.kv_type = KvType::kQ8_0;
  EXPECT_THAT(With("12MiB").error().message, Not(HasSubstr("q8_0")));
}

TEST_F(MemoryPlanTest, ContextAndKvTypeMoveTheFloorByWhatTheyTake) {
  const uint64_t floor = With("floor")->floor_bytes;
  input_.kv_type = KvType::kF32;
  const uint64_t wide = With("floor")->floor_bytes;
  EXPECT_EQ(wide - floor, KvCache::Bytes(config_, {.type = KvType::kF32, .n_positions = 1024}) -
                              KvCache::Bytes(config_, {.type = KvType::kF16, .n_positions = 1024}));
  input_.context = 512;
  EXPECT_LT(With("floor")->floor_bytes, wide);
}

TEST_F(MemoryPlanTest, AContextThatNobodyAskedForIsLoweredToFit) {
  input_.context = 0;
  EXPECT_EQ(With("900MiB")->context, 4096);
  const uint64_t floor = With("900MiB")->floor_bytes;
  input_.budget = {.base = BudgetRequest::Base::kNothing, .bytes = floor - 2 * kMiB};
  const auto lowered = MakeMemoryPlan(input_);
  ASSERT_TRUE(lowered) << lowered.error().message;
  EXPECT_EQ(lowered->context, 2048);
  input_.context = 4096;
  EXPECT_FALSE(MakeMemoryPlan(input_)) << "a stated context is kept";
}

TEST_F(MemoryPlanTest, WhatWasHeldWhileOpeningIsPartOfTheFloor) {
  input_.peak_resident_bytes = 100 * kMiB;
  EXPECT_GE(With("floor")->floor_bytes, 100 * kMiB);
}

TEST_F(MemoryPlanTest, PinnedWeightsRaiseTheFloor) {
  const uint64_t floor = With("floor")->floor_bytes;
  uint64_t pinned = 0;
  for (int32_t tile = 0; tile < map_->tile_count(); ++tile) {
    if (map_->matrix_of(tile).name.find("ffn_down") == std::string::npos) continue;
    input_.pinned[static_cast<size_t>(tile)] = 1;
    pinned += map_->tile(tile).bytes;
  }
  const MemoryPlan plan = *With("floor");
  EXPECT_GE(plan.floor_bytes + 2 * kMiB, floor + pinned);
  EXPECT_GE(plan.shares.resident_bytes, pinned);
}

TEST_F(MemoryPlanTest, AllLogitsTakeMemoryWhereWeightsAreStreamed) {
  input_.prefill_chunk = 64;
  const auto streamed = With("floor+50%");
  const auto resident = With("floor+110%");
  ASSERT_TRUE(streamed && resident);
  ASSERT_FALSE(streamed->shares.HoldsAll());
  ASSERT_TRUE(resident->shares.HoldsAll());
  input_.all_logits = true;
  const auto all = With("floor+50%");
  ASSERT_TRUE(all);
  EXPECT_GT(all->logits_chunk, streamed->logits_chunk);
  EXPECT_LE(all->logits_chunk, all->prefill_chunk);
  EXPECT_LE(all->logits_bytes, (all->budget_bytes - all->floor_bytes) / 8);
  EXPECT_LE(all->claimed_bytes(), all->budget_bytes);
  EXPECT_EQ(With("floor")->floor_bytes, streamed->floor_bytes);
  EXPECT_EQ(With("floor+110%")->logits_chunk, resident->logits_chunk);
}

TEST_F(MemoryPlanTest, ChunksOfAPromptGrowWithTheBudget) {
  EXPECT_EQ(With("floor")->prefill_chunk, 8);
  const MemoryPlan streaming = *With("floor+10MiB");
  EXPECT_GT(streaming.shares.streamed_bytes, 0U);
  EXPECT_EQ(streaming.prefill_chunk, 40);
  EXPECT_EQ(With("900MiB")->prefill_chunk, 256);
  input_.prefill_chunk = 37;
  EXPECT_EQ(With("900MiB")->prefill_chunk, 37);
}

// Of a mixture each expert sees a share of a chunk alone, and where experts are read anew for each
// chunk, larger ones read less.
TEST_F(MemoryPlanTest, MixturesTakeLargerChunks) {
  Describe(kMixture);
  const MemoryPlan largest = *With("900MiB");
  EXPECT_EQ(largest.prefill_chunk, 512);
  input_.budget = {.base = BudgetRequest::Base::kNothing,
                   .bytes = largest.claimed_bytes() - largest.scratch_bytes / 4};
  const auto smaller = MakeMemoryPlan(input_);
  ASSERT_TRUE(smaller);
  EXPECT_TRUE(smaller->shares.HoldsAll());
  EXPECT_EQ(smaller->prefill_chunk, 256);
  const MemoryPlan streamed = *With("floor+40MiB");
  EXPECT_FALSE(streamed.shares.HoldsAll());
  EXPECT_EQ(streamed.prefill_chunk, 256);
  EXPECT_LE(streamed.claimed_bytes(), streamed.budget_bytes);
  // As with others, working memory takes an eighth of what lies above the floor.
  EXPECT_LE(With("floor+10MiB")->prefill_chunk, 80);
  EXPECT_EQ(With("floor")->prefill_chunk, 8);
}

}  // namespace
}  // namespace thaw
