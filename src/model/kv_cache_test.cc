#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

namespace thaw {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.n_layers = 3;
  config.n_kv_heads = 2;
  config.head_dim = 6;
  config.v_head_dim = 10;
  return config;
}

class KvCacheOf : public ::testing::TestWithParam<KvType> {};

TEST_P(KvCacheOf, EveryHeadHasItsOwnKeysAndValues) {
  const ModelConfig config = Config();
  constexpr int64_t kPositions = 7;
  auto cache = KvCache::Create(config, GetParam(), kPositions);
  ASSERT_TRUE(cache);
  const int64_t key_bytes = kPositions * config.head_dim * KvTypeBytes(GetParam());
  const int64_t value_bytes = kPositions * config.v_head_dim * KvTypeBytes(GetParam());
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

INSTANTIATE_TEST_SUITE_P(Types, KvCacheOf, ::testing::Values(KvType::kF32, KvType::kF16));

TEST(KvCache, StatesItsBytes) {
  // 3 layers x 2 heads x (7 x 6 and 7 x 10 numbers, each rounded up to cache lines).
  EXPECT_EQ(KvCache::Bytes(Config(), KvType::kF32, 7), 6 * (192 + 320));
  EXPECT_EQ(KvCache::Bytes(Config(), KvType::kF16, 7), 6 * (128 + 192));
}

TEST(KvCache, MoreThanTheMachineHasIsAnError) {
  const auto cache = KvCache::Create(Config(), KvType::kF32, int64_t{1} << 50);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thaw
