#include "model/kv_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/dequantize.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config;
  config.n_layers = 3;
  config.layers.resize(3);
  for (LayerConfig& layer : config.layers) {
    layer.heads = {.n = 2, .n_kv = 2, .size = 6, .v_size = 10};
  }
  return config;
}

// Heads that blocks of 32 numbers can hold.
ModelConfig BlockConfig() {
  ModelConfig config = Config();
  for (LayerConfig& layer : config.layers) {
    layer.heads.size = 64;
    layer.heads.v_size = 32;
  }
  return config;
}

class KvCacheOf : public ::testing::TestWithParam<KvType> {};

TEST_P(KvCacheOf, EveryHeadHasItsOwnKeysAndValues) {
  const ModelConfig config = IsPaired(GetParam()) ? BlockConfig() : Config();
  constexpr int64_t kPositions = 7;
  auto cache = KvCache::Create(config, {.type = GetParam(), .n_positions = kPositions});
  ASSERT_TRUE(cache);
  const int64_t key_bytes = KeyBytes(GetParam(), config.layers[0].heads.size, kPositions);
  const int64_t value_bytes = ValueBytes(GetParam(), config.layers[0].heads.v_size, kPositions);
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
  EXPECT_EQ(KvCache::Bytes(Config(), {.type = KvType::kF32, .n_positions = 7}), 6 * (384 + 320));
  EXPECT_EQ(KvCache::Bytes(Config(), {.type = KvType::kF16, .n_positions = 7}), 6 * (192 + 192));
  EXPECT_EQ(KvCache::Bytes(Config(), {.type = KvType::kBF16, .n_positions = 7}), 6 * (192 + 192));
  // Units of 16 keys of 2 blocks and of 64 values of one, each block 34 bytes.
  EXPECT_EQ(KvCache::Bytes(BlockConfig(), {.type = KvType::kQ8_0, .n_positions = 7}),
            6 * (1088 + 2176));
  // Units of 64 positions, each number 2 bytes and each row 2 more.
  EXPECT_EQ(KvCache::Bytes(BlockConfig(), {.type = KvType::kI16, .n_positions = 7}),
            6 * 64 * (130 + 66));
}

TEST(KvCache, LayersThatSeeThoseOfAnotherHaveNoneOfTheirOwn) {
  ModelConfig config = Config();
  const KvSize size{.type = KvType::kF32, .n_positions = 7};
  const uint64_t own = KvCache::Bytes(config, size);
  config.layers[2].kv_layer = 1;
  EXPECT_EQ(KvCache::Bytes(config, size), own / 3 * 2);
  auto cache = KvCache::Create(config, size);
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->Keys(2, 1), cache->Keys(1, 1));
  EXPECT_EQ(cache->Values(2, 1), cache->Values(1, 1));
  EXPECT_NE(cache->Keys(2, 1), cache->Keys(0, 1));
}

