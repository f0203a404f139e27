#include "model/kv_cache.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "kernels/kernel_table.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_kv_heads = 2;
  config.head_dim = 6;
  config.v_head_dim = 10;
  return config;
}

// Heads that blocks of 32 numbers can hold.
ModelConfig BlockConfig() {
  ModelConfig config = Config();
  config.head_dim = 64;
  config.v_head_dim = 32;
  return config;
}

class KvCacheOf : public ::testing::TestWithParam<KvType> {};

TEST_P(KvCacheOf, EveryHeadHasItsOwnKeysAndValues) {
  const ModelConfig config = GetParam() == KvType::kQ8_0 ? BlockConfig() : Config();
  constexpr int64_t kPositions = 7;
  auto cache = KvCache::Create(config, GetParam(), kPositions);
  ASSERT_TRUE(cache);
  const int64_t key_bytes = KeyBytes(GetParam(), config.head_dim, kPositions);
  const int64_t value_bytes = kPositions * KvRowBytes(GetParam(), config.v_head_dim);
  const auto mark = [](int64_t layer, int64_t head) { return static_cast<int>(layer * 2 + head); };
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t head = 0; head < 2; ++head) {
      std::memset(cache->Keys(layer, head), mark(layer, head), static_cast<size_t>(key_bytes));
      std::memset(cache->Values(layer, head), 100 + mark(layer, head),
                  static_cast<size_t>(value_bytes));
    }
  }
  for (int64_t layer = 0; layer < 3; ++layer) {
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t i = 0; i < key_bytes; ++i) {
        ASSERT_EQ(static_cast<int>(cache->Keys(layer, head)[i]), mark(layer, head));
      }
      for (int64_t i = 0; i < value_bytes; ++i) {
        ASSERT_EQ(static_cast<int>(cache->Values(layer, head)[i]), 100 + mark(layer, head));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvCacheOf, ::testing::ValuesIn(kAllKvTypes));

TEST(KvCache, StatesItsBytes) {
  // 3 layers x 2 heads x (a unit of 16 keys of 6 numbers, and 7 x 10 numbers of values rounded up
  // to cache lines).
  EXPECT_EQ(KvCache::Bytes(Config(), KvType::kF32, 7), 6 * (384 + 320));
  EXPECT_EQ(KvCache::Bytes(Config(), KvType::kF16, 7), 6 * (192 + 192));
  EXPECT_EQ(KvCache::Bytes(Config(), KvType::kBF16, 7), 6 * (192 + 192));
  // 16 keys of 2 blocks and 7 values of one, each block 34 bytes: 1088 and 238.
  EXPECT_EQ(KvCache::Bytes(BlockConfig(), KvType::kQ8_0, 7), 6 * (1088 + 256));
}

TEST_P(KvCacheOf, StoresKeysAndValuesWhereAttentionLooksForThem) {
  const KernelTable& kernels = **SelectKernels("portable");
  auto cache = KvCache::Create(BlockConfig(), GetParam(), 40);
  ASSERT_TRUE(cache);
  std::vector<float> key(64, 0.0f);
  std::vector<float> value(32, 0.0f);
  for (int64_t position = 0; position < 40; ++position) {
    key[3] = position == 21 ? 100.0f : 0.0f;  // what a query of a one at 3 finds alone
    value[5] = static_cast<float>(position);
    cache->Store(kernels, 1, 1, position, key.data(), value.data());
  }
  std::vector<float> query(64, 0.0f);
  query[3] = 1;
  std::vector<float> out(32, -1.0f);
  const AttentionArguments arguments = {.q = query.data(),
                                        .first_position = 39,
                                        .head_dim = 64,
                                        .v_head_dim = 32,
                                        .kv_type = GetParam(),
                                        .k = cache->Keys(1, 1),
                                        .v = cache->Values(1, 1),
                                        .out = out.data()};
  auto scratch = *AlignedBuffer::Allocate(static_cast<size_t>(AttentionScratchBytes(1, 64, 32)),
                                          "the scratch of a test");
  Attend(kernels, arguments, scratch.data());
  EXPECT_NEAR(out[5], 21.0f, 21.0f / 127);
}

TEST(KvCache, RefusesBlocksForHeadsThatAreNoMultipleOf32) {
  ModelConfig keys = BlockConfig();
  keys.head_dim = 80;
  ModelConfig values = BlockConfig();
  values.v_head_dim = 80;
  for (const ModelConfig& config : {keys, values}) {
    const auto cache = KvCache::Create(config, KvType::kQ8_0, 7);
    ASSERT_FALSE(cache);
    EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(cache.error().message, HasSubstr("have 80: take f16 or f32"));
    EXPECT_TRUE(KvCache::CheckType(config, KvType::kF16));
  }
  EXPECT_TRUE(KvCache::CheckType(BlockConfig(), KvType::kQ8_0));
}

TEST(KvCache, MoreThanTheMachineHasIsAnError) {
  const auto cache = KvCache::Create(Config(), KvType::kF32, int64_t{1} << 50);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thaw