TEST_P(KvCacheOf, StoresKeysAndValuesWhereAttentionLooksForThem) {
  const KernelTable& kernels = **SelectKernels("portable");
  auto cache = KvCache::Create(BlockConfig(), {.type = GetParam(), .n_positions = 40});
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

// The middle one of three layers has a window of 16.
ModelConfig WindowConfig() {
  ModelConfig config = BlockConfig();
  config.layers[1].window.size = 16;
  return config;
}

TEST(KvCache, HoldsOfALayerWithAWindowWhatMayBeSeenAgain) {
  const ModelConfig config = WindowConfig();
  const KvSize size{.type = KvType::kF32, .n_positions = 1000, .max_batch = 8};
  auto cache = KvCache::Create(config, size);
  ASSERT_TRUE(cache);
  // The window, a batch, and a window to go back: 40 positions, in whole blocks.
  EXPECT_EQ(cache->Ring(0), 0);
  EXPECT_EQ(cache->Ring(1), 64);
  constexpr int64_t kBytesOfPosition = 2 * (64 + 32) * sizeof(float);
  // Units of keys are whole: 1000 positions take the keys of 1008.
  constexpr int64_t kBytesOfUnits = int64_t{2} * 8 * 64 * sizeof(float);
  EXPECT_EQ(KvCache::Bytes(config, size),
            2 * (1000 * kBytesOfPosition + kBytesOfUnits) + 64 * kBytesOfPosition);
  EXPECT_EQ(KvCache::Create(config, {.n_positions = 64, .max_batch = 8})->Ring(1), 0);
}

TEST(KvCache, TellsWhatAPositionSees) {
  constexpr uint64_t kBytesOfPosition = 2 * (64 + 32) * 2;  // of one layer, in f16
  EXPECT_EQ(KvCache::BytesSeen(BlockConfig(), KvType::kF16, 1), 3 * kBytesOfPosition);
  EXPECT_EQ(KvCache::BytesSeen(WindowConfig(), KvType::kF16, 16), 3 * 16 * kBytesOfPosition);
  EXPECT_EQ(KvCache::BytesSeen(WindowConfig(), KvType::kF16, 50), (2 * 50 + 16) * kBytesOfPosition);
}

// Of the middle one of three layers keys are chosen, by keys of 8 numbers.
ModelConfig ChoosingConfig() {
  ModelConfig config = BlockConfig();
  config.indexer = {.top_k = 16, .n_heads = 2, .key_size = 8};
  config.layers[1].index_key_size = 8;
  return config;
}

TEST(KvCache, KeepsTheKeysByWhichALayerChooses) {
  const KernelTable& kernels = **SelectKernels("");
  for (const KvType type : kAllKvTypes) {
    constexpr int64_t kPositions = 20;
    auto cache = KvCache::Create(ChoosingConfig(), {.type = type, .n_positions = kPositions});
    ASSERT_TRUE(cache);
    std::vector<float> key(8);
    for (int64_t position = 0; position < kPositions; ++position) {
      std::ranges::fill(key, static_cast<float>(position) / 4);
      cache->StoreIndexKey(kernels, 1, position, key.data());
    }
    std::memset(cache->Keys(2, 0), 0xff, 64);
    std::memset(cache->Values(1, 1), 0xff, static_cast<size_t>(ValueBytes(type, 32, kPositions)));
    const WeightRows rows = cache->IndexKeys(1, 5, 15);
    EXPECT_EQ(rows.n_rows, 15);
    std::vector<float> values(15 * 8);
    const auto bytes = static_cast<size_t>(15 * RowBytes(rows.type, rows.k));
    ASSERT_TRUE(Dequantize(rows.type, std::span(rows.data, bytes), values));
    EXPECT_EQ(values.front(), 1.25F) << KvTypeName(type);
    EXPECT_EQ(values.back(), 4.75F) << KvTypeName(type);
  }
}

TEST(KvCache, CountsTheKeysByWhichALayerChooses) {
  const KvSize size{.type = KvType::kQ8_0, .n_positions = 64};
  EXPECT_EQ(KvCache::Bytes(ChoosingConfig(), size),
            KvCache::Bytes(BlockConfig(), size) + 64 * 8 * sizeof(uint16_t));
  // All of them are looked at, and of the others those that are chosen.
  EXPECT_EQ(KvCache::BytesSeen(ChoosingConfig(), KvType::kF16, 50),
            KvCache::BytesSeen(BlockConfig(), KvType::kF16, 16) + 50 * 8 * sizeof(uint16_t));
}

TEST(KvCache, GoesBackAsFarAsWindowsAreHeld) {
  const auto back_from_100 = [](const ModelConfig& config, int64_t length) {
    auto cache = KvCache::Create(config, {.n_positions = 1000, .max_batch = 8});
    THAW_CHECK(cache);
    for (int64_t end = 8; end < 100; end += 8) cache->Extend(end);
    cache->Extend(100);
    const int64_t left = cache->GoBack(length);
    EXPECT_EQ(cache->length(), left);
    return left;
  };
  EXPECT_EQ(back_from_100(WindowConfig(), 100), 100);
  EXPECT_EQ(back_from_100(WindowConfig(), 59), 59) << "sees 44 and on; 107 may lie where 43 did";
  EXPECT_EQ(back_from_100(WindowConfig(), 58), 0);
  EXPECT_EQ(back_from_100(BlockConfig(), 3), 3);
}

TEST(KvCache, GoingBackTwiceCountsFromTheFarthest) {
  auto cache = KvCache::Create(WindowConfig(), {.n_positions = 1000, .max_batch = 8});
  ASSERT_TRUE(cache);
  cache->Extend(100);
  EXPECT_EQ(cache->GoBack(70), 70);
  EXPECT_EQ(cache->GoBack(50), 0);
  cache->Extend(8);
  EXPECT_EQ(cache->GoBack(2), 2) << "empty, it begins anew";
}

TEST(KvCache, RefusesBlocksForHeadsThatAreNoMultipleOf32) {
  ModelConfig keys = BlockConfig();
  keys.layers[1].heads.size = 80;
  ModelConfig values = BlockConfig();
  values.layers[1].heads.v_size = 80;
  for (const ModelConfig& config : {keys, values}) {
    const auto cache = KvCache::Create(config, {.type = KvType::kQ8_0, .n_positions = 7});
    ASSERT_FALSE(cache);
    EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(cache.error().message, HasSubstr("have 80: take f16 or f32"));
    EXPECT_TRUE(KvCache::CheckType(config, KvType::kF16));
  }
  EXPECT_TRUE(KvCache::CheckType(BlockConfig(), KvType::kQ8_0));
}

TEST(KvCache, KeepsHalvesAsTheKernelsTakeThemWhereAllHeadsCan) {
  ModelConfig mixed = BlockConfig();
  mixed.layers[2].heads.v_size = 80;
  for (const KernelTable* table : AllKernelTables()) {
    EXPECT_EQ(KvCache::TypeToKeep(BlockConfig(), KvType::kF16, *table), table->halves);
    EXPECT_EQ(KvCache::TypeToKeep(mixed, KvType::kF16, *table), KvType::kF16);
    for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kQ8_0}) {
      EXPECT_EQ(KvCache::TypeToKeep(BlockConfig(), type, *table), type);
    }
  }
  KernelTable table = *AllKernelTables().back();
  table.halves = KvType::kI16;
  EXPECT_EQ(KvCache::TypeToKeep(BlockConfig(), KvType::kF16, table), KvType::kI16);
}

TEST(KvCache, MoreThanTheMachineHasIsAnError) {
  const auto cache =
      KvCache::Create(Config(), {.type = KvType::kF32, .n_positions = int64_t{1} << 50});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thaw
